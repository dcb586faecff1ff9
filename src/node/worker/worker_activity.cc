#include "node/worker/worker_activity.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/domain/model_function.h"
#include "core/domain/version.h"
#include "node/worker/flow_of.h"

namespace lambent::worker {
namespace {

// Of those that have no outcome, so that a long queue does not hold up the loop.
constexpr size_t kMostLookedAt = 2'048;

}  // namespace

std::vector<EndedInvocation> WorkerActivity::ended(TenantId tenant, const EndedQuery& query) const {
  return recent_.find(tenant, query);
}

Result<EndedInvocation> WorkerActivity::ended(TenantId tenant, InvocationId id) const {
  const EndedInvocation* found = recent_.find(tenant, id);
  if (found != nullptr) return *found;
  return Error{ErrorCode::kNotFound, "no such invocation is among the last " +
                                         std::to_string(kRecentPerTenant) + " that ended"};
}

std::vector<LiveInvocationStatus> WorkerActivity::live(TenantId tenant, size_t limit) const {
  const Instant now = uses_.loop.clock().now();
  std::vector<LiveInvocationStatus> all;
  for (const LiveInvocation* live : uses_.live.some(tenant, kMostLookedAt)) {
    LiveInvocationStatus status{.id = live->request.id,
                                .function = function_of(live->request.function).name,
                                .phase = "running"};
    // Runs of workflows, and pipelines over slices, are not dispatch's.
    if (const auto explained = uses_.dispatcher.explain(live->request.id, now)) {
      status.phase = name_of(explained->state);
      status.waited = explained->waited;
      status.wait_reason = scheduling::name_of(explained->reason);
    }
    if (const auto waited = uses_.mounts.waited(live->request.id)) {
      status.phase = "queued";
      status.waited = *waited;
      status.wait_reason = kFilesComing;
    }
    if (live->request.kind == InvocationKind::kAsynchronous) status.run = live->runs + 1;
    all.push_back(std::move(status));
  }
  const Duration wall_now = uses_.loop.clock().wall_now();
  for (const auto& [id, waiting] : uses_.follow_ups.some(tenant, kMostLookedAt)) {
    all.push_back({.id = id,
                   .function = function_of(waiting->function).name,
                   .phase = "waiting",
                   .run = waiting->runs + 1,
                   .due_in = std::max(waiting->due_at - wall_now, Duration(0)),
                   .last_failure = waiting->last_failure});
  }
  std::ranges::sort(all, [](const auto& a, const auto& b) {
    return std::pair(a.phase != "queued", b.waited) < std::pair(b.phase != "queued", a.waited);
  });
  if (all.size() > limit) all.resize(limit);
  return all;
}

// Functions of other tenants are not named.
std::vector<GpuRun> WorkerActivity::gpu_runs(TenantId tenant) const {
  std::vector<GpuRun> runs;
  for (const dispatch::TokenHolder& holder :
       uses_.dispatcher.token_holders(uses_.loop.clock().now())) {
    GpuRun run{.device = holder.device, .held = holder.held};
    const FunctionSpec* spec = uses_.functions.find(holder.function);
    if (spec != nullptr && spec->name.tenant == tenant) {
      run.function = function_of(spec->name).name;
      if (holder.invocation != InvocationId{}) run.invocation = holder.invocation;
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<FunctionActivity> WorkerActivity::functions(TenantId tenant, const std::string& after,
                                                        size_t limit) const {
  std::unordered_map<std::string, uint64_t> sandboxes;
  for (const SandboxStatus& sandbox : uses_.backends.status(Metering::kNone)) {
    if (sandbox.function.tenant == tenant) ++sandboxes[function_of(sandbox.function).name];
  }
  std::vector<FunctionActivity> all;
  for (const FunctionSpec* spec : uses_.functions.page(tenant, after, limit)) {
    FunctionActivity& activity = all.emplace_back(activity_of(*spec));
    const auto found = sandboxes.find(activity.name);
    if (found != sandboxes.end()) activity.sandboxes = found->second;
  }
  return all;
}

FunctionActivity WorkerActivity::activity_of(const FunctionSpec& spec) const {
  const WorkerStatus::Counts now = status_.counts(spec);
  FunctionActivity activity{.name = spec.name.name,
                            .kind = spec.kind,
                            .serves_model = serves_model(spec),
                            .queued = now.queued,
                            .running = now.running};
  // Invocations of versions are dispatched as functions of their own.
  for (const FunctionSpec* version : uses_.functions.versions(spec.name)) {
    const WorkerStatus::Counts of_version = status_.counts(*version);
    activity.queued += of_version.queued;
    activity.running += of_version.running;
  }
  const scheduling::Flow* flow = flow_of(uses_.dispatcher, spec.id);
  if (flow != nullptr && flow->pending + flow->in_flight > 0) {
    const auto status = uses_.dispatcher.status(spec.id, uses_.loop.clock().now());
    activity.ahead = std::max(Duration(0), status.virtual_time - status.global);
  }
  const RecentInvocations::Counts* counts = recent_.counts(spec.name);
  if (counts == nullptr) return activity;
  activity.cold = counts->cold;
  activity.gpu_cold = counts->gpu_cold;
  activity.warm = counts->warm;
  activity.failed = counts->failed;
  activity.refused = counts->refused;
  activity.in_time = counts->in_time;
  activity.late = counts->late;
  activity.p50 = counts->latency.percentile(0.5);
  activity.p95 = counts->latency.percentile(0.95);
  activity.p99 = counts->latency.percentile(0.99);
  return activity;
}

Result<FunctionActivity> WorkerActivity::function(const FunctionName& name) const {
  ASSIGN_OR_RETURN(const FunctionSpec* spec, uses_.functions.get(name));
  FunctionActivity activity = activity_of(*spec);
  for (const SandboxStatus& sandbox : uses_.backends.status(Metering::kNone)) {
    if (function_of(sandbox.function) == name) ++activity.sandboxes;
  }
  return activity;
}

LatencyHistogram WorkerActivity::latencies(const FunctionName& name) const {
  const RecentInvocations::Counts* counts = recent_.counts(name);
  return counts == nullptr ? LatencyHistogram() : counts->latency;
}

Result<FunctionGraph> WorkerActivity::graph(const FunctionName& name) const {
  ASSIGN_OR_RETURN(const FunctionSpec* spec, uses_.functions.get(name));
  const workflow::Workflow* workflow = uses_.workflows.graph(spec->id);
  if (workflow == nullptr) {
    return Error{
        ErrorCode::kFailedPrecondition,
        "function '" + name.name + "' is a " + std::string(name_of(spec->kind)) + ", no workflow"};
  }
  FunctionGraph graph;
  for (uint32_t i = 0; i < workflow->components.size(); ++i) {
    const workflow::Component& component = workflow->components[i];
    graph.nodes.push_back({component.name, component.function, component.for_each.has_value(),
                           component.when.has_value()});
    for (const uint32_t need : component.needs) graph.edges.emplace_back(need, i);
  }
  return graph;
}

}  // namespace lambent::worker
