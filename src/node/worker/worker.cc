#include "node/worker/worker.h"

#include <algorithm>
#include <utility>

#include "core/domain/slice.h"
#include "node/runtime_api/error_type.h"

namespace lambent::worker {
namespace {

constexpr Duration kResultRetryPeriod = seconds(1);

Error too_large(Bytes size, Bytes limit, std::string_view what) {
  return Error{ErrorCode::kOutOfRange, std::string(what) + " has " + std::to_string(size.count) +
                                           " bytes; at most " + std::to_string(limit.count) +
                                           " are taken"};
}

ExecutorSetting for_starts(ExecutorSetting setting, const dispatch::DispatchOptions& options) {
  setting.init_timeout = options.init_timeout;
  return setting;
}

}  // namespace

Worker::Worker(Dependencies dependencies, WorkerOptions options,
               std::unique_ptr<dispatch::Dispatcher> dispatcher,
               std::unique_ptr<slice_scheduling::SliceDispatcher> slices)
    : loop_(dependencies.loop),
      log_(dependencies.log),
      random_(dependencies.random),
      catalog_(dependencies.catalog),
      metrics_(dependencies.metrics),
      journal_(dependencies.journal),
      options_(std::move(options)),
      dispatcher_(std::move(dispatcher)),
      files_(dependencies.loop),
      host_(dependencies.loop, dependencies.log, dependencies.launcher, options_.sandboxes,
            options_.run_folder, host_events()),
      executors_(
          {dependencies.loop, dependencies.log, dependencies.launcher, dependencies.objects,
           [this](auto work, auto then) { return files_.run(std::move(work), std::move(then)); }},
          for_starts(options_.executors, dispatcher_->options()), options_.run_folder,
          host_events()),
      workflows_(dependencies.loop, dependencies.random, dependencies.objects, workflow_events(),
                 options_.workflows),
      pipelines_(dependencies.loop, dependencies.log, stage_process_sandboxes(), pipeline_setting(),
                 std::move(slices), pipeline_events()),
      objects_(dependencies.objects) {
  if (objects_ != nullptr) {
    ObjectWaits::Events events;
    events.ready = [this](InvocationId id) { queue(live_.at(id)); };
    events.failed = [this](InvocationId id, Error error) { reject(id, std::move(error)); };
    waits_ = std::make_unique<ObjectWaits>(loop_, *objects_, std::move(events));
  }
  if (journal_ != nullptr) journal_->begin(*dispatcher_, loop_.clock().wall_now());
  save_statistics();
}

Worker::~Worker() {
  loop_.cancel(wake_timer_);
  loop_.cancel(deferred_timer_);
  if (journal_timed_) loop_.cancel(journal_timer_);
  if (journal_ != nullptr) journal_->flush(*dispatcher_, loop_.clock().wall_now());
  loop_.cancel(statistics_timer_);
}

void Worker::submit(InvocationRequest request, Callback<InvocationResult> done) {
  const auto spec = functions_.get(request.function);
  if (!spec.ok()) return done(spec.error());
  const bool synchronous = request.kind == InvocationKind::kSynchronous;
  const Bytes limit = synchronous ? limits::kSyncPayload : limits::kAsyncPayload;
  if (request.payload.size() > limit.count) {
    return done(too_large(Bytes(request.payload.size()), limit, "the payload"));
  }
  // Before anything that may have changed since the first: a repeat asks for what was done.
  std::string key;
  if (synchronous && !request.idempotency_key.empty()) key = idempotency_key(request);
  if (!key.empty() && join_earlier(key, done)) return;
  if (draining_) {
    return done(Error{ErrorCode::kUnavailable, "the worker is stopping; try again elsewhere"});
  }
  if (auto refusal = refusal_of(request, **spec)) {
    InvocationResult refused;
    refused.id = request.id;
    refused.outcome = Outcome::kRejected;
    refused.error = Error{ErrorCode::kResourceExhausted, std::move(refusal->message)};
    refused.retry_after = refusal->retry_after;
    return refuse_unless_repeated(request, std::move(refused), std::move(done));
  }
  if (const auto objects = check_objects(request); !objects.ok()) {
    return refuse_unless_repeated(request, objects.error(), std::move(done));
  }
  if (request.id == InvocationId{}) request.id = new_invocation_id(random_);
  if (synchronous) {
    submit_synchronous(std::move(request), std::move(key), **spec, std::move(done));
  } else {
    submit_asynchronous(std::move(request), **spec, std::move(done));
  }
}

scheduling::FunctionQueue Worker::queue_of(const FunctionSpec& spec) {
  const scheduling::Flow* flow = flow_of(spec.id);
  scheduling::FunctionQueue queue;
  if (flow != nullptr) queue = scheduling::queue_of(*flow);
  if (spec.kind == FunctionKind::kPipeline) {
    queue.waiting += pipelines_.counts(spec.id).queued;
    if (queue.turn == Duration(0)) queue.turn = pipelines_.turn(spec.id);
  }
  if (spec.kind == FunctionKind::kWorkflow) {
    queue.waiting += workflows_.counts(spec.id).waiting;
    queue.turn = workflows_.turn();
  }
  if (spec.id.value < async_arriving_of_.size()) {
    queue.waiting += async_arriving_of_[spec.id.value];
  }
  queue.payloads = payloads_of(spec.id);
  return queue;
}

// Asynchronous ones are refused before they are promised: what is durable will be run. A call of a
// workflow that was promised comes when there is room for it (WorkflowHost).
std::optional<scheduling::Refusal> Worker::refusal_of(const InvocationRequest& request,
                                                      const FunctionSpec& spec) {
  if (request.acknowledged) return std::nullopt;
  const bool asynchronous = request.kind == InvocationKind::kAsynchronous;
  scheduling::QueueLimits limits{.payloads = options_.most_payloads};
  if (asynchronous) {
    limits.per_function = dispatcher_->options().queued_per_function;
    limits.all = dispatcher_->options().queued_invocations;
  }
  return scheduling::refusal_of(
      {.asynchronous = asynchronous, .payload = Bytes(request.payload.size())}, queue_of(spec),
      {.all = dispatcher_->queued() + workflows_.waiting() + pipelines_.queued() + async_arriving_,
       .payloads = payloads_},
      limits);
}

Bytes& Worker::payloads_of(FunctionId function) {
  if (payloads_of_.size() <= function.value) payloads_of_.resize(function.value + 1);
  return payloads_of_[function.value];
}

void Worker::count_payload(FunctionId function, Bytes more, Bytes less) {
  payloads_ += more;
  payloads_ -= less;
  Bytes& of_function = payloads_of(function);
  of_function += more;
  of_function -= less;
}

bool Worker::join_earlier(const std::string& key, Callback<InvocationResult>& done) {
  const auto found = idempotency_.find(key, loop_.clock().now());
  if (!found) return false;
  if (found->success != nullptr) return done(*found->success), true;
  const auto running = live_.find(*found->running);
  if (running == live_.end()) return false;
  running->second.waiters.push_back(std::move(done));
  return true;
}

void Worker::refuse_unless_repeated(const InvocationRequest& request,
                                    Result<InvocationResult> refusal,
                                    Callback<InvocationResult> done) {
  auto refuse = [this, function = request.function,
                 refusal = std::move(refusal)](const Callback<InvocationResult>& told) {
    if (refusal.ok()) metrics_.completed(function, *refusal);
    told(refusal);
  };
  if (request.kind == InvocationKind::kSynchronous || request.idempotency_key.empty()) {
    return refuse(done);
  }
  catalog_.find_async(request.function.tenant, idempotency_key(request),
                      [done = std::move(done),
                       refuse = std::move(refuse)](Result<std::optional<InvocationId>> earlier) {
                        if (!earlier.ok()) return done(earlier.error());
                        if (!earlier->has_value()) return refuse(done);
                        InvocationResult acknowledged;
                        acknowledged.id = **earlier;
                        done(std::move(acknowledged));
                      });
}

void Worker::submit_synchronous(InvocationRequest request, std::string key,
                                const FunctionSpec& spec, Callback<InvocationResult> done) {
  if (!key.empty()) idempotency_.start(key, request.id);
  const InvocationId id = request.id;
  Live& live = live_[id];
  live.idempotency_key = std::move(key);
  accept(std::move(request), spec.id, std::move(done));
}

void Worker::submit_asynchronous(InvocationRequest request, const FunctionSpec& spec,
                                 Callback<InvocationResult> done) {
  if (async_arriving_of_.size() <= spec.id.value) async_arriving_of_.resize(spec.id.value + 1);
  ++async_arriving_;
  ++async_arriving_of_[spec.id.value];
  count_payload(spec.id, Bytes(request.payload.size()));
  catalog::AsyncInvocation record;
  record.request = request;
  record.function = spec.id;
  record.submitted_at = loop_.clock().wall_now();
  if (!request.idempotency_key.empty()) record.request.idempotency_key = idempotency_key(request);
  catalog_.put_async(std::move(record),
                     [this, request = std::move(request), function = spec.id,
                      done = std::move(done)](Result<InvocationId> stored) mutable {
                       --async_arriving_;
                       --async_arriving_of_[function.value];
                       count_payload(function, {}, Bytes(request.payload.size()));
                       if (!stored.ok()) return done(stored.error());
                       InvocationResult acknowledged;
                       acknowledged.id = *stored;
                       if (*stored == request.id) accept(std::move(request), function, nullptr);
                       done(std::move(acknowledged));
                     });
}

void Worker::accept(InvocationRequest request, FunctionId function,
                    Callback<InvocationResult> waiter) {
  const InvocationId id = request.id;
  Live& live = live_[id];
  live.request = std::move(request);
  live.function = function;
  live.payload = Bytes(live.request.payload.size());
  count_payload(function, live.payload);
  if (waiter) live.waiters.push_back(std::move(waiter));
  const bool has_objects = !live.request.needs.empty() || live.request.outputs > 0;
  if (!has_objects) return queue(live);
  if (objects_ != nullptr) return begin_objects(live);
  reject(id, {ErrorCode::kUnimplemented, "this worker keeps no objects"});
}

void Worker::queue(Live& live) {
  const FunctionSpec* spec = functions_.find(live.function);
  if (spec != nullptr && spec->kind == FunctionKind::kWorkflow) return begin_workflow(live, *spec);
  if (spec != nullptr && spec->kind == FunctionKind::kPipeline) return begin_pipeline(live, *spec);
  if (spec != nullptr && spec->kind == FunctionKind::kKernel && !live.request.needs.empty()) {
    live.reads_objects = true;
    executors_.need_objects(live.request.function.tenant, live.request.needs, true);
  }
  submit_to_dispatch(live);
}

void Worker::submit_to_dispatch(const Live& live) {
  // What is asynchronous was acknowledged before, by this worker or by an earlier one.
  const bool asynchronous = live.request.kind == InvocationKind::kAsynchronous;
  handle(dispatch::InvocationSubmitted{.invocation = live.request.id,
                                       .function = live.function,
                                       .asynchronous = asynchronous,
                                       .acknowledged = asynchronous || live.request.acknowledged,
                                       .within_run = live.request.within_run});
}

void Worker::forget(InvocationId id) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  // Repeats may have joined it, and what is durable runs in any case.
  if (found->second.waiters.size() > 1) return;
  if (found->second.request.kind == InvocationKind::kAsynchronous) return;
  if (waits_ != nullptr && waits_->waiting(id)) {
    return reject(id,
                  {ErrorCode::kCancelled, "the client went away while this waited for objects"});
  }
  if (workflows_.has(id)) {
    return workflows_.cancel(id, {ErrorCode::kCancelled, "the client went away"});
  }
  if (pipelines_.has(id)) return pipelines_.cancel(id);
  handle(dispatch::InvocationCancelled{id});
}

