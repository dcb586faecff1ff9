// Cancellation: ends an invocation because its tenant asked for it, wherever it is: it waits, it
// starts or it runs. Used by Worker on the loop thread.
#pragma once

#include "core/domain/cancelled_invocation.h"
#include "node/worker/backends.h"
#include "node/worker/completions.h"
#include "node/worker/dispatch_driver.h"
#include "node/worker/function_registry.h"
#include "node/worker/mount_waits.h"

namespace lambent::worker {

class Cancellation {
 public:
  // All outlive it; the constructor uses none.
  struct Dependencies {
    const loop::EventLoop& loop;
    const dispatch::Dispatcher& dispatcher;
    const FunctionRegistry& functions;
    const RecentInvocations& recent;
    const Drain& drain;
    LiveInvocations& live;
    InvocationObjects* objects;  // null: there are no objects
    WorkflowHost& workflows;
    PipelineHost& pipelines;
    Backends& backends;
    DispatchDriver& driver;
    Completions& completions;
    FollowUps& follow_ups;
  };

  explicit Cancellation(Dependencies dependencies) : uses_(dependencies) {}

  // Where it was. One that waited has its outcome when this returns. One that starts has it as soon
  // as its sandbox is ready, which stays; one that runs, as soon as its sandbox is gone. NOT_FOUND;
  // FAILED_PRECONDITION: it has ended, or nothing can take it from where it runs; UNAVAILABLE: the
  // worker stops.
  Result<CancelledInvocation> cancel(TenantId tenant, InvocationId id);
  // Its event is too old to be run; one that runs, or is about to, goes on.
  void end_if_it_waits(InvocationId id);

 private:
  bool waits_before_its_queue(InvocationId id) const;
  Error not_live(TenantId tenant, InvocationId id) const;
  Result<CancelledInvocation> cancel_dispatched(LiveInvocation& live);
  Result<void> end_run(LiveInvocation& live);

  const Dependencies uses_;
};

}  // namespace lambent::worker
