#include "sim/workload/function_table.h"

#include <algorithm>
#include <numeric>

#include "sim/workload/limits.h"

namespace lambent::workload {

Result<uint32_t> FunctionTable::index_of(std::string_view name) {
  if (const auto known = find(name)) return *known;
  if (functions_.size() == limits::kTraceFunctions) {
    return Error{
        ErrorCode::kResourceExhausted,
        "a trace may have at most " + std::to_string(limits::kTraceFunctions) + " functions"};
  }
  const auto index = static_cast<uint32_t>(functions_.size());
  indices_.emplace(name, index);
  functions_.push_back({.name = std::string(name)});
  return index;
}

std::optional<uint32_t> FunctionTable::find(std::string_view name) const {
  const auto found = indices_.find(name);
  if (found == indices_.end()) return std::nullopt;
  return found->second;
}

Result<std::vector<uint32_t>> choose_functions(std::vector<TraceFunction>& functions,
                                               const std::vector<uint64_t>& counts,
                                               const std::vector<std::string>& only,
                                               size_t busiest) {
  std::vector<uint32_t> order(functions.size());
  std::iota(order.begin(), order.end(), 0);
  for (const std::string& name : only) {
    const auto has_name = [&](const TraceFunction& f) { return f.name == name; };
    if (std::none_of(functions.begin(), functions.end(), has_name)) {
      return Error{ErrorCode::kNotFound, "the trace has no function '" + name + "'"};
    }
  }
  if (!only.empty()) {
    std::erase_if(order, [&](uint32_t i) {
      return std::find(only.begin(), only.end(), functions[i].name) == only.end();
    });
  }
  if (busiest > 0 && order.size() > busiest) {
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return counts[a] > counts[b]; });
    order.resize(busiest);
    std::sort(order.begin(), order.end());
  }
  std::vector<uint32_t> new_index(functions.size(), kNotChosen);
  std::vector<TraceFunction> chosen;
  for (const uint32_t i : order) {
    new_index[i] = static_cast<uint32_t>(chosen.size());
    chosen.push_back(std::move(functions[i]));
  }
  functions = std::move(chosen);
  return new_index;
}

}  // namespace lambent::workload