void Worker::note_begun(const InvocationRequest& request) {
  if (request.kind != InvocationKind::kAsynchronous) return;
  catalog_.begin_async(request.function.tenant, request.id, [](Result<void>) {});
}

Worker::Live Worker::take_live(InvocationId id) {
  const auto found = live_.find(id);
  CHECK(found != live_.end(), "every invocation ends once");
  Live live = std::move(found->second);
  live_.erase(found);
  count_payload(live.function, {}, live.payload);
  return live;
}

void Worker::reject(InvocationId id, Error error) {
  InvocationResult result;
  result.id = id;
  result.outcome = Outcome::kRejected;
  result.error = std::move(error);
  finish(std::move(result));
}

void Worker::finish(InvocationResult result) {
  Live live = take_live(result.id);
  finish(std::move(live), std::move(result));
}

void Worker::finish(Live live, InvocationResult result) {
  result.revision = live.revision;
  if (result.outcome == Outcome::kFunctionError && result.payload.empty()) {
    const std::string message = result.error ? result.error->message : "the function failed";
    result.payload =
        runtime_api::error_json(result.error_type, to_string(result.id) + " " + message);
  }
  if (live.is_whole_pipeline) {
    result.in_time = pipelines_.ended_whole(live.function, result.outcome, result.phases.total());
  }
  if (result.in_time) metrics_.slo(live.request.function, *result.in_time);
  if (objects_ != nullptr) finish_objects(live, result);
  metrics_.completed(live.request.function, result);
  log_completion(live, result);
  if (!live.idempotency_key.empty()) {
    idempotency_.finish(live.idempotency_key, result, loop_.clock().now());
  }
  if (live.request.kind == InvocationKind::kAsynchronous) {
    store_async_result(live.request.function.tenant, result);
  }
  // Nearly always there is one, which need not copy the payload.
  for (size_t i = 0; i + 1 < live.waiters.size(); ++i) live.waiters[i](result);
  if (!live.waiters.empty()) live.waiters.back()(std::move(result));
  workflows_.room_made();
  if (draining_) check_drained();
}

