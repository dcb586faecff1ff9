// WorkerActivity: what the dashboard asks of the worker: what ended recently, what waits and runs,
// and what each function does. Changes nothing. Used by Worker on the loop thread.
#pragma once

#include <string>
#include <vector>

#include "core/domain/activity.h"
#include "node/worker/recent_invocations.h"
#include "node/worker/worker_status.h"

namespace lambent::worker {

class WorkerActivity final : public ActivityService {
 public:
  // Both outlive it. It uses what the status does.
  WorkerActivity(const WorkerStatus& status, const RecentInvocations& recent)
      : status_(status), uses_(status.uses()), recent_(recent) {}

  std::vector<EndedInvocation> ended(TenantId tenant, const EndedQuery& query) const override;
  Result<EndedInvocation> ended(TenantId tenant, InvocationId id) const override;
  std::vector<LiveInvocationStatus> live(TenantId tenant, size_t limit) const override;
  std::vector<GpuRun> gpu_runs(TenantId tenant) const override;
  std::vector<FunctionActivity> functions(TenantId tenant, const std::string& after,
                                          size_t limit) const override;
  Result<FunctionActivity> function(const FunctionName& name) const override;
  LatencyHistogram latencies(const FunctionName& name) const override;
  Result<FunctionGraph> graph(const FunctionName& name) const override;

 private:
  FunctionActivity activity_of(const FunctionSpec& spec) const;

  const WorkerStatus& status_;
  const WorkerStatus::Dependencies& uses_;
  const RecentInvocations& recent_;
};

}  // namespace lambent::worker
