#include "node/worker/recent_invocations.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "core/domain/version.h"

namespace lambent::worker {
namespace {

// A function may be removed while invocations of it go on: what is counted then is bounded, too.
constexpr size_t kCountedFunctions = 32'768;

// Handlers choose these texts.
std::string first_of(const std::string& text) { return text.substr(0, kRecentError); }

void count(const InvocationResult& result, RecentInvocations::Counts& counts) {
  if (result.outcome == Outcome::kRejected) {
    ++counts.refused;
    return;
  }
  if (result.outcome == Outcome::kFunctionError) ++counts.failed;
  switch (result.start) {
    case StartClass::kCold:
      ++counts.cold;
      break;
    case StartClass::kGpuCold:
      ++counts.gpu_cold;
      break;
    case StartClass::kWarm:
      ++counts.warm;
      break;
  }
  if (result.in_time) ++(*result.in_time ? counts.in_time : counts.late);
  counts.latency.add(result.phases.total());
}

}  // namespace

RecentInvocations::OfTenant& RecentInvocations::of(TenantId tenant) {
  if (!tenants_.contains(tenant) && tenants_.size() >= kRecentTenants) {
    tenants_.erase(std::ranges::min_element(tenants_, {},
                                            [](const auto& each) { return each.second.last_use; }));
  }
  OfTenant& found = tenants_[tenant];
  found.last_use = ++uses_;
  return found;
}

void RecentInvocations::ended(const FunctionName& function, const InvocationResult& result,
                              Duration wall_now) {
  FunctionName name = function_of(function);
  if (counts_.size() < kCountedFunctions || counts_.contains(name)) count(result, counts_[name]);
  OfTenant& tenant = of(function.tenant);
  if (tenant.ended.size() >= kRecentPerTenant) tenant.ended.pop_front();
  tenant.ended.push_back({.sequence = ++tenant.last_sequence,
                          .id = result.id,
                          .function = std::move(name.name),
                          .version = version_of(function),
                          .outcome = result.outcome,
                          .error_type = first_of(result.error_type),
                          .error = result.error ? first_of(result.error->message) : "",
                          .start = result.start,
                          .phases = result.phases,
                          .wait_reason = result.wait_reason,
                          .device = result.device,
                          .beside = result.beside,
                          .ended = wall_now,
                          .in_time = result.in_time,
                          .device_memory_peak = result.device_memory_peak,
                          .host_memory_peak = result.host_memory_peak,
                          .run = result.runs,
                          .again_in = result.again_in});
}

std::vector<EndedInvocation> RecentInvocations::find(TenantId tenant,
                                                     const EndedQuery& query) const {
  std::vector<EndedInvocation> found;
  const auto of_tenant = tenants_.find(tenant);
  if (of_tenant == tenants_.end()) return found;
  for (const EndedInvocation& each : std::views::reverse(of_tenant->second.ended)) {
    if (each.sequence <= query.after || found.size() >= query.limit) break;
    if (query.before != 0 && each.sequence >= query.before) continue;
    if (query.function.empty() || each.function == query.function) found.push_back(each);
  }
  return found;
}

const EndedInvocation* RecentInvocations::find(TenantId tenant, InvocationId id) const {
  const auto of_tenant = tenants_.find(tenant);
  if (of_tenant == tenants_.end()) return nullptr;
  const auto& ended = of_tenant->second.ended;
  const auto found = std::find_if(ended.rbegin(), ended.rend(),
                                  [&](const EndedInvocation& each) { return each.id == id; });
  return found == ended.rend() ? nullptr : &*found;
}

const RecentInvocations::Counts* RecentInvocations::counts(const FunctionName& function) const {
  const auto found = counts_.find(function);
  return found == counts_.end() ? nullptr : &found->second;
}

void RecentInvocations::forget(TenantId tenant) {
  tenants_.erase(tenant);
  std::erase_if(counts_, [&](const auto& each) { return each.first.tenant == tenant; });
}

}  // namespace lambent::worker