// Once for every invocation, so the fields are made only if somebody reads them.
void Worker::log_completion(const Live& live, const InvocationResult& result) {
  if (!log_.wants(LogLevel::kDebug)) return;
  log_.debug("invocation_completed", {{"invocation", to_string(result.id)},
                                      {"tenant", int64_t{live.request.function.tenant.value}},
                                      {"function", live.request.function.name},
                                      {"outcome", std::string(name_of(result.outcome))},
                                      {"error_type", result.error_type},
                                      {"start", std::string(name_of(result.start))},
                                      {"device", result.device ? place_name(*result.device) : ""},
                                      {"queue_ms", to_milliseconds(result.phases.queue)},
                                      {"wait_reason", result.wait_reason},
                                      {"memory_ms", to_milliseconds(result.phases.memory)},
                                      {"run_ms", to_milliseconds(result.phases.run)}});
}

InvocationResult Worker::result_of(Live& live, const dispatch::CompleteInvocation& completion) {
  InvocationResult result;
  result.id = completion.invocation;
  result.outcome = completion.outcome;
  result.error = completion.error;
  result.retry_after = completion.retry_after;
  result.error_type = completion.error_type;
  result.start = completion.start;
  result.phases = completion.phases;
  // Dispatch knows that its start failed, and the sandbox how far it came.
  if (ending_ != nullptr) {
    const Duration init = std::min(ending_->init, result.phases.sandbox);
    result.phases.sandbox -= init;
    result.phases.init += init;
  }
  if (completion.wait_reason != scheduling::WaitReason::kNone) {
    result.wait_reason = scheduling::name_of(completion.wait_reason);
  }
  if (completion.outcome != Outcome::kRejected) result.device = completion.device;
  const bool failed_itself = live.answer && !live.answer->succeeded;
  if (failed_itself && !result.error) result.error = live.answer->error;
  RunReport report = report_of(live, completion.outcome);
  result.payload = std::move(report.payload);
  if (failed_itself) result.error_type = std::move(report.error_type);
  result.device_memory_peak = report.device_memory_peak;
  result.host_memory_peak = report.host_memory_peak;
  result.log_tail = std::move(report.log_tail);
  return result;
}

