#include "node/worker/follow_ups.h"

#include <algorithm>

#include "core/domain/async_limits.h"
#include "core/domain/limits.h"
#include "core/domain/version.h"
#include "decide/asynchronous/record.h"
#include "node/runtime_api/error_type.h"
#include "node/worker/cancellation.h"
#include "node/worker/completions.h"
#include "node/worker/intake.h"
#include "node/worker/sandbox_plan.h"

namespace lambent::worker {
namespace {

// The clock on the wall may be set: it is looked at again after so long.
constexpr Duration kLongestRest = seconds(20);
// After the catalog did not take a change, or did not answer.
constexpr Duration kAskAgain = seconds(1);
constexpr size_t kFailureLength = 256;

// "ValueError: no such image"
std::string failure_of(const InvocationResult& result) {
  std::string text = result.error_type;
  const std::string message =
      result.error ? result.error->message : runtime_api::error_message_of(result.payload);
  if (!message.empty()) text += (text.empty() ? "" : ": ") + message;
  return text.substr(0, kFailureLength);
}

InvocationResult rejected(InvocationId id, Error error) {
  InvocationResult result;
  result.id = id;
  result.outcome = Outcome::kRejected;
  result.error = std::move(error);
  return result;
}

std::string arn_of(const FunctionName& function) {
  return function_arn(function_of(function)) + ":" + version_of(function);
}

}  // namespace

const AsyncSettings& FollowUps::settings_of(const FunctionName& function) const {
  static const AsyncSettings none;
  const FunctionSpec* spec = uses_.functions.find(function_of(function));
  return spec == nullptr ? none : spec->asynchronous;
}

asynchronous::Rules FollowUps::rules_of(const FunctionName& function) const {
  return asynchronous::rules_of(settings_of(function), setting_.rules);
}

unsigned FollowUps::most_runs(const FunctionName& function) const {
  return rules_of(function).retries + 1;
}

asynchronous::FollowUp FollowUps::decide(const LiveInvocation& live,
                                         InvocationResult& result) const {
  asynchronous::End end = asynchronous::end_of(result, live.cancelled);
  // What was removed meanwhile does not come back.
  const bool is_there = uses_.functions.find(live.function) != nullptr;
  if (!is_there && end == asynchronous::End::kPutOff) end = asynchronous::End::kRefused;
  asynchronous::Rules rules = rules_of(live.request.function);
  if (!is_there) rules.retries = 0;
  const asynchronous::FollowUp follow_up = asynchronous::decide(
      end, {.runs = live.runs, .put_off = live.put_off, .age = now() - live.submitted_at}, rules);
  result.runs = follow_up.runs;
  result.again_in = follow_up.again_in;
  return follow_up;
}

void FollowUps::perform(const LiveInvocation& live, const InvocationResult& result,
                        const asynchronous::FollowUp& follow_up) {
  ages_.erase({live.too_old_at, live.request.id});
  if (uses_.drain.draining() && result.outcome == Outcome::kRejected) return;
  if (!follow_up.again_in) return finish(live, result, follow_up);
  try_again(live, result, *follow_up.again_in);
}

// ---- Another run

void FollowUps::try_again(const LiveInvocation& live, const InvocationResult& result, Duration in) {
  const InvocationId id = live.request.id;
  Waiting waiting{.function = live.request.function,
                  .id = live.function,
                  .runs = result.runs,
                  .put_off = result.runs == live.runs ? live.put_off + 1 : 0,
                  .chain = live.chain,
                  .submitted_at = live.submitted_at,
                  .due_at = now() + in,
                  .last_failure = failure_of(result)};
  uses_.metrics.retried(live.request.function, result.outcome == Outcome::kFunctionError);
  add(id, std::move(waiting));
  store_retry(id);
}

void FollowUps::store_retry(InvocationId id) {
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) return;  // it was cancelled
  const Waiting& waiting = found->second;
  const TenantId tenant = waiting.function.tenant;
  uses_.catalog.retry_async(
      tenant, id, {waiting.runs, waiting.due_at, waiting.last_failure},
      [this, id](const Result<void>& stored) {
        const auto there = waiting_.find(id);
        if (there == waiting_.end()) return;
        if (stored.ok()) {
          there->second.durable = true;
          due_.emplace(there->second.due_at, id);
          return plan();
        }
        uses_.log.error("async_retry_not_stored",
                        {{"invocation", to_string(id)}, {"error", to_string(stored.error())}});
        // Another node has it. In any other case a worker that ends now leaves it as it began.
        if (!is_retryable(stored.error().code)) return void(take(id));
        uses_.loop.call_after(kAskAgain, [this, id] { store_retry(id); });
      });
}

