// InvocationObjects: ties invocations to the objects that they need and make: they wait for what
// they need, and what they answer becomes what they were to make. Used by Intake and Completions on
// the loop thread.
#pragma once

#include "core/loop/event_loop.h"
#include "node/objects/object_store.h"
#include "node/worker/executor_host.h"
#include "node/worker/function_registry.h"
#include "node/worker/live_invocations.h"
#include "node/worker/object_waits.h"

namespace lambent::worker {

class InvocationObjects {
 public:
  // All outlive it; the constructor uses none.
  InvocationObjects(loop::EventLoop& loop, objects::ObjectStore& store, ExecutorHost& executors,
                    const FunctionRegistry& functions, ObjectWaits::Events events)
      : store_(store),
        executors_(executors),
        functions_(functions),
        waits_(loop, store, std::move(events)) {}

  // INVALID_ARGUMENT, NOT_FOUND, or why an object that it needs will never be there.
  Result<void> check(const InvocationRequest& request) const;
  // Events::ready comes, perhaps before this returns, once all is there that it needs, or
  // Events::failed. An error: neither comes.
  Result<void> begin(const LiveInvocation& live);
  bool waiting(InvocationId id) const { return waits_.waiting(id); }
  void fail_all(const Error& error) { waits_.fail_all(error); }
  // It has this result: what it answered becomes its first object, and the others fail.
  void end(const LiveInvocation& live, const InvocationResult& result);

 private:
  void store_answer(const LiveInvocation& live, const InvocationResult& result);
  void fail_outputs(const LiveInvocation& live, InvocationId id, const Error& cause);

  objects::ObjectStore& store_;
  ExecutorHost& executors_;
  const FunctionRegistry& functions_;
  ObjectWaits waits_;
};

}  // namespace lambent::worker