RunReport Worker::report_of(Live& live, Outcome outcome) {
  if (live.answer) return std::move(*live.answer);
  if (ending_ != nullptr && outcome == Outcome::kFunctionError) return *ending_;
  if (live.sandbox == SandboxId{}) return {};
  return executors_.has(live.sandbox) ? executors_.partial_report(live.sandbox)
                                      : host_.partial_report(live.sandbox);
}

void Worker::store_async_result(TenantId tenant, const InvocationResult& result) {
  if (draining_ && result.outcome == Outcome::kRejected) {
    return;  // it stays queued in the catalog, for the next worker
  }
  catalog_.finish_async(
      tenant, result, loop_.clock().wall_now() + options_.result_window,
      [this, tenant, result](Result<void> stored) {
        if (stored.ok()) return;
        log_.error("async_result_not_stored",
                   {{"invocation", to_string(result.id)}, {"error", to_string(stored.error())}});
        if (is_retryable(stored.error().code)) retry_async_result(tenant, result);
      });
}

void Worker::retry_async_result(TenantId tenant, const InvocationResult& result) {
  // The disk or the catalog's queue is full. Should the worker end before there is room again, the
  // invocation is still there to be run once more.
  loop_.call_after(kResultRetryPeriod,
                   [this, tenant, result] { store_async_result(tenant, result); });
}

void Worker::async_result(TenantId tenant, InvocationId id,
                          Callback<std::optional<InvocationResult>> done) {
  catalog_.async_result(tenant, id, std::move(done));
}

Result<InvocationService::LogChunk> Worker::read_log(const FunctionName& name,
                                                     uint64_t offset) const {
  ASSIGN_OR_RETURN(const FunctionSpec* spec, functions_.get(name));
  auto chunk = logs_.read(spec->id, offset, Bytes::mib(1).count);
  return LogChunk{std::move(chunk.text), chunk.next_offset};
}

}  // namespace lambent::worker
