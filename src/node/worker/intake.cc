#include "node/worker/intake.h"

#include <functional>
#include <utility>

#include "core/domain/connection_key.h"
#include "core/domain/limits.h"
#include "core/domain/model_function.h"
#include "core/domain/stopping.h"
#include "core/domain/tensor_content.h"
#include "core/domain/tensor_limits.h"
#include "decide/kernel_graph/request.h"
#include "node/catalog/limits.h"
#include "node/worker/flow_of.h"

namespace lambent::worker {
namespace {

// How many asynchronous invocations are read from the catalog at once.
constexpr size_t kRecoveryPage = 1000;

Error too_large(Bytes size, Bytes limit, std::string_view what) {
  return Error{ErrorCode::kOutOfRange, std::string(what) + " has " + std::to_string(size.count) +
                                           " bytes; at most " + std::to_string(limit.count) +
                                           " are taken"};
}

bool can_be_repeat(const std::string& idempotency_key) {
  return !idempotency_key.empty() && !is_connection_key(idempotency_key);
}

}  // namespace

void Intake::submit(InvocationRequest request, Done done) {
  if (request.function.name.find(':') != std::string::npos) {
    const uint64_t number = can_be_repeat(request.idempotency_key)
                                ? std::hash<std::string>()(request.idempotency_key)
                                : uses_.random.next();
    auto record = resolve(request.function, static_cast<double>(number >> 11) * 0x1p-53,
                          uses_.functions, uses_.aliases);
    if (!record.ok()) return done(record.error());
    request.function = std::move(record).value();
  }
  const auto spec = uses_.functions.get(request.function);
  if (!spec.ok()) return done(spec.error());
  if ((*spec)->kind == FunctionKind::kHttp && !uses_.relays.has(request.id)) {
    return done(Error{
        ErrorCode::kFailedPrecondition,
        serves_model(**spec)
            ? "'" + request.function.name + "' is a model: send requests to /v2/models/" +
                  request.function.name + "/infer (docs/guides/models.md)"
            : "'" + request.function.name + "' is an http function: send HTTP requests to /f/" +
                  request.function.name + "/"});
  }
  const bool synchronous = request.kind == InvocationKind::kSynchronous;
  const bool has_tensors =
      (*spec)->kind == FunctionKind::kKernel && request.content_type == kTensorContentType;
  // Clients do not send that: their answers are kept for repeats, or on the disk.
  if (has_tensors && (!synchronous || !request.idempotency_key.empty())) {
    return done(Error{ErrorCode::kInvalidArgument,
                      "content type '" + request.content_type + "' is not for clients; " +
                          std::string(kernel_graph::kRawContentType) + " is"});
  }
  const Bytes limit = has_tensors   ? limits::kTensorPayload
                      : synchronous ? limits::kSyncPayload
                                    : limits::kAsyncPayload;
  if (request.payload.size() > limit.count) {
    return done(too_large(Bytes(request.payload.size()), limit, "the payload"));
  }
  // Before anything that may have changed since the first: a repeat asks for what was done.
  std::string key;
  if (synchronous && !request.idempotency_key.empty()) key = idempotency_key(request);
  const bool can_repeat = synchronous && can_be_repeat(request.idempotency_key);
  if (can_repeat && join_earlier(key, done)) return;
  if (uses_.drain.draining()) {
    const Error stopping = stopping_error(request.within_run);
    return refuse_unless_repeated(request, stopping, std::move(done));
  }
  if (auto refusal = refusal_of(request, **spec)) {
    InvocationResult refused;
    refused.id = request.id;
    refused.outcome = Outcome::kRejected;
    refused.error = Error{ErrorCode::kResourceExhausted, std::move(refusal->message)};
    refused.error_type = refusal->error_type;
    refused.retry_after = refusal->retry_after;
    return refuse_unless_repeated(request, std::move(refused), std::move(done));
  }
  if (const auto objects = check_objects(request); !objects.ok()) {
    return refuse_unless_repeated(request, objects.error(), std::move(done));
  }
  if (!synchronous && !request.acknowledged) {
    const TenantId tenant = request.function.tenant;
    const auto room = check_disk(uses_.deployments, tenant, on_disk(request).disk);
    if (!room.ok()) return refuse_unless_repeated(request, room.error(), std::move(done));
  }
  if (request.id == InvocationId{}) request.id = new_invocation_id(uses_.random);
  if (!synchronous) return submit_asynchronous(std::move(request), **spec, std::move(done));
  if (can_repeat) uses_.idempotency.start(key, request.id);
  accept(std::move(request), (*spec)->id, std::move(key), std::move(done));
}

scheduling::FunctionQueue Intake::queue_of(const FunctionSpec& spec) const {
  scheduling::FunctionQueue queue;
  if (const scheduling::Flow* flow = flow_of(uses_.dispatcher, spec.id)) {
    queue = scheduling::queue_of(*flow);
  }
  if (spec.kind == FunctionKind::kPipeline) {
    queue.waiting += uses_.pipelines.status().counts(spec.id).queued;
    if (queue.turn == Duration(0)) queue.turn = uses_.pipelines.status().turn(spec.id);
  }
  if (spec.kind == FunctionKind::kWorkflow) {
    queue.waiting += uses_.workflows.counts(spec.id).waiting;
    queue.turn = uses_.workflows.turn();
  }
  queue.waiting += uses_.live.arriving(spec.id);
  queue.payloads = uses_.live.payloads(spec.id);
  return queue;
}

// Asynchronous ones are refused before they are promised: what is durable will be run. A call of a
// workflow that was promised comes when there is room for it (WorkflowHost).
std::optional<scheduling::Refusal> Intake::refusal_of(const InvocationRequest& request,
                                                      const FunctionSpec& spec) const {
  if (request.acknowledged) return std::nullopt;
  const bool asynchronous = request.kind == InvocationKind::kAsynchronous;
  scheduling::QueueLimits limits{.payloads = uses_.setting.most_payloads};
  scheduling::FunctionQueue queue = queue_of(spec);
  size_t retries = 0;
  if (asynchronous) {
    // What failed and is tried again was promised as well.
    queue.waiting += uses_.follow_ups.waiting(spec.id);
    retries = uses_.follow_ups.waiting();
    limits.per_function = uses_.dispatcher.options().queued_per_function;
    limits.all = uses_.dispatcher.options().queued_invocations;
  }
  return scheduling::refusal_of(
      {.asynchronous = asynchronous, .payload = Bytes(request.payload.size())}, queue,
      {.all = uses_.dispatcher.queued() + uses_.workflows.waiting() +
              uses_.pipelines.status().queued() + uses_.live.arriving() + retries,
       .payloads = uses_.live.payloads()},
      limits);
}

// Judged like an asynchronous one. Workflows that wait for a place do not count, because places
// come free when such calls are done; and one that is called needs no place.
bool Intake::has_room_for_call(const FunctionName& name, Bytes payload) {
  const FunctionSpec* spec = uses_.functions.find(name);
  if (spec == nullptr) return true;  // its submission fails with that
  scheduling::FunctionQueue queue;
  if (spec->kind != FunctionKind::kWorkflow) queue = queue_of(*spec);
  return !scheduling::refusal_of(
      {.asynchronous = true, .payload = payload}, queue,
      {.all = uses_.dispatcher.queued() + uses_.pipelines.status().queued(),
       .payloads = uses_.live.payloads()},
      {.per_function = uses_.dispatcher.options().queued_per_function,
       .all = uses_.dispatcher.options().queued_invocations,
       .payloads = uses_.setting.most_payloads});
}

Result<void> Intake::check_objects(const InvocationRequest& request) const {
  if (request.needs.empty() && request.outputs == 0) return {};
  if (uses_.objects != nullptr) return uses_.objects->check(request);
  return Error{ErrorCode::kUnimplemented, "this worker keeps no objects"};
}

FunctionQuotas::Use Intake::on_disk(const InvocationRequest& request) const {
  if (!uses_.catalog.keeps_async_here(request)) return {};
  return {.functions = 0,
          .disk = limits::kAsyncOverhead +
                  Bytes(request.payload.size() + request.client_context.size())};
}

bool Intake::join_earlier(const std::string& key, Done& done) {
  const auto found = uses_.idempotency.find(key, uses_.loop.clock().now());
  if (!found) return false;
  if (found->success != nullptr) return done(*found->success), true;
  LiveInvocation* running = uses_.live.find(*found->running);
  if (running == nullptr) return false;
  running->waiters.push_back(std::move(done));
  return true;
}

void Intake::refuse_unless_repeated(const InvocationRequest& request,
                                    Result<InvocationResult> refusal, Done done) {
  const FunctionSpec* spec = uses_.functions.find(request.function);
  if (refusal.ok() && spec != nullptr && spec->slo_ms > 0) refusal->in_time = false;
  auto refuse = [this, function = request.function,
                 refusal = std::move(refusal)](const Done& answer) {
    if (refusal.ok()) uses_.completions.count(function, *refusal);
    answer(refusal);
  };
  if (request.kind == InvocationKind::kSynchronous || request.idempotency_key.empty()) {
    return refuse(done);
  }
  uses_.catalog.find_async(request.function.tenant, durable_key(request),
                           [done = std::move(done), refuse = std::move(refuse)](
                               Result<std::optional<InvocationId>> earlier) {
                             if (!earlier.ok()) return done(earlier.error());
                             if (!earlier->has_value()) return refuse(done);
                             InvocationResult acknowledged;
                             acknowledged.id = **earlier;
                             done(std::move(acknowledged));
                           });
}

void Intake::submit_asynchronous(InvocationRequest request, const FunctionSpec& spec, Done done) {
  reach(uses_.setting.faults, FaultPoint::kReceived);
  uses_.live.begin_arrival(spec.id, Bytes(request.payload.size()));
  catalog::AsyncInvocation record;
  record.request = request;
  record.function = spec.id;
  record.submitted_at = uses_.loop.clock().wall_now();
  const Duration submitted_at = record.submitted_at;
  const FunctionQuotas::Use disk = on_disk(request);
  uses_.deployments.quotas().reserve(request.function.tenant, disk);
  if (!request.idempotency_key.empty()) record.request.idempotency_key = durable_key(request);
  uses_.catalog.put_async(
      std::move(record), [this, request = std::move(request), function = spec.id, submitted_at,
                          disk, done = std::move(done)](Result<InvocationId> stored) mutable {
        // What the catalog has counts there.
        uses_.deployments.quotas().release(request.function.tenant, disk);
        uses_.live.end_arrival(function, Bytes(request.payload.size()));
        if (!stored.ok()) return done(stored.error());
        InvocationResult acknowledged;
        acknowledged.id = *stored;
        if (*stored == request.id) {
          LiveInvocation& live = uses_.live.add(std::move(request), function, "", nullptr);
          live.submitted_at = submitted_at;
          begin(live);
        }
        reach(uses_.setting.faults, FaultPoint::kDispatched);
        done(std::move(acknowledged));
        reach(uses_.setting.faults, FaultPoint::kAcknowledged);
      });
}

void Intake::accept(InvocationRequest request, FunctionId function, std::string key, Done waiter) {
  begin(uses_.live.add(std::move(request), function, std::move(key), std::move(waiter)));
}

void Intake::begin(LiveInvocation& live) {
  const InvocationId id = live.request.id;
  if (live.request.kind == InvocationKind::kAsynchronous) uses_.follow_ups.watch_age(live);
  const bool has_objects = !live.request.needs.empty() || live.request.outputs > 0;
  if (!has_objects) return route(live);
  // What fails while it waits for objects is late too.
  if (const FunctionSpec* spec = uses_.functions.find(live.function)) live.slo_ms = spec->slo_ms;
  if (uses_.objects == nullptr) {
    return uses_.completions.reject(id,
                                    {ErrorCode::kUnimplemented, "this worker keeps no objects"});
  }
  const auto begun = uses_.objects->begin(live);
  if (!begun.ok()) uses_.completions.reject(id, begun.error());
}

void Intake::route(LiveInvocation& live) {
  const FunctionSpec* spec = uses_.functions.find(live.function);
  if (spec == nullptr) return route_to_dispatch(live);
  if (live.slo_ms == 0) live.slo_ms = spec->slo_ms;
  if (!std::exchange(live.has_mounts, true) &&
      uses_.completions.mounts().begin(live.request.id, *spec))
    return;
  if (spec->kind == FunctionKind::kWorkflow) {
    live.revision = spec->revision;
    return uses_.workflows.start(live.request, *spec);
  }
  if (spec->kind == FunctionKind::kPipeline) return route_to_pipeline(live, *spec);
  if (spec->kind == FunctionKind::kKernel && !live.request.needs.empty()) {
    live.reads_objects = true;
    uses_.executors.objects().need(live.request.function.tenant, live.request.needs, true);
  }
  route_to_dispatch(live);
}

void Intake::waited_for_mounts(InvocationId id, Duration waited, Result<void> result) {
  LiveInvocation& live = uses_.live.at(id);
  live.waited_for_mounts = waited;
  if (result.ok()) return route(live);
  uses_.completions.reject(id,
                           stopping_error_of(std::move(result).error(), live.request.within_run));
}

void Intake::route_to_pipeline(LiveInvocation& live, const FunctionSpec& spec) {
  live.revision = spec.revision;
  if (uses_.pipelines.isolation_of_next(spec.id) == pipeline::Isolation::kShared) {
    live.is_whole_pipeline = true;
    return route_to_dispatch(live);
  }
  const InvocationId id = live.request.id;
  const auto begun = uses_.pipelines.submit(live.request, spec);
  if (!begun.ok()) uses_.completions.reject(id, begun.error());
}

void Intake::route_to_dispatch(const LiveInvocation& live) {
  const bool promised =
      !live.idempotency_key.empty() &&
      uses_.idempotency.take_promise(live.idempotency_key, uses_.loop.clock().now());
  // What is asynchronous was acknowledged before, by this worker or by an earlier one.
  const bool asynchronous = live.request.kind == InvocationKind::kAsynchronous;
  uses_.driver.handle(
      dispatch::InvocationSubmitted{.invocation = live.request.id,
                                    .function = live.function,
                                    .asynchronous = asynchronous,
                                    .acknowledged = asynchronous || live.request.acknowledged,
                                    .within_run = live.request.within_run,
                                    .promised = promised});
}

void Intake::forget(InvocationId id) {
  const LiveInvocation* live = uses_.live.find(id);
  if (live == nullptr) return;
  // Repeats may have joined it, and what is durable runs in any case.
  if (live->waiters.size() > 1) return;
  if (live->request.kind == InvocationKind::kAsynchronous) return;
  if (uses_.objects != nullptr && uses_.objects->waiting(id)) {
    return uses_.completions.reject(
        id, {ErrorCode::kCancelled, "the client went away while this waited for objects"});
  }
  if (uses_.completions.mounts().waiting(id)) {
    return uses_.completions.reject(
        id, {ErrorCode::kCancelled, "the client went away while this waited for files"});
  }
  if (uses_.workflows.cancel(id, {ErrorCode::kCancelled, "the client went away"})) return;
  if (uses_.pipelines.has(id)) return uses_.pipelines.cancel(id);
  uses_.driver.handle(dispatch::InvocationCancelled{id});
}

Result<size_t> Intake::recover() {
  uint64_t after = 0;
  size_t resumed = 0;
  while (true) {
    ASSIGN_OR_RETURN(auto page, uses_.catalog.pending_async(after, kRecoveryPage));
    if (page.empty()) return resumed;
    for (catalog::AsyncInvocation& pending : page) {
      after = pending.sequence;
      if (resume(std::move(pending))) ++resumed;
    }
  }
}

bool Intake::resume(catalog::AsyncInvocation pending, unsigned put_off) {
  if (pending.due_at > uses_.loop.clock().wall_now()) {
    uses_.follow_ups.wait(pending);
    return true;
  }
  Error problem{ErrorCode::kNotFound, "the function was removed"};
  if (pending.attempts >= uses_.follow_ups.most_attempts()) {
    problem = {ErrorCode::kAborted, "the worker ended " + std::to_string(pending.attempts) +
                                        " times while this ran; it is given up"};
  } else if (uses_.functions.find(pending.function) != nullptr) {
    LiveInvocation& live =
        uses_.live.add(std::move(pending.request), pending.function, "", nullptr);
    live.resumed = true;
    live.runs = pending.runs;
    live.put_off = put_off;
    live.chain = pending.chain;
    live.submitted_at = pending.submitted_at;
    begin(live);
    reach(uses_.setting.faults, FaultPoint::kResumed);
    return true;
  }
  uses_.follow_ups.give_up(pending, std::move(problem));
  return false;
}

}  // namespace lambent::worker
