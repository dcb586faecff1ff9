// The flags for what becomes of the device memory of functions' buffers between their requests.
// Used by the mains of executors and of workers, which hand them on.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bin/flag_checks.h"
#include "scheduling/pool_scaling.h"

namespace lambent::bin {

inline void add_pool_rule(CLI::App& app, const std::string& flag, scheduling::PoolRule& rule) {
  using scheduling::PoolRule;
  std::vector<std::pair<std::string, PoolRule>> rules;
  for (const auto each : {PoolRule::kResilient, PoolRule::kFineGrained, PoolRule::kStatic}) {
    rules.emplace_back(scheduling::name_of(each), each);
  }
  app.add_option(flag, rule,
                 "device memory of kernel functions' buffers between requests: resilient gives it "
                 "back, fine-grained keeps it, static keeps it and takes it before the first")
      ->type_name("TEXT")
      ->transform(one_of(std::move(rules)))
      ->default_str(std::string(scheduling::name_of(rule)));
}

}  // namespace lambent::bin
