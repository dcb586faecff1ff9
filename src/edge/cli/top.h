// lambent top: what a worker does now, its GPUs, functions and queue, over and over in a terminal,
// once elsewhere.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/time.h"
#include "edge/cli/console.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

struct TopOptions {
  Duration every = seconds(1);
  uint64_t times = 0;  // then it ends; zero: when it is interrupted
  bool live = false;   // what was shown before is replaced; else it stays above
  // Lines and columns of the terminal now; zero: all of it is shown.
  std::function<std::pair<size_t, size_t>()> size = [] { return std::pair<size_t, size_t>(0, 0); };
  // False: it is to end.
  std::function<bool(Duration)> pause = {};
};

// What one answer of each kind shows. Pure.
std::string top_text(const nlohmann::ordered_json& devices, const nlohmann::ordered_json& functions,
                     const nlohmann::ordered_json& live);
// As many of its lines and columns as fit; zero: all.
std::string fitted(const std::string& text, size_t lines, size_t columns);

int run_top(Transport& transport, Console& console, const TopOptions& options);

}  // namespace lambent::cli
