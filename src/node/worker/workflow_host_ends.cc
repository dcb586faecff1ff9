// The part of WorkflowHost that ends runs: their outcome, log and trace, and what becomes of their
// objects.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/domain/limits.h"
#include "decide/workflow/kernel_call.h"
#include "node/runtime_api/error_type.h"
#include "node/worker/workflow_live_run.h"

namespace lambent::worker {
namespace {

using workflow::CallEnd;
using workflow::Failure;
using workflow::Value;

// Calls of a run that are told one by one; the rest are counted.
constexpr size_t kTracedCalls = 256;

std::string milliseconds_text(Duration duration) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f ms", to_milliseconds(duration));
  return text;
}

InvocationResult succeeded(const Value& output) {
  InvocationResult end;
  end.payload = workflow::to_text(output);
  if (end.payload.size() <= limits::kResponsePayload.count) return end;
  return failed({.message = "the output has " + std::to_string(end.payload.size()) +
                            " bytes; at most " + std::to_string(limits::kResponsePayload.count) +
                            " are taken",
                 .type = "Function.ResponseSizeTooLarge",
                 .code = ErrorCode::kOutOfRange});
}

std::string log_of(const RunRecord& record, const std::optional<Error>& error) {
  const std::string id = to_string(record.invocation);
  std::string log = "START RequestId: " + id + " Version: $LATEST\n";
  for (const CallRecord& call : record.calls) log += line_of(call);
  if (record.calls_ended > record.calls.size()) {
    log += std::to_string(record.calls_ended - record.calls.size()) + " more calls\n";
  }
  if (error) log += "ERROR RequestId: " + id + " " + to_string(*error) + "\n";
  return log + "END RequestId: " + id + "\nREPORT RequestId: " + id +
         "\tDuration: " + milliseconds_text(record.took) +
         "\tCalls: " + std::to_string(record.calls_ended) + "\n";
}

}  // namespace

InvocationResult failed(const Failure& failure) {
  InvocationResult end;
  end.outcome = Outcome::kFunctionError;
  end.error_type = failure.type;
  end.error = Error{failure.code, failure.message};
  end.payload = runtime_api::error_json(failure.type, failure.message);
  return end;
}

void WorkflowHost::end(LiveRun& run, const workflow::RunOutcome& outcome) {
  if (const auto* output = std::get_if<Value>(&outcome)) {
    return end(run, succeeded(*output), output);
  }
  const auto& failure = std::get<Failure>(outcome);
  // Another worker, or the next one here, can run it from its start.
  const bool for_want_of_a_place =
      failure.type == kCallRejected && failure.code == ErrorCode::kUnavailable;
  if (for_want_of_a_place && events_.stopping()) {
    return end(run, rejected({failure.code, failure.message}), nullptr);
  }
  end(run, failed(failure), nullptr);
}

void WorkflowHost::end(LiveRun& run, InvocationResult how, const Value* output) {
  loop_.cancel(run.timer);
  ahead_.forget(run.id);
  clear_objects(run, how.outcome == Outcome::kSucceeded ? output : nullptr);
  values_ -= run.values;
  if (run.called) --called_;
  how.id = run.id;
  how.start = run.start;
  const bool waited = std::erase(waiting_, run.id) > 0;
  Counts& counts = counts_[run.function];
  --(waited ? counts.waiting : counts.running);
  if (run.begun) {
    ++counts.completed;
    how.phases.run = loop_.clock().now() - run.began;
    // What failed says little of how long a place is taken.
    const bool learns = !run.called && how.outcome == Outcome::kSucceeded;
    if (learns) took_.learn(how.phases.run);
    run.record.took = how.phases.run;
    run.record.state = name_of(how.outcome);
    const std::string log = log_of(run.record, how.error);
    events_.on_output(run.function, log);
    LogTail tail;
    tail.append(log);
    how.log_tail = tail.text();
    traces_.keep(std::move(run.record));
  }
  // The function was removed while it ran.
  const bool last = counts.waiting + counts.running == 0;
  if (last && !graphs_.contains(run.function)) counts_.erase(run.function);
  drop_waiting(run);
  const std::set<InvocationId> under_way = std::move(run.calls);
  runs_.erase(how.id);
  for (const InvocationId call : under_way) {
    const bool elsewhere = calls_.at(call).elsewhere;
    (elsewhere ? elsewhere_.forget : events_.forget)(call);
  }
  events_.on_end(std::move(how));
  admit_waiting();
}

