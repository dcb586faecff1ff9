#include "worker/function_registry.h"

#include <algorithm>
#include <numeric>

namespace lambent::worker {

void FunctionRegistry::put(FunctionSpec spec) {
  names_[spec.id] = spec.name;
  const FunctionName name = spec.name;
  by_name_[name] = std::move(spec);
}

void FunctionRegistry::remove(const FunctionName& name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return;
  names_.erase(found->second.id);
  by_name_.erase(found);
}

const FunctionSpec* FunctionRegistry::find(const FunctionName& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &found->second;
}

const FunctionSpec* FunctionRegistry::find(FunctionId id) const {
  const auto found = names_.find(id);
  return found == names_.end() ? nullptr : find(found->second);
}

Result<const FunctionSpec*> FunctionRegistry::get(const FunctionName& name) const {
  if (const FunctionSpec* spec = find(name)) return spec;
  std::string message = "function '" + name.name + "' does not exist";
  size_t best = 3;  // farther words are no help
  std::string closest;
  for (auto it = by_name_.lower_bound({name.tenant, ""});
       it != by_name_.end() && it->first.tenant == name.tenant; ++it) {
    const size_t distance = edit_distance(it->first.name, name.name);
    if (distance < best) {
      best = distance;
      closest = it->first.name;
    }
  }
  if (!closest.empty()) message += "; did you mean '" + closest + "'?";
  return Error{ErrorCode::kNotFound, message};
}

std::vector<FunctionSpec> FunctionRegistry::list(TenantId tenant, const std::string& after,
                                                 size_t limit) const {
  std::vector<FunctionSpec> specs;
  for (auto it = by_name_.upper_bound({tenant, after});
       it != by_name_.end() && it->first.tenant == tenant && specs.size() < limit; ++it) {
    specs.push_back(it->second);
  }
  return specs;
}

std::vector<FunctionSpec> FunctionRegistry::all() const {
  std::vector<FunctionSpec> specs;
  for (const auto& [name, spec] : by_name_) specs.push_back(spec);
  return specs;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace lambent::worker
