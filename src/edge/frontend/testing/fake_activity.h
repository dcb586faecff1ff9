// An ActivityService whose answers the test sets. Included by tests only; one thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/domain/activity.h"

namespace lambent::frontend {

class FakeActivity final : public ActivityService {
 public:
  std::map<TenantId, std::map<std::string, FunctionActivity>> rows;
  std::map<TenantId, std::vector<EndedInvocation>> over;  // the newest first
  std::map<TenantId, std::vector<LiveInvocationStatus>> waiting;

  std::vector<EndedInvocation> ended(TenantId tenant, const EndedQuery& query) const override {
    std::vector<EndedInvocation> found;
    const auto of_tenant = over.find(tenant);
    if (of_tenant == over.end()) return found;
    for (const EndedInvocation& each : of_tenant->second) {
      if (each.sequence <= query.after || found.size() >= query.limit) break;
      if (query.before != 0 && each.sequence >= query.before) continue;
      if (query.function.empty() || query.function == each.function) found.push_back(each);
    }
    return found;
  }
  Result<EndedInvocation> ended(TenantId tenant, InvocationId id) const override {
    for (const EndedInvocation& each : ended(tenant, EndedQuery{})) {
      if (each.id == id) return each;
    }
    return Error{ErrorCode::kNotFound, "no such invocation is remembered"};
  }
  std::vector<LiveInvocationStatus> live(TenantId tenant, size_t) const override {
    const auto found = waiting.find(tenant);
    return found == waiting.end() ? std::vector<LiveInvocationStatus>() : found->second;
  }
  std::vector<GpuRun> gpu_runs(TenantId) const override { return {{.device = DeviceId{1}}}; }
  std::vector<FunctionActivity> functions(TenantId tenant, const std::string& after,
                                          size_t limit) const override {
    std::vector<FunctionActivity> page;
    const auto of_tenant = rows.find(tenant);
    if (of_tenant == rows.end()) return page;
    for (auto next = of_tenant->second.upper_bound(after);
         next != of_tenant->second.end() && page.size() < limit; ++next) {
      page.push_back(next->second);
    }
    return page;
  }
  Result<FunctionActivity> function(const FunctionName& name) const override {
    const auto page = functions(name.tenant, "", 1'000);
    for (const FunctionActivity& each : page) {
      if (each.name == name.name) return each;
    }
    return Error{ErrorCode::kNotFound, "no such function"};
  }
  LatencyHistogram latencies(const FunctionName&) const override {
    LatencyHistogram histogram;
    histogram.add(milliseconds(10));
    return histogram;
  }
  Result<FunctionGraph> graph(const FunctionName&) const override {
    return Error{ErrorCode::kFailedPrecondition, "it is no workflow"};
  }
};

}  // namespace lambent::frontend