FollowUps::Waiting FollowUps::waiting_of(const catalog::AsyncInvocation& pending) {
  return {.function = pending.request.function,
          .id = pending.function,
          .runs = pending.runs,
          .chain = pending.chain,
          .submitted_at = pending.submitted_at,
          .due_at = pending.due_at,
          .last_failure = pending.last_failure,
          .durable = true};
}

LiveInvocation FollowUps::live_of(InvocationId id, const Waiting& waiting) {
  LiveInvocation live;
  live.request.id = id;
  live.request.function = waiting.function;
  live.request.kind = InvocationKind::kAsynchronous;
  live.function = waiting.id;
  live.runs = waiting.runs;
  live.chain = waiting.chain;
  live.submitted_at = waiting.submitted_at;
  return live;
}

void FollowUps::wait(const catalog::AsyncInvocation& pending) {
  Waiting waiting = waiting_of(pending);
  due_.emplace(waiting.due_at, pending.request.id);
  add(pending.request.id, std::move(waiting));
  plan();
}

void FollowUps::watch_age(LiveInvocation& live) {
  const double age_s = settings_of(live.request.function).max_age_s;
  if (age_s == 0) return;
  live.too_old_at = live.submitted_at + from_seconds(age_s);
  ages_.emplace(live.too_old_at, live.request.id);
  plan();
}

void FollowUps::add(InvocationId id, Waiting waiting) {
  ++counts_[waiting.id];
  waiting_.insert_or_assign(id, std::move(waiting));
}

FollowUps::Waiting FollowUps::take(InvocationId id) {
  auto node = waiting_.extract(id);
  const auto count = counts_.find(node.mapped().id);
  if (--count->second == 0) counts_.erase(count);
  due_.erase({node.mapped().due_at, id});
  return std::move(node.mapped());
}

void FollowUps::plan() {
  uses_.loop.cancel(timer_);
  timer_ = {};
  if (due_.empty() && ages_.empty()) return;
  Duration next = now() + kLongestRest;
  if (!due_.empty() && reads_ < limits::kDueAtOnce) next = std::min(next, due_.begin()->first);
  if (!ages_.empty()) next = std::min(next, ages_.begin()->first);
  timer_ = uses_.loop.call_after(std::max(next - now(), Duration(0)), [this] { look(); });
}

void FollowUps::look() {
  timer_ = {};
  // A worker that stops leaves them to the next one.
  if (uses_.drain.draining()) return;
  end_too_old();
  while (!due_.empty() && due_.begin()->first <= now() && reads_ < limits::kDueAtOnce) {
    read(due_.begin()->second);
  }
  plan();
}

void FollowUps::end_too_old() {
  while (!ages_.empty() && ages_.begin()->first <= now()) {
    const InvocationId id = ages_.begin()->second;
    ages_.erase(ages_.begin());
    uses_.cancellation.end_if_it_waits(id);
  }
}

void FollowUps::read(InvocationId id) {
  Waiting& waiting = waiting_.at(id);
  due_.erase({waiting.due_at, id});
  waiting.is_read = true;
  ++reads_;
  uses_.catalog.find_pending(waiting.function.tenant, id,
                             [this, id](Result<std::optional<catalog::AsyncInvocation>> pending) {
                               --reads_;
                               resume(id, std::move(pending));
                               plan();
                             });
}

void FollowUps::resume(InvocationId id, Result<std::optional<catalog::AsyncInvocation>> pending) {
  const auto found = waiting_.find(id);
  if (found == waiting_.end() || !found->second.is_read) return;  // it was cancelled
  if (uses_.drain.draining()) return;
  if (!pending.ok() && is_retryable(pending.error().code)) {
    found->second.is_read = false;
    found->second.due_at = now() + kAskAgain;
    due_.emplace(found->second.due_at, id);
    return;
  }
  const Waiting waiting = take(id);
  if (!pending.ok() || !pending->has_value()) {
    return uses_.log.warning("async_retry_is_gone", {{"invocation", to_string(id)}});
  }
  catalog::AsyncInvocation& again = **pending;
  again.function = waiting.id;
  again.due_at = {};
  uses_.intake.resume(std::move(again), waiting.put_off);
}

bool FollowUps::cancel(TenantId tenant, InvocationId id) {
  if (find(tenant, id) == nullptr) return false;
  LiveInvocation live = live_of(id, take(id));
  live.cancelled = true;
  uses_.completions.complete(std::move(live), rejected(id, cancelled_error()));
  return true;
}

void FollowUps::give_up(const catalog::AsyncInvocation& pending, Error error) {
  const LiveInvocation live = live_of(pending.request.id, waiting_of(pending));
  InvocationResult result = rejected(pending.request.id, std::move(error));
  const asynchronous::FollowUp follow_up = decide(live, result);
  perform(live, result, follow_up);
}

const FollowUps::Waiting* FollowUps::find(TenantId tenant, InvocationId id) const {
  const auto found = waiting_.find(id);
  const bool is_theirs = found != waiting_.end() && found->second.function.tenant == tenant;
  return is_theirs ? &found->second : nullptr;
}

