#include "node/worker/function_registry.h"

#include <algorithm>
#include <set>

#include "core/base/spelling.h"
#include "core/domain/kernel_graph_service.h"
#include "core/domain/version.h"

namespace lambent::worker {
namespace {

// A suggestion is worth a millisecond of the loop's time, not more.
constexpr size_t kMostCompared = 500;

}  // namespace

void FunctionRegistry::put(FunctionSpec spec, bool renews_sandboxes) {
  const FunctionSpec* before = find(spec.id);
  if (before == nullptr || renews_sandboxes || !keeps_sandboxes(*before, spec)) {
    sandbox_revisions_[spec.id] = spec.revision;
  }
  names_[spec.id] = spec.name;
  const FunctionName name = spec.name;
  by_name_[name] = std::move(spec);
}

void FunctionRegistry::remove(const FunctionName& name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return;
  names_.erase(found->second.id);
  sandbox_revisions_.erase(found->second.id);
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

uint64_t FunctionRegistry::sandbox_revision(FunctionId id) const {
  const auto found = sandbox_revisions_.find(id);
  return found == sandbox_revisions_.end() ? 0 : found->second;
}

Result<const FunctionSpec*> FunctionRegistry::get(const FunctionName& name) const {
  if (const FunctionSpec* spec = find(name)) return spec;
  std::string message = "function '" + name.name + "' does not exist";
  size_t compared = 0;
  size_t best = 3;  // farther words are no help
  std::string closest;
  for (auto it = by_name_.lower_bound({name.tenant, ""});
       it != by_name_.end() && it->first.tenant == name.tenant && compared++ < kMostCompared;
       ++it) {
    if (is_version_record(it->first) || is_kept_graph(it->first)) continue;
    const size_t distance = edit_distance(it->first.name, name.name);
    if (distance < best) {
      best = distance;
      closest = it->first.name;
    }
  }
  if (!closest.empty()) message += suggestion(closest);
  return Error{ErrorCode::kNotFound, message};
}

std::vector<FunctionSpec> FunctionRegistry::list(TenantId tenant, const std::string& after,
                                                 size_t limit) const {
  std::vector<FunctionSpec> specs;
  for (const FunctionSpec* spec : page(tenant, after, limit)) specs.push_back(*spec);
  return specs;
}

std::vector<const FunctionSpec*> FunctionRegistry::page(TenantId tenant, const std::string& after,
                                                        size_t limit) const {
  std::vector<const FunctionSpec*> specs;
  for (auto it = by_name_.upper_bound({tenant, after});
       it != by_name_.end() && it->first.tenant == tenant && specs.size() < limit; ++it) {
    if (is_version_record(it->first) || is_kept_graph(it->first)) continue;
    specs.push_back(&it->second);
  }
  return specs;
}

std::vector<const FunctionSpec*> FunctionRegistry::versions(const FunctionName& function) const {
  std::vector<const FunctionSpec*> versions;
  // No name of a function has a colon, and ';' follows it.
  const auto end = by_name_.lower_bound({function.tenant, function.name + ";"});
  for (auto it = by_name_.lower_bound({function.tenant, function.name + ":"}); it != end; ++it) {
    versions.push_back(&it->second);
  }
  std::ranges::sort(versions, {}, [](const FunctionSpec* version) {
    return version_number(version_of(version->name)).value_or(0);
  });
  return versions;
}

// Code that a function and its versions have in common is kept once.
Bytes FunctionRegistry::code_of_version(const FunctionSpec& version, CountedCode& counted) const {
  const FunctionName function = function_of(version.name);
  if (counted.function != function) counted = {function, {}};
  const FunctionSpec* now = find(function);
  const bool is_functions = now != nullptr && now->code_sha256 == version.code_sha256;
  const bool is_new = !is_functions && counted.sha256.insert(version.code_sha256).second;
  return is_new ? version.code_size : Bytes(0);
}

FunctionId FunctionRegistry::account_of(const FunctionName& name) const {
  if (!is_version_record(name)) return {};
  const FunctionSpec* function = find(function_of(name));
  return function == nullptr ? FunctionId{} : function->id;
}

FunctionTotals FunctionRegistry::totals(TenantId tenant) const {
  FunctionTotals totals;
  CountedCode counted;
  for (auto it = by_name_.lower_bound({tenant, ""});
       it != by_name_.end() && it->first.tenant == tenant; ++it) {
    if (is_version_record(it->first)) {
      totals.code += code_of_version(it->second, counted);
      continue;
    }
    if (!is_kept_graph(it->first)) ++totals.functions;
    totals.code += it->second.code_size;
  }
  return totals;
}

std::vector<FunctionSpec> FunctionRegistry::all() const {
  std::vector<FunctionSpec> specs;
  for (const auto& [name, spec] : by_name_) specs.push_back(spec);
  return specs;
}

}  // namespace lambent::worker
