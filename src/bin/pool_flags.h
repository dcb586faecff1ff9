// The flag for when functions' buffers have device memory.
// Used by the mains of executors and of workers, which hand them on.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bin/flag_checks.h"
#include "core/domain/executor_pool.h"

namespace lambent::bin {

inline void add_pool_rule(CLI::App& app, const std::string& flag, ExecutorPool& pool) {
  std::vector<std::pair<std::string, ExecutorPool>> rules;
  for (const ExecutorPool each : kExecutorPools) rules.emplace_back(name_of(each), each);
  app.add_option(flag, pool,
                 "when kernel functions' buffers give back memory; see "
                 "docs/guides/kernel-functions.md")
      ->type_name("TEXT")
      ->transform(one_of(std::move(rules)))
      ->default_str(std::string(name_of(pool)));
}

}  // namespace lambent::bin