void WorkflowHost::record(LiveRun& run, const CallOf& call, InvocationId id,
                          const Result<InvocationResult>& result, const CallEnd& end) {
  if (++run.record.calls_ended > kTracedCalls) return;
  CallRecord record{.component = run.run->label(call.key),
                    .function = run.graph->components[call.key.component].function,
                    .invocation = id,
                    .attempt = call.attempt,
                    .began = call.began - run.began,
                    .took = loop_.clock().now() - call.began};
  if (result.ok() && result->outcome != Outcome::kRejected) {
    record.ran = true;
    record.start = result->start;
    record.phases = result->phases;
    record.wait_reason = result->wait_reason;
    record.device = result->device;
    record.beside = result->beside;
  }
  if (const auto* failure = std::get_if<Failure>(&end)) record.failure = failure->message;
  run.record.calls.push_back(std::move(record));
}

Result<RunRecord> WorkflowHost::trace(TenantId tenant, InvocationId id) const {
  const Error unknown{ErrorCode::kNotFound,
                      "no run of a workflow with this id is remembered; the last " +
                          std::to_string(RunTraces::kMost) + " are"};
  if (const auto live = runs_.find(id); live != runs_.end()) {
    const LiveRun& run = *live->second;
    if (!run.begun || run.name.tenant != tenant) return unknown;
    RunRecord record = run.record;
    record.took = loop_.clock().now() - run.began;
    return record;
  }
  const RunRecord* kept = traces_.find(id);
  if (kept == nullptr || kept->function.tenant != tenant) return unknown;
  return *kept;
}

void WorkflowHost::keep_objects(LiveRun& run, InvocationId maker, const Value& value) {
  if (store_ == nullptr) return;
  for (const ObjectId object : workflow::objects_in(value)) {
    const bool is_own = object.maker == maker;
    std::set<ObjectId>& held = is_own ? run.objects : run.imported;
    if (run.objects.contains(object) || held.contains(object)) continue;
    // One that is not there is for the call to complain of that needs it.
    if (store_->hold(run.name.tenant, object).ok()) {
      held.insert(object);
    } else if (is_own && elsewhere_.remove_object) {
      run.elsewhere.insert(object);
    }
  }
}

void WorkflowHost::clear_objects(LiveRun& run, const Value* output) {
  for (const ObjectId object : run.imported) store_->release(run.name.tenant, object);
  if (run.objects.empty() && run.elsewhere.empty()) return;
  std::vector<ObjectId> wanted;
  if (output != nullptr) wanted = workflow::objects_in(*output);
  // What a workflow that was called hands out belongs to the one that called it.
  const auto call = calls_.find(run.id);
  LiveRun* caller = call != calls_.end() ? find(call->second.run) : nullptr;
  const bool abandoned = call != calls_.end() && caller == nullptr;
  const TenantId tenant = run.name.tenant;
  const auto is_kept = [&](ObjectId object) {
    return !abandoned && std::binary_search(wanted.begin(), wanted.end(), object);
  };
  for (const ObjectId object : run.elsewhere) {
    if (!is_kept(object)) {
      // A step that needed it brought a copy here.
      if (store_ != nullptr) (void)store_->remove(tenant, object);
      elsewhere_.remove_object(tenant, object);
    } else if (caller != nullptr) {
      caller->elsewhere.insert(object);
    }
  }
  for (const ObjectId object : run.objects) {
    const bool kept = is_kept(object);
    const bool is_sent = run.sent.contains(object);
    if (kept && caller != nullptr && caller->objects.insert(object).second) {
      if (is_sent) caller->sent.insert(object);
      continue;  // together with its reference
    }
    // What went meanwhile need not go again.
    // What is kept begins to live with the answer, however long the run took.
    if (kept) store_->renew(tenant, object);
    if (!kept) (void)store_->remove(tenant, object);
    store_->release(tenant, object);
    if (!kept && is_sent && elsewhere_.remove_object) elsewhere_.remove_object(tenant, object);
  }
}

void WorkflowHost::remove_made_by(TenantId tenant, InvocationId call, const CallEnd& end) {
  const auto* result = std::get_if<workflow::CallResult>(&end);
  if (store_ == nullptr || result == nullptr) return;
  for (const ObjectId object : workflow::objects_in(result->value)) {
    if (object.maker != call) continue;
    const bool is_here = store_->remove(tenant, object).ok();
    if (!is_here && elsewhere_.remove_object) elsewhere_.remove_object(tenant, object);
  }
}

}  // namespace lambent::worker
