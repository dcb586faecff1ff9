// Intake: the way of an invocation from its request to the module that serves it: submit, admit,
// accept, route. Used by Worker on the loop thread.
#pragma once

#include <optional>
#include <string>

#include "core/base/fault_points.h"
#include "core/base/random.h"
#include "decide/scheduling/admission.h"
#include "node/catalog/catalog.h"
#include "node/worker/aliases.h"
#include "node/worker/completions.h"
#include "node/worker/deployments.h"
#include "node/worker/dispatch_driver.h"
#include "node/worker/http_relays.h"
#include "node/worker/mount_waits.h"

namespace lambent::worker {

class Intake {
 public:
  using Done = InvocationService::Callback<InvocationResult>;

  struct Setting {
    // Invocations whose payloads would make all live ones hold more than this are refused.
    Bytes most_payloads;
    FaultPoints* faults = nullptr;  // null: there are none
  };

  // All outlive it; the constructor uses none.
  struct Dependencies {
    loop::EventLoop& loop;
    Random& random;
    catalog::Catalog& catalog;
    const dispatch::Dispatcher& dispatcher;
    const FunctionRegistry& functions;
    const Aliases& aliases;
    LiveInvocations& live;
    IdempotencyTable& idempotency;
    Drain& drain;
    InvocationObjects* objects;  // null: there are no objects
    ExecutorHost& executors;
    WorkflowHost& workflows;
    PipelineHost& pipelines;
    DispatchDriver& driver;
    Completions& completions;
    FollowUps& follow_ups;
    const HttpRelays& relays;
    Deployments& deployments;
    Setting setting;
  };

  explicit Intake(Dependencies dependencies) : uses_(dependencies) {}

  // As InvocationService::submit() and forget(). A qualifier of the function's name chooses the
  // version; repeats of a request get that of the first, unless the alias was changed.
  void submit(InvocationRequest request, Done done);
  void forget(InvocationId id);
  // The asynchronous invocations that an earlier worker left: those that still can run are
  // accepted. Blocks; before the loop runs. How many there were.
  Result<size_t> recover();
  // Submits an asynchronous invocation that was accepted before, here or at another node, once it
  // is due; false: it ended at once, for its function is gone or it was begun too often. `put_off`:
  // how often it could not run since its last run.
  bool resume(catalog::AsyncInvocation pending, unsigned put_off = 0);

  // To the module that serves it, now that nothing is missing that it needs.
  void route(LiveInvocation& live);
  // What it mounts is here after so long, or why it is not.
  void waited_for_mounts(InvocationId id, Duration waited, Result<void> result);
  // Whether a call of a workflow that was acknowledged would be taken now.
  bool has_room_for_call(const FunctionName& name, Bytes payload);

 private:
  // Why there is no room for it; of a synchronous one dispatch knows what waits beside it.
  std::optional<scheduling::Refusal> refusal_of(const InvocationRequest& request,
                                                const FunctionSpec& spec) const;
  // What waits of it in any of the places where that can be, and on its way into the catalog.
  scheduling::FunctionQueue queue_of(const FunctionSpec& spec) const;
  Result<void> check_objects(const InvocationRequest& request) const;
  // What a tenant's quota of the disk counts of it, until it has run.
  FunctionQuotas::Use on_disk(const InvocationRequest& request) const;
  // A repeat gets what the first got, or waits with it; false if no first is known, and `done` is
  // as it was.
  bool join_earlier(const std::string& key, Done& done);
  // `refusal`, which counts as rejected if it is a result, unless this repeats an invocation that
  // was acknowledged: then it is acknowledged again.
  void refuse_unless_repeated(const InvocationRequest& request, Result<InvocationResult> refusal,
                              Done done);
  void submit_asynchronous(InvocationRequest request, const FunctionSpec& spec, Done done);
  // `key`: empty, or what its repeats have as well.
  void accept(InvocationRequest request, FunctionId function, std::string key, Done waiter);
  void begin(LiveInvocation& live);
  void route_to_pipeline(LiveInvocation& live, const FunctionSpec& spec);
  void route_to_dispatch(const LiveInvocation& live);

  const Dependencies uses_;
};

}  // namespace lambent::worker