std::vector<std::pair<InvocationId, const FollowUps::Waiting*>> FollowUps::some(TenantId tenant,
                                                                                size_t most) const {
  std::vector<std::pair<InvocationId, const Waiting*>> found;
  for (const auto& [due, id] : due_) {
    if (found.size() == most) break;
    const Waiting& waiting = waiting_.at(id);
    if (waiting.function.tenant == tenant) found.emplace_back(id, &waiting);
  }
  return found;
}

size_t FollowUps::waiting(FunctionId function) const {
  const auto found = counts_.find(function);
  return found == counts_.end() ? 0 : found->second;
}

// ---- Its outcome

void FollowUps::finish(const LiveInvocation& live, InvocationResult result,
                       const asynchronous::FollowUp& follow_up) {
  std::optional<catalog::AsyncSuccessor> successor;
  if (follow_up.condition) successor = successor_of(live, result, *follow_up.condition);
  store_result(live.request.function.tenant, std::move(result), std::move(successor));
}

Result<const FunctionSpec*> FollowUps::find_destination(const LiveInvocation& live,
                                                        const std::string& name) {
  if (!asynchronous::may_lead_on(live.chain)) {
    return Error{ErrorCode::kAborted,
                 std::to_string(limits::kDestinationChain) +
                     " destinations have led from one to the next: they seem to be a loop"};
  }
  const double point = static_cast<double>(uses_.random.next() >> 11) * 0x1p-53;
  ASSIGN_OR_RETURN(const FunctionName record, resolve({live.request.function.tenant, name}, point,
                                                      uses_.functions, uses_.aliases));
  ASSIGN_OR_RETURN(const FunctionSpec* spec, uses_.functions.get(record));
  if (spec->kind != FunctionKind::kHttp) return spec;
  return Error{ErrorCode::kFailedPrecondition,
               "'" + name + "' is an http function, which is not invoked with an event"};
}

std::optional<catalog::AsyncSuccessor> FollowUps::successor_of(const LiveInvocation& live,
                                                               InvocationResult& result,
                                                               asynchronous::Condition condition) {
  const FunctionName& function = live.request.function;
  const std::string& name = asynchronous::destination_of(settings_of(function), condition);
  if (name.empty()) return {};
  const auto spec = find_destination(live, name);
  uses_.metrics.destination(function, asynchronous::name_of(condition), spec.ok());
  if (!spec.ok()) {
    result.destination = name + ": not sent, because " + spec.error().message;
    uses_.log.warning("destination_not_told", {{"invocation", to_string(result.id)},
                                               {"function", function.name},
                                               {"destination", name},
                                               {"error", spec.error().message}});
    return {};
  }
  catalog::AsyncSuccessor successor{.id = new_invocation_id(uses_.random),
                                    .name = (*spec)->name,
                                    .function = (*spec)->id,
                                    .submitted_at = now(),
                                    .chain = live.chain + 1};
  result.destination = name + " as " + to_string(successor.id);
  asynchronous::Ended ended{.function_arn = arn_of(function),
                            .condition = condition,
                            .at = successor.submitted_at,
                            .result = result};
  ended.result.log_tail.clear();
  successor.payload = [ended = std::move(ended)](std::string_view request) {
    return asynchronous::destination_record(ended, request, limits::kAsyncPayload.count);
  };
  return successor;
}

void FollowUps::store_result(TenantId tenant, InvocationResult result,
                             std::optional<catalog::AsyncSuccessor> successor) {
  const Duration expires_at = now() + setting_.result_window;
  uses_.catalog.finish_async(tenant, result, expires_at, successor,
                             [this, tenant, result, successor](const Result<void>& stored) {
                               if (stored.ok()) {
                                 if (successor) begin(*successor);
                                 return;
                               }
                               uses_.log.error("async_result_not_stored",
                                               {{"invocation", to_string(result.id)},
                                                {"error", to_string(stored.error())}});
                               if (!is_retryable(stored.error().code)) return;
                               // The disk or the catalog's queue is full. Should the worker end
                               // before there is room again, the invocation is still there to be
                               // run once more.
                               uses_.loop.call_after(kAskAgain, [this, tenant, result, successor] {
                                 store_result(tenant, result, successor);
                               });
                             });
}

// The catalog has it: it is read from there like one that is due.
void FollowUps::begin(const catalog::AsyncSuccessor& successor) {
  Waiting waiting{.function = successor.name,
                  .id = successor.function,
                  .chain = successor.chain,
                  .submitted_at = successor.submitted_at,
                  .due_at = now(),
                  .durable = true};
  due_.emplace(waiting.due_at, successor.id);
  add(successor.id, std::move(waiting));
  plan();
}

}  // namespace lambent::worker
