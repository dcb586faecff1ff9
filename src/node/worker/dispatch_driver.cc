#include "node/worker/dispatch_driver.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/domain/function_limits.h"
#include "node/runtime_api/error_type.h"
#include "node/worker/backend_reports.h"

namespace lambent::worker {
namespace {

// How long a program that is asked to end may take. Its memory and its token stay taken meanwhile.
constexpr Duration kGrace = seconds(5);
// The same where another function waits for its place.
constexpr Duration kGraceWhileOthersWait = seconds(1);

Duration grace_of(dispatch::StopReason reason) {
  using dispatch::StopReason;
  switch (reason) {
    case StopReason::kIdle:
    case StopReason::kRetired:
    case StopReason::kDrained:
      return kGrace;
    case StopReason::kEvicted:
    case StopReason::kUsedOnce:
      return kGraceWhileOthersWait;
    case StopReason::kTimedOut:
    case StopReason::kInitTimedOut:
    case StopReason::kDeviceLost:
    case StopReason::kMoveFailed:
      break;  // it does not do what it should, or its device is not usable
  }
  return Duration::zero();
}

// The function whose min_instances it is one of, if no call has it; else zero.
FunctionId instance_of(const dispatch::Dispatcher& dispatcher, SandboxId id) {
  for (const scheduling::Fleet* fleet : {&dispatcher.fleet(), &dispatcher.host_fleet()}) {
    const auto slot = fleet->find(id);
    if (!slot) continue;
    const scheduling::Sandbox& sandbox = fleet->sandbox(*slot);
    const bool told = sandbox.state == scheduling::SandboxState::kStopping;
    if (told || sandbox.has_invocation || sandbox.served > 0) return {};
    return dispatcher.flows()[sandbox.function.value].min_instances > 0 ? sandbox.function
                                                                        : FunctionId{};
  }
  return {};
}

// Those of synchronous ones are passed by.
void reach_of(FaultPoints* faults, FaultPoint point, const LiveInvocation& live) {
  if (live.request.kind == InvocationKind::kAsynchronous) reach(faults, point);
}

// Of an action's set of devices.
std::vector<DeviceId> devices_in(uint64_t beside) {
  std::vector<DeviceId> devices;
  scheduling::for_each_device_in(beside,
                                 [&](uint32_t bit) { devices.push_back(DeviceId{bit + 1}); });
  return devices;
}

}  // namespace

DispatchDriver::DispatchDriver(Dependencies dependencies)
    : uses_(dependencies),
      dispatcher_(uses_.dispatcher),
      journal_(uses_.loop, uses_.log, uses_.recorder, dispatcher_),
      deferred_(uses_.loop, dispatcher_, uses_.executors,
                [this](const dispatch::Action& action) { perform_deferred(action); }) {}

DispatchDriver::~DispatchDriver() { uses_.loop.cancel(wake_timer_); }

void DispatchDriver::handle(dispatch::Event event) {
  events_.push_back(std::move(event));
  if (handling_) return;
  handling_ = true;
  while (!events_.empty()) {
    const dispatch::Event next = std::move(events_.front());
    events_.pop_front();
    actions_.clear();
    const Instant now = uses_.loop.clock().now();
    dispatcher_.handle(next, now, actions_);
    journal_.record(next, now);
    if (foreseen_.note(next, actions_, dispatcher_.flows())) tell_foreseen();
    deferred_.evict_objects();
    // An action may bring up events, but those wait: actions_ does not change meanwhile.
    for (performing_ = 0; performing_ < actions_.size(); ++performing_) {
      perform(actions_[performing_]);
    }
  }
  handling_ = false;
  if (uses_.drain.draining()) uses_.drain.check();
}

void DispatchDriver::tell_foreseen() const {
  const dispatch::ForeseenStarts::Counts& counts = foreseen_.counts();
  uses_.metrics.set_starts_ahead("started", counts.started);
  uses_.metrics.set_starts_ahead("used", counts.used);
  uses_.metrics.set_starts_ahead("wasted", counts.wasted);
}

void DispatchDriver::perform(const dispatch::Action& action) {
  std::visit([this](const auto& each) { perform(each); }, action);
}

void DispatchDriver::perform(const dispatch::StartSandbox& action) {
  std::vector<DeviceId> devices = devices_in(action.beside);
  devices.push_back(action.device);
  if (!deferred_.defer(action.sandbox, std::move(devices), action)) start_sandbox(action);
  reach(uses_.faults, FaultPoint::kSandboxAsked);
}

void DispatchDriver::start_sandbox(const dispatch::StartSandbox& action) {
  const FunctionSpec* spec = uses_.functions.find(action.function);
  if (spec == nullptr) {
    return fail_start(action, {ErrorCode::kNotFound, "the function was removed"},
                      "Sandbox.Failure");
  }
  const std::optional<FunctionSpec> whole = uses_.pipelines.whole(action.function);
  const bool has_sandboxes = spec->kind == FunctionKind::kHandler ||
                             spec->kind == FunctionKind::kHttp ||
                             spec->kind == FunctionKind::kKernel || whole.has_value();
  if (!has_sandboxes) {  // since its invocation was queued
    return fail_start(
        action, {ErrorCode::kAborted, "the function became a " + std::string(name_of(spec->kind))},
        "Sandbox.Failure");
  }
  uses_.log.debug("sandbox_start", {{"sandbox", static_cast<int64_t>(action.sandbox.value)},
                                    {"tenant", int64_t{spec->name.tenant.value}},
                                    {"function", spec->name.name},
                                    {"device", int64_t{action.device.value}},
                                    {"ahead", int64_t{action.ahead}}});
  const bool as_variant = action.device == scheduling::kHostDevice && spec->cpu_variant &&
                          spec->kind == FunctionKind::kHandler;
  const FunctionSpec started = whole ? *whole : as_variant ? cpu_variant_of(*spec) : *spec;
  uses_.backends.of_kind(spec->kind)
      .start({.sandbox = action.sandbox,
              .spec = started,
              .code_folder = uses_.code.folder(*spec),
              .device = action.device,
              .beside = devices_in(action.beside)},
             uses_.reports);
}

void DispatchDriver::fail_start(const dispatch::StartSandbox& action, Error error,
                                std::string error_type) {
  handle(dispatch::SandboxExited{action.sandbox, std::move(error), std::move(error_type)});
}

// Dispatch has the invocation wait again for a sandbox of the function as it is, if that is another
// meanwhile.
void DispatchDriver::perform_deferred(const dispatch::Action& action) {
  if (const auto* in = std::get_if<dispatch::MoveMemoryIn>(&action)) {
    return uses_.backends.of(in->sandbox).move_memory_in(in->sandbox);
  }
  const auto& start = std::get<dispatch::StartSandbox>(action);
  const FunctionSpec* spec = uses_.functions.find(start.function);
  const bool is_current = uses_.functions.sandbox_revision(start.function) == start.revision;
  if (spec == nullptr || is_current) return start_sandbox(start);
  fail_start(start, {ErrorCode::kAborted, "the function was changed"}, kPlatformFailure);
}

void DispatchDriver::perform(const dispatch::StartInvocation& action) {
  LiveInvocation& live = uses_.live.at(action.invocation);
  live.sandbox = action.sandbox;
  // Its sandbox is ready, and stays for the next one.
  if (live.cancelled) return answer_cancelled(live);
  reach_of(uses_.faults, FaultPoint::kPlaced, live);
  if (live.resumed) return deliver_once_noted(live);
  uses_.completions.note_begun(live);
  deliver(live);
}

void DispatchDriver::deliver(LiveInvocation& live) {
  const FunctionSpec* spec = uses_.functions.find(live.function);
  const Duration timeout = spec != nullptr ? spec->timeout : limits::kDefaultTimeout;
  live.revision = spec != nullptr ? spec->revision : 0;
  uses_.backends.of(live.sandbox).deliver(live.sandbox, live.request, timeout);
  reach_of(uses_.faults, FaultPoint::kDelivered, live);
}

// A worker that dies of an invocation may die before the catalog has counted that it began, which
// is written while it runs. So what an earlier worker left begins only after it was counted: it
// runs once more than is written down at most, however many workers it takes with it.
void DispatchDriver::deliver_once_noted(LiveInvocation& live) {
  const InvocationId id = live.request.id;
  if (live.attempt_noted) {
    const auto waits = not_noted_.find(id);
    if (waits == not_noted_.end()) return deliver(live);
    waits->second = live.sandbox;  // its former one has ended meanwhile
    return;
  }
  not_noted_[id] = live.sandbox;
  uses_.completions.note_begun(live, [this, id] {
    const auto waits = not_noted_.find(id);
    if (waits == not_noted_.end()) return;  // it has its outcome
    const bool has_sandbox = waits->second != SandboxId{};
    not_noted_.erase(waits);
    if (has_sandbox) deliver(uses_.live.at(id));
  });
}

// The sandbox of one that waits so has not seen it.
void DispatchDriver::return_if_not_noted(SandboxEnd& end) {
  for (auto& [id, sandbox] : not_noted_) {
    if (sandbox != end.sandbox) continue;
    sandbox = {};
    end.undelivered = true;
    end.invocation = id;
    end.returned_payload = std::move(uses_.live.at(id).request.payload);
    return;
  }
}

void DispatchDriver::answer_cancelled(LiveInvocation& live) {
  HandlerAnswer answer;
  answer.invocation = live.request.id;
  answer.succeeded = false;
  answer.error = cancelled_error();
  answer.error_type = kCancelledErrorType;
  answer.payload = runtime_api::error_json(answer.error_type, answer.error->message);
  live.answer = std::move(answer);
  handle(dispatch::InvocationFinished{.invocation = live.request.id, .succeeded = false});
}

void DispatchDriver::perform(const dispatch::StopSandbox& action) {
  // An invocation that it ran has its outcome, with dispatch's own words: these are for the log
  // only.
  const Error error{ErrorCode::kCancelled,
                    "the sandbox was stopped: " + std::string(name_of(action.reason))};
  const auto deferred = deferred_.take(action.sandbox);
  if (deferred && std::holds_alternative<dispatch::StartSandbox>(*deferred)) {
    return fail_start(std::get<dispatch::StartSandbox>(*deferred), error, "Sandbox.Stopped");
  }
  uses_.backends.of(action.sandbox)
      .end(action.sandbox, grace_of(action.reason), error, "Sandbox.Stopped");
}

void DispatchDriver::perform(const dispatch::CompleteInvocation& action) {
  LiveInvocation live = uses_.live.take(action.invocation);
  not_noted_.erase(action.invocation);
  // However it ended, its sandbox may rest now.
  uses_.host_memory.note();
  uses_.unloads.answered(live.sandbox);
  InvocationResult result = result_of(live, action);
  // Of several in its sandbox: the others go on.
  if (action.error_type == "Sandbox.Timeout" && !is_stopped_next(live.sandbox)) {
    uses_.backends.of(live.sandbox).abandon(live.sandbox, action.invocation);
  }
  uses_.completions.complete(std::move(live), std::move(result));
}

void DispatchDriver::perform(const dispatch::WakeAt& action) {
  uses_.loop.cancel(wake_timer_);
  wake_timer_ = {};
  if (action.instant == kNever) return;
  wake_timer_ = uses_.loop.call_at(action.instant, [this] { handle(dispatch::TimerFired{}); });
}

void DispatchDriver::perform(const dispatch::MoveMemoryIn& action) {
  if (deferred_.defer_move(action)) return;
  uses_.backends.of(action.sandbox).move_memory_in(action.sandbox);
}

void DispatchDriver::perform(const dispatch::MoveMemoryOut& action) {
  uses_.backends.of(action.sandbox)
      .move_memory_out(action.sandbox, action.depth == dispatch::MoveDepth::kContext
                                           ? protocol::MemoryMoveDepth::kContext
                                           : protocol::MemoryMoveDepth::kMemory);
}

void DispatchDriver::perform(const dispatch::GrantMemory& action) {
  uses_.backends.of(action.sandbox).grant_memory(action.sandbox, action.bytes);
  uses_.metrics.memory_wanted(action.bytes > Bytes(0));
}

InvocationResult DispatchDriver::result_of(LiveInvocation& live,
                                           const dispatch::CompleteInvocation& completion) {
  InvocationResult result;
  result.id = completion.invocation;
  result.outcome = completion.outcome;
  result.error = completion.error;
  result.retry_after = completion.retry_after;
  result.error_type = completion.error_type;
  result.start = completion.start;
  result.phases = completion.phases;
  if (completion.wait_reason != scheduling::WaitReason::kNone) {
    result.wait_reason = scheduling::name_of(completion.wait_reason);
  }
  if (completion.outcome != Outcome::kRejected) {
    result.device = completion.device;
    result.beside = devices_in(completion.beside);
  }
  const bool failed_itself = live.answer && !live.answer->succeeded;
  if (failed_itself && !result.error) result.error = live.answer->error;
  // It was not given to the sandbox that was to serve it, whose words say why it was not ready.
  const bool was_late = completion.error_type == "Sandbox.InitTimeout";
  if (was_late) live.sandbox = sandbox_not_ready_in_time();
  RunReport report = report_of(live, completion.outcome);
  if (was_late && result.error && !report.why_not_ready.empty()) {
    result.error->message += ": " + report.why_not_ready;
  }
  // Dispatch knows that its start failed, and the sandbox how far it came.
  const Duration init =
      std::min(ending_ != nullptr ? ending_->init : report.init, result.phases.sandbox);
  result.phases.sandbox -= init;
  result.phases.init += init;
  result.payload = std::move(report.payload);
  if (failed_itself) result.error_type = std::move(report.error_type);
  result.device_memory_peak = report.device_memory_peak;
  result.host_memory_peak = report.host_memory_peak;
  result.log_tail = std::move(report.log_tail);
  return result;
}

// Dispatch stops the sandbox right after it gave up what waited for it.
SandboxId DispatchDriver::sandbox_not_ready_in_time() const {
  if (performing_ + 1 >= actions_.size()) return {};
  const auto* stop = std::get_if<dispatch::StopSandbox>(&actions_[performing_ + 1]);
  const bool is_it = stop != nullptr && stop->reason == dispatch::StopReason::kInitTimedOut;
  return is_it ? stop->sandbox : SandboxId{};
}

bool DispatchDriver::is_stopped_next(SandboxId sandbox) const {
  if (performing_ + 1 >= actions_.size()) return false;
  const auto* stop = std::get_if<dispatch::StopSandbox>(&actions_[performing_ + 1]);
  return stop != nullptr && stop->sandbox == sandbox;
}

RunReport DispatchDriver::report_of(LiveInvocation& live, Outcome outcome) {
  if (live.answer) return std::move(*live.answer);
  if (ending_ != nullptr && outcome == Outcome::kFunctionError) return report_of_end(live);
  if (live.sandbox == SandboxId{}) return {};
  return uses_.backends.of(live.sandbox).partial_report(live.sandbox, live.request.id);
}

// What the end of its sandbox is to this one.
RunReport DispatchDriver::report_of_end(const LiveInvocation& live) const {
  RunReport report = *ending_;
  const auto other = std::find_if(
      ending_->others.begin(), ending_->others.end(),
      [&](const SandboxEnd::Other& each) { return each.invocation == live.request.id; });
  if (other == ending_->others.end()) return report;
  report.payload = other->payload;
  report.log_tail = other->log_tail;
  return report;
}

void DispatchDriver::on_ready(SandboxId sandbox, Duration sandbox_time, Duration init_time) {
  handle(dispatch::SandboxReady{sandbox, sandbox_time, init_time});
  uses_.host_memory.note();
}

bool DispatchDriver::keep(const KeptOnDevices& kept) {
  dispatch::SandboxReady ready{.sandbox = kept.sandbox,
                               .sandbox_time = kept.sandbox_time,
                               .init_time = kept.init_time,
                               .kept_of = kept.function,
                               .device = kept.devices.front(),
                               .memory_is_out = kept.memory_is_out,
                               .deep = kept.deep,
                               // As on_memory_moved counts it.
                               .left = kept.left + uses_.context_memory,
                               .offloaded = kept.offloaded};
  for (size_t i = 1; i < kept.devices.size(); ++i) {
    ready.beside |= uint64_t{1} << (kept.devices[i].value - 1);
  }
  handle(ready);
  return dispatcher_.fleet().find(kept.sandbox).has_value();
}

void DispatchDriver::on_answer(SandboxId sandbox, HandlerAnswer answer) {
  LiveInvocation* live = uses_.live.find(answer.invocation);
  if (live == nullptr) return;  // it was completed as timed out a moment ago
  const dispatch::InvocationFinished finished{answer.invocation, answer.execution, answer.succeeded,
                                              answer.device_memory_now};
  reach_of(uses_.faults, FaultPoint::kAnswered, *live);
  live->answer = std::move(answer);
  handle(finished);
  uses_.host_memory.note();
  uses_.unloads.answered(sandbox);
}

void DispatchDriver::on_end(SandboxEnd end) {
  return_if_not_noted(end);
  const dispatch::SandboxExited exited{end.sandbox, end.error, end.error_type, end.undelivered};
  if (LiveInvocation* live = uses_.live.find(end.invocation)) {
    live->request.payload = std::move(end.returned_payload);
    // It does not start again.
    if (live->cancelled) end.undelivered = false;
  }
  for (const InvocationId each : end.returned) handle(dispatch::InvocationUndelivered{each});
  const FunctionId function = instance_of(dispatcher_, end.sandbox);
  ending_ = &end;
  handle(exited);
  ending_ = nullptr;
  uses_.unloads.ended(end.sandbox);
  if (function != FunctionId{}) note_failed_instance(function, end);
}

// No call waited for it, so that nothing else tells what happened.
void DispatchDriver::note_failed_instance(FunctionId function, const SandboxEnd& end) {
  const FunctionSpec* spec = uses_.functions.find(function);
  const dispatch::InstanceStatus status = dispatcher_.instances(function);
  if (spec == nullptr || status.failures == 0) return;
  const double wait_s =
      to_seconds(std::max(Duration(0), status.next_start - uses_.loop.clock().now()));
  uses_.log.warning("instance_failed", {{"function", spec->name.name},
                                        {"tenant", int64_t{spec->name.tenant.value}},
                                        {"error_type", end.error_type},
                                        {"error", end.error.message},
                                        {"failures", int64_t{status.failures}},
                                        {"next_start_in_s", wait_s}});
  char text[64];
  std::snprintf(text, sizeof(text), "; the next is started in %.0f s\n", wait_s);
  uses_.reports.on_output(function, "INSTANCE failed " + std::to_string(status.failures) +
                                        " times in a row (" + end.error_type +
                                        "): " + end.error.message + text);
}

void DispatchDriver::on_memory_moved(SandboxId sandbox, const MemoryMove& move) {
  dispatch::MemoryMoved moved;
  moved.sandbox = sandbox;
  moved.direction = move.out ? dispatch::MoveDirection::kOut : dispatch::MoveDirection::kIn;
  moved.done = move.done;
  moved.moved = move.moved;
  moved.left = move.left;
  const bool keeps_context =
      uses_.backends.of(sandbox).has_own_contexts() && (!move.deep || !move.done);
  if (keeps_context) moved.left += uses_.context_memory;
  moved.offloaded = move.spared;
  moved.duration = move.duration;
  handle(moved);
}

void DispatchDriver::on_memory_wanted(SandboxId sandbox, Bytes bytes) {
  handle(dispatch::MemoryWanted{sandbox, bytes});
}

void DispatchDriver::executors_take(DeviceId device, Bytes bytes) {
  handle(dispatch::DeviceTaken{device, bytes});
}

bool DispatchDriver::has_room(DeviceId device, Bytes bytes) const {
  const scheduling::Fleet& fleet = dispatcher_.fleet();
  const auto index = fleet.device_index(device);
  if (!index) return true;
  const scheduling::Device& there = fleet.devices()[*index];
  const Bytes held = fleet.memory().moves_idle() ? there.resident : there.occupied;
  return held + bytes <= there.options.memory && !uses_.executors.objects().evicts(device);
}

}  // namespace lambent::worker
