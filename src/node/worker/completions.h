// Completions: the end of every invocation, wherever it was served: its result goes to the clients
// that wait, to the catalog, to its objects and to the metrics. Used by the parts of Worker on the
// loop thread.
#pragma once

#include <functional>

#include "core/base/log.h"
#include "core/loop/event_loop.h"
#include "core/metrics/worker_metrics.h"
#include "node/catalog/catalog.h"
#include "node/worker/drain.h"
#include "node/worker/follow_ups.h"
#include "node/worker/idempotency.h"
#include "node/worker/invocation_objects.h"
#include "node/worker/learnt_statistics.h"
#include "node/worker/live_invocations.h"
#include "node/worker/mount_waits.h"
#include "node/worker/pipeline_host.h"
#include "node/worker/recent_invocations.h"
#include "node/worker/workflow_host.h"

namespace lambent::worker {

class Completions {
 public:
  // All outlive it; the constructor uses none.
  struct Dependencies {
    loop::EventLoop& loop;
    LogSink& log;
    catalog::Catalog& catalog;
    metrics::WorkerMetrics& metrics;
    LiveInvocations& live;
    IdempotencyTable& idempotency;
    Drain& drain;
    InvocationObjects* objects;  // null: there are no objects
    MountWaits& mounts;
    WorkflowHost& workflows;
    PipelineHost& pipelines;
    RecentInvocations& recent;
    FollowUps& follow_ups;
    LearntStatistics& statistics;
    // Told of every one that has its outcome; may be empty.
    std::function<void(const InvocationRequest&, const InvocationResult&)> observe = {};
  };

  explicit Completions(Dependencies dependencies) : uses_(dependencies) {}

  // Those that wait for what their functions mount; their waits end with them.
  MountWaits& mounts() const { return uses_.mounts; }

  // It has its place and runs: of an asynchronous one the catalog counts that as an attempt, once
  // for each worker, however often it begins here. `done`, which may be empty, is called when that
  // is durable or cannot be; at once if there is nothing to count.
  void note_begun(LiveInvocation& live, std::function<void()> done = {});
  // Takes it out of the live ones.
  void complete(InvocationResult result);
  void complete(LiveInvocation live, InvocationResult result);
  // Of one that is answered elsewhere: in the metrics and among the recent ones.
  void count(const FunctionName& function, const InvocationResult& result);
  // It never ran.
  void reject(InvocationId id, Error error);

 private:
  void add_wait_for_mounts(LiveInvocation& live, InvocationResult& result);
  void log_completion(const LiveInvocation& live, const InvocationResult& result);

  const Dependencies uses_;
};

}  // namespace lambent::worker
