// FunctionTable: gives the functions of a trace their indices while it is read, and afterwards
// keeps only the chosen ones. Pure; used by the trace readers.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "workload/trace.h"

namespace lambent::workload {

class FunctionTable {
 public:
  // The index of the function of that name, new or known. RESOURCE_EXHAUSTED beyond
  // limits::kTraceFunctions.
  Result<uint32_t> index_of(std::string_view name);
  TraceFunction& at(uint32_t index) { return functions_[index]; }
  size_t size() const { return functions_.size(); }
  std::vector<TraceFunction> take() { return std::move(functions_); }

 private:
  std::unordered_map<std::string, uint32_t> indices_;
  std::vector<TraceFunction> functions_;
};

constexpr uint32_t kNotChosen = UINT32_MAX;

// Keeps the functions of `only` (empty: all) and of those the `busiest` (0: all) by `counts`, in
// their old order. Gives the new index of each old one, or kNotChosen. NOT_FOUND if `only` names a
// function that the trace does not have.
Result<std::vector<uint32_t>> choose_functions(std::vector<TraceFunction>& functions,
                                               const std::vector<uint64_t>& counts,
                                               const std::vector<std::string>& only,
                                               size_t busiest);

}  // namespace lambent::workload
