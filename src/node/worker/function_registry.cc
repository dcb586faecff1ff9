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
  ++changes_;
  const FunctionSpec* before = find(spec.id);
  if (before == nullptr || renews_sandboxes || !keeps_sandboxes(*before, spec)) {
    sandbox_revisions_[spec.id] = spec.revision;
  }
  const FunctionName name = spec.name;
  const FunctionName function = function_of(name);
  leave_totals(function);
  codes_.add(spec.code_sha256);
  if (const FunctionSpec* replaced = find(name)) codes_.drop(replaced->code_sha256);
  if (spec.min_instances > 0) {
    with_instances_.insert(name);
  } else {
    with_instances_.erase(name);
  }
  FunctionSpec& stored = by_name_[name];
  if (stored.id != spec.id) by_id_.erase(stored.id);
  stored = std::move(spec);
  by_id_[stored.id] = &stored;
  enter_totals(function);
}

void FunctionRegistry::remove(const FunctionName& name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return;
  ++changes_;
  const FunctionName function = function_of(name);
  leave_totals(function);
  codes_.drop(found->second.code_sha256);
  with_instances_.erase(name);
  by_id_.erase(found->second.id);
  sandbox_revisions_.erase(found->second.id);
  by_name_.erase(found);
  enter_totals(function);
}

const FunctionSpec* FunctionRegistry::find(const FunctionName& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &found->second;
}

const FunctionSpec* FunctionRegistry::find(FunctionId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
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
    if (distance < best && distance <= std::max<size_t>(1, it->first.name.size() / 3)) {
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

FunctionId FunctionRegistry::account_of(const FunctionName& name) const {
  if (!is_version_record(name)) return {};
  const FunctionSpec* function = find(function_of(name));
  return function == nullptr ? FunctionId{} : function->id;
}

FunctionTotals FunctionRegistry::totals(TenantId tenant) const {
  const auto found = totals_.find(tenant);
  return found == totals_.end() ? FunctionTotals{} : found->second;
}

// Code that a function and its versions have in common is kept once.
FunctionTotals FunctionRegistry::totals_with_versions(const FunctionName& function) const {
  FunctionTotals totals;
  std::set<std::string_view> counted;
  const auto add = [&](const FunctionSpec& spec) {
    if (counted.insert(spec.code_sha256).second) totals.code += spec.code_size;
  };
  if (const FunctionSpec* now = find(function)) {
    if (!is_kept_graph(function)) ++totals.functions;
    add(*now);
  }
  const auto end = by_name_.lower_bound({function.tenant, function.name + ";"});
  for (auto it = by_name_.lower_bound({function.tenant, function.name + ":"}); it != end; ++it) {
    add(it->second);
  }
  return totals;
}

void FunctionRegistry::leave_totals(const FunctionName& function) {
  const auto found = totals_.find(function.tenant);
  if (found == totals_.end()) return;
  const FunctionTotals own = totals_with_versions(function);
  found->second.functions -= own.functions;
  found->second.code -= own.code;
}

void FunctionRegistry::enter_totals(const FunctionName& function) {
  const FunctionTotals own = totals_with_versions(function);
  FunctionTotals& all = totals_[function.tenant];
  all.functions += own.functions;
  all.code += own.code;
  if (all.functions == 0 && all.code == Bytes(0)) totals_.erase(function.tenant);
}

std::vector<FunctionSpec> FunctionRegistry::with_instances() const {
  std::vector<FunctionSpec> specs;
  for (const FunctionName& name : with_instances_) specs.push_back(by_name_.at(name));
  return specs;
}

}  // namespace lambent::worker
