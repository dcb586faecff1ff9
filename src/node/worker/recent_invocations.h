// RecentInvocations: the last invocations of each tenant, and what became of each function's since
// the worker began. Bounded. Pure; written by Completions and Intake, read by WorkerActivity, on
// the loop thread.
#pragma once

#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

#include "core/domain/activity.h"

namespace lambent::worker {

class RecentInvocations {
 public:
  struct Counts {
    uint64_t cold = 0, gpu_cold = 0, warm = 0;
    uint64_t failed = 0;   // of these
    uint64_t refused = 0;  // never ran
    uint64_t in_time = 0, late = 0;
    LatencyHistogram latency;  // of those that ran
  };

  // `function` may be a version's record; it counts for its function.
  void ended(const FunctionName& function, const InvocationResult& result, Duration wall_now);

  // As ActivityService.
  std::vector<EndedInvocation> find(TenantId tenant, const EndedQuery& query) const;
  const EndedInvocation* find(TenantId tenant, InvocationId id) const;
  // Null: none of its invocations has ended.
  const Counts* counts(const FunctionName& function) const;

  // The function is gone. Its invocations are still remembered.
  void forget(const FunctionName& function) { counts_.erase(function); }
  void forget(TenantId tenant);

 private:
  struct OfTenant {
    std::deque<EndedInvocation> ended;  // the newest last
    uint64_t last_sequence = 0;
    uint64_t last_use = 0;
  };
  OfTenant& of(TenantId tenant);

  std::unordered_map<TenantId, OfTenant> tenants_;
  std::map<FunctionName, Counts> counts_;
  uint64_t uses_ = 0;
};

}  // namespace lambent::worker
