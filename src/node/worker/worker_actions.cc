// The part of Worker between dispatch and the sandboxes: events in, actions out.
#include <utility>

#include "node/worker/worker.h"

namespace lambent::worker {
namespace {

constexpr Duration kJournalPeriod = milliseconds(100);

bool uses_executor(const FunctionSpec& spec) {
  const bool is_client = spec.kind == FunctionKind::kHandler && spec.gpu.memory > Bytes(0) &&
                         spec.gpu.runtime == GpuRuntime::kShared;
  return spec.kind == FunctionKind::kKernel || is_client;
}

}  // namespace

void Worker::handle(dispatch::Event event) {
  events_.push_back(std::move(event));
  if (handling_) return;
  handling_ = true;
  while (!events_.empty()) {
    const dispatch::Event next = std::move(events_.front());
    events_.pop_front();
    actions_.clear();
    const Instant now = loop_.clock().now();
    dispatcher_->handle(next, now, actions_);
    if (journal_ != nullptr) {
      journal_->record(next, now, *dispatcher_);
      time_journal();
    }
    look_at_objects();
    // An action may bring up events, but those wait: actions_ does not change meanwhile.
    for (const dispatch::Action& action : actions_) perform(action);
  }
  handling_ = false;
  if (draining_) check_drained();
}

// What a kill may take of the journal is as old as this at most.
void Worker::time_journal() {
  if (std::exchange(journal_timed_, true)) return;
  journal_timer_ = loop_.call_after(kJournalPeriod, [this] {
    journal_timed_ = false;
    flush_journal();
  });
}

void Worker::flush_journal() {
  journal_->flush(*dispatcher_, loop_.clock().wall_now());
  const bool stopped = !journal_->recording();
  if (stopped && !journal_stopped_) {
    log_.error("journal_stopped",
               {{"events", static_cast<int64_t>(journal_->events())},
                {"what", "the disk does not follow; events are lost until it does"}});
  } else if (!stopped && journal_stopped_) {
    log_.warning("journal_goes_on",
                 {{"lost_events", static_cast<int64_t>(journal_->lost_events())}});
  }
  journal_stopped_ = stopped;
  if (stopped) time_journal();
}

void Worker::perform(const dispatch::Action& action) {
  std::visit([this](const auto& each) { perform(each); }, action);
}

void Worker::perform(const dispatch::StartSandbox& action) {
  if (!waits_for_objects(action.device, action)) start_sandbox(action);
}

void Worker::start_sandbox(const dispatch::StartSandbox& action) {
  const FunctionSpec* spec = functions_.find(action.function);
  if (spec == nullptr) {
    handle(dispatch::SandboxExited{
        action.sandbox, {ErrorCode::kNotFound, "the function was removed"}, "Sandbox.Failure"});
    return;
  }
  const std::optional<FunctionSpec> whole = pipelines_.whole(action.function);
  const bool has_sandboxes = spec->kind == FunctionKind::kHandler ||
                             spec->kind == FunctionKind::kKernel || whole.has_value();
  if (!has_sandboxes) {  // since its invocation was queued
    handle(dispatch::SandboxExited{
        action.sandbox,
        {ErrorCode::kAborted, "the function became a " + std::string(name_of(spec->kind))},
        "Sandbox.Failure"});
    return;
  }
  log_.debug("sandbox_start", {{"sandbox", static_cast<int64_t>(action.sandbox.value)},
                               {"tenant", int64_t{spec->name.tenant.value}},
                               {"function", spec->name.name},
                               {"device", int64_t{action.device.value}}});
  if (spec->kind == FunctionKind::kKernel) {
    executors_.start(action.sandbox, *spec, code_folder(*spec), action.device);
  } else if (whole) {
    host_.start(action.sandbox, *whole, code_folder(*spec), action.device);
  } else {
    const bool as_variant = action.device == scheduling::kHostDevice && spec->cpu_variant;
    host_.start(action.sandbox, as_variant ? cpu_variant_of(*spec) : *spec, code_folder(*spec),
                action.device);
  }
}

void Worker::perform(const dispatch::StartInvocation& action) {
  const auto found = live_.find(action.invocation);
  CHECK(found != live_.end(), "only live invocations are started");
  Live& live = found->second;
  live.sandbox = action.sandbox;
  const FunctionSpec* spec = functions_.find(live.function);
  const Duration timeout = spec != nullptr ? spec->timeout : limits::kDefaultTimeout;
  live.revision = spec != nullptr ? spec->revision : 0;
  note_begun(live.request);
  if (executors_.has(action.sandbox)) return executors_.give(action.sandbox, live.request);
  host_.give(action.sandbox, live.request, timeout);
}

void Worker::perform(const dispatch::StopSandbox& action) {
  // An invocation that it ran has its outcome, with dispatch's own words: these are for the log
  // alone.
  const Error error{ErrorCode::kCancelled,
                    "the sandbox was stopped: " + std::string(name_of(action.reason))};
  const auto deferred = take_deferred(action.sandbox);
  if (deferred && std::holds_alternative<dispatch::StartSandbox>(*deferred)) {
    handle(dispatch::SandboxExited{action.sandbox, error, "Sandbox.Stopped"});
    return;
  }
  if (executors_.has(action.sandbox)) {
    executors_.stop(action.sandbox, error, "Sandbox.Stopped");
  } else {
    host_.stop(action.sandbox, error, "Sandbox.Stopped");
  }
}

void Worker::perform(const dispatch::CompleteInvocation& action) {
  Live live = take_live(action.invocation);
  InvocationResult result = result_of(live, action);
  finish(std::move(live), std::move(result));
}

void Worker::perform(const dispatch::WakeAt& action) {
  loop_.cancel(wake_timer_);
  wake_timer_ = {};
  if (action.instant == kNever) return;
  wake_timer_ = loop_.call_at(action.instant, [this] { handle(dispatch::TimerFired{}); });
}

void Worker::perform(const dispatch::MoveMemoryIn& action) {
  const scheduling::Fleet& fleet = dispatcher_->fleet();
  const auto slot = fleet.find(action.sandbox);
  if (slot) {
    const DeviceId device = fleet.devices()[fleet.sandbox(*slot).device].options.id;
    if (waits_for_objects(device, action)) return;
  }
  move_memory_in(action.sandbox);
}

void Worker::move_memory_in(SandboxId sandbox) {
  if (executors_.has(sandbox)) return executors_.move_memory(sandbox, false);
  host_.move_memory_in(sandbox);
}

void Worker::perform(const dispatch::MoveMemoryOut& action) {
  if (executors_.has(action.sandbox)) return executors_.move_memory(action.sandbox, true);
  host_.move_memory_out(action.sandbox, action.depth == dispatch::MoveDepth::kContext
                                            ? protocol::MemoryMoveDepth::kContext
                                            : protocol::MemoryMoveDepth::kMemory);
}

void Worker::perform(const dispatch::GrantMemory& action) {
  host_.grant_memory(action.sandbox, action.bytes);
  metrics_.memory_wanted(action.bytes > Bytes(0));
}

void Worker::memory_moved(SandboxId sandbox, const MemoryMove& move) {
  dispatch::MemoryMoved moved;
  moved.sandbox = sandbox;
  moved.direction = move.out ? dispatch::MoveDirection::kOut : dispatch::MoveDirection::kIn;
  moved.done = move.done;
  moved.moved = move.moved;
  moved.left = move.left;
  // Instances share the context of their executor.
  const bool has_context = !executors_.has(sandbox) && (!move.deep || !move.done);
  if (has_context) moved.left += options_.context_memory;
  moved.offloaded = move.spared;
  moved.duration = move.duration;
  if (move.done) metrics_.memory_moved(move.out, move.moved, move.duration);
  log_.debug("memory_moved", {{"sandbox", static_cast<int64_t>(sandbox.value)},
                              {"out", move.out},
                              {"done", move.done},
                              {"bytes", static_cast<int64_t>(move.moved.count)},
                              {"offloaded", static_cast<int64_t>(move.offloaded.count)},
                              // Its name in the version before.
                              {"aside", static_cast<int64_t>(move.offloaded.count)}});
  if (pipelines_.has_sandbox(sandbox)) return pipelines_.memory_moved(sandbox, move);
  handle(moved);
}

SandboxHost::Events Worker::host_events() {
  SandboxHost::Events events;
  events.on_ready = [this](SandboxId sandbox, Duration sandbox_time, Duration init_time) {
    metrics_.sandbox_started(sandbox_time, init_time);
    if (pipelines_.has_sandbox(sandbox)) return pipelines_.stage_process_ready(sandbox);
    handle(dispatch::SandboxReady{sandbox, sandbox_time, init_time});
  };
  events.on_answer = [this](SandboxId sandbox, HandlerAnswer answer) {
    if (pipelines_.has_sandbox(sandbox))
      return pipelines_.stage_process_answered(sandbox, std::move(answer));
    sandbox_answered(sandbox, std::move(answer));
  };
  events.on_end = [this](SandboxEnd end) {
    if (pipelines_.has_sandbox(end.sandbox)) return pipelines_.stage_process_ended(std::move(end));
    sandbox_ended(std::move(end));
  };
  events.on_memory_moved = [this](SandboxId sandbox, const MemoryMove& move) {
    memory_moved(sandbox, move);
  };
  events.on_memory_wanted = [this](SandboxId sandbox, Bytes bytes) {
    // What a stage process of a pipeline has offloaded counts with the rest of its memory.
    if (pipelines_.has_sandbox(sandbox)) return host_.grant_memory(sandbox, bytes);
    handle(dispatch::MemoryWanted{sandbox, bytes});
  };
  events.on_taken = [this](DeviceId device, Bytes bytes) {
    handle(dispatch::DeviceTaken{device, bytes});
  };
  events.has_room = [this](DeviceId device, Bytes taken) {
    const scheduling::Fleet& fleet = dispatcher_->fleet();
    const auto index = fleet.device_index(device);
    if (!index) return true;
    const scheduling::Device& there = fleet.devices()[*index];
    const Bytes held = fleet.memory().moves_idle() ? there.resident : there.occupied;
    return held + taken <= there.options.memory && !executors_.evicts_objects(device);
  };
  events.on_other_exit = [this](SandboxId id, const sandbox::Exit& exit) {
    executors_.exited(id, exit);
  };
  events.serve_link = options_.serve_link;
  events.forget_link = options_.forget_link;
  events.share_runtime = [this](SandboxId id, const FunctionSpec& spec, DeviceId device,
                                OwnedFd listener, OwnedFd ledger) {
    executors_.add_client(id, spec, device, std::move(listener), std::move(ledger),
                          [this, id](const Error& error, const std::string& error_type) {
                            host_.stop(id, error, error_type);
                          });
  };
  events.leave_runtime = [this](SandboxId id) { executors_.remove_client(id); };
  events.on_object = options_.on_object;
  events.on_output = [this](FunctionId function, std::string_view text) {
    logs_.append(function, text);
  };
  return events;
}

// So that the first request of a kernel function finds an executor.
void Worker::keep_executors(const FunctionSpec& spec) {
  if (!uses_executor(spec)) return;
  for (const scheduling::Device& device : dispatcher_->fleet().devices()) {
    const DeviceState state = care_.status(device.options.id).state;
    if (state == DeviceState::kDrained || state == DeviceState::kLost) continue;
    executors_.keep(spec, device.options.id);
  }
}

void Worker::keep_all_executors() {
  for (const FunctionSpec& spec : functions_.all()) keep_executors(spec);
}

// Unless another function of the tenant uses the same.
void Worker::drop_executors(const FunctionSpec& spec) {
  if (!uses_executor(spec)) return;
  for (const FunctionSpec& other : functions_.all()) {
    const bool shares =
        uses_executor(other) && executor_key(other, DeviceId()) == executor_key(spec, DeviceId());
    if (shares) return;
  }
  executors_.drop(spec);
}

void Worker::sandbox_answered(SandboxId, HandlerAnswer answer) {
  const auto found = live_.find(answer.invocation);
  if (found == live_.end()) return;  // it was completed as timed out a moment ago
  const dispatch::InvocationFinished finished{answer.invocation, answer.execution, answer.succeeded,
                                              answer.device_memory_now};
  found->second.answer = std::move(answer);
  handle(finished);
}

void Worker::sandbox_ended(SandboxEnd end) {
  const dispatch::SandboxExited exited{end.sandbox, end.error, end.error_type, end.undelivered};
  if (const auto live = live_.find(end.invocation); live != live_.end()) {
    live->second.request.payload = std::move(end.returned_payload);
  }
  ending_ = &end;
  handle(exited);
  ending_ = nullptr;
}

void Worker::drain(std::function<void()> drained) {
  drained_ = std::move(drained);
  if (!std::exchange(draining_, true)) {
    if (waits_ != nullptr) {
      waits_->fail_all({ErrorCode::kUnavailable, "the worker is stopping; try again elsewhere"});
    }
    handle(dispatch::DrainStarted{});
    pipelines_.drain();
    workflows_.room_made();
  }
  check_drained();
}

void Worker::check_drained() {
  if (!drained_ || !dispatcher_->drained() || workflows_.live() > 0) return;
  if (pipelines_.live() > 0) return;
  // The caller may be deep in the handling of an event.
  loop_.call_after(Duration(0), std::exchange(drained_, nullptr));
}

}  // namespace lambent::worker
