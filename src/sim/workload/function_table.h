// FunctionTable: gives the functions of a trace their indices while it is read, and afterwards
// keeps only the chosen ones. Pure; used by the trace readers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/result.h"
#include "sim/workload/trace.h"

namespace lambent::workload {

class FunctionTable {
 public:
  // The index of the function of that name, new or known. RESOURCE_EXHAUSTED beyond
  // limits::kTraceFunctions.
  Result<uint32_t> index_of(std::string_view name);
  // The same of a function that is known; nothing of another.
  std::optional<uint32_t> find(std::string_view name) const;
  TraceFunction& at(uint32_t index) { return functions_[index]; }
  size_t size() const { return functions_.size(); }
  // The functions, by index; find() still knows where each is.
  std::vector<TraceFunction> take() { return std::move(functions_); }

 private:
  // Looks up a piece of a row without making a string of it.
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>> indices_;
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
