#include "sim/simulator/invariants.h"

#include <algorithm>
#include <utility>

namespace lambent::simulator {

namespace {

std::string text_of(SandboxId id) { return "sandbox " + std::to_string(id.value); }
std::string text_of(InvocationId id) {
  return "invocation " + std::to_string(id.high) + "/" + std::to_string(id.low);
}

}  // namespace

std::string_view name_of(Invariant invariant) {
  static constexpr std::string_view kNames[] = {
      "memory",        "host_memory",       "tokens",       "pool",
      "start_sandbox", "start_invocation",  "moves",        "stop_sandbox",
      "one_outcome",   "true_outcome",      "queues",       "virtual_time",
      "over_run",      "work_conservation", "endless_wait", "timers",
      "accounts",      "nothing_left",      "snapshot"};
  static_assert(std::size(kNames) == kInvariants);
  return kNames[static_cast<size_t>(invariant)];
}

Invariants::Invariants(const dispatch::Dispatcher& dispatcher, InvariantOptions options)
    : dispatcher_(dispatcher), options_(std::move(options)) {
  scheduling::DeviceOptions host{.id = scheduling::kHostDevice,
                                 .tokens = options_.limits.host_concurrency,
                                 .contexts = options_.limits.host_sandboxes};
  devices_.push_back({.known = true, .options = host});
  for (const scheduling::DeviceOptions& device : options_.limits.fleet.devices) {
    if (device.id.value >= devices_.size()) devices_.resize(device.id.value + 1);
    devices_[device.id.value] = {.known = true, .options = device};
  }
}

void Invariants::check(const dispatch::Event& event, Instant now,
                       const std::vector<dispatch::Action>& actions) {
  if (violation_) return;
  ++events_;
  if (now < now_) violate(Invariant::kTimers, "time went back");
  before_ = now_;
  now_ = now;
  timer_fired_ = false;
  must_complete_.reset();
  handler_succeeded_.reset();
  answered_.clear();
  std::visit([this](const auto& one) { see(one); }, event);
  for (const dispatch::Action& action : actions) {
    std::visit([this](const auto& one) { see(one); }, action);
  }
  settle();
  check_ready();
  check_limits();
  check_queues(event);
  check_virtual_times();
  check_conservation();
  check_grace_period();
  if (timer_fired_) check_deadlines(true);
  if (events_ % options_.scan_period == 0) scan();
}

// ---- What the world told

void Invariants::see(const dispatch::FunctionRegistered& event) {
  Function& known = function(event.profile.id);
  if (known.registered && event.profile.revision < known.profile.revision) return;
  known.registered = true;
  known.profile = event.profile;
}

void Invariants::see(const dispatch::FunctionRemoved& event) {
  function(event.function).registered = false;
}

void Invariants::see(const dispatch::InvocationSubmitted& event) {
  const auto [place, fresh] = live_.try_emplace(event.invocation);
  if (!fresh) return;
  place->second = {.function = event.function,
                   .asynchronous = event.asynchronous,
                   .submitted = now_,
                   .waiting_since = now_};
  ++function(event.function).waiting;
}

void Invariants::see(const dispatch::SandboxReady& event) {
  const auto found = processes_.find(event.sandbox);
  if (found == processes_.end() || found->second.state != State::kStarting) return;
  change(found->second, State::kReady);
  found->second.since = now_;
}

void Invariants::see(const dispatch::SandboxExited& event) {
  const auto found = processes_.find(event.sandbox);
  if (found == processes_.end()) return;
  const Process& process = found->second;
  if (process.state == State::kBusy) {
    Live& live = live_.at(process.invocation);
    if (event.undelivered) {
      live.running = false;
      live.run_limit = kNever;
      live.waiting_since = now_;
      ++function(live.function).waiting;
    } else {
      must_complete_ = process.invocation;
    }
    live.sandbox = {};
  }
  if (process.state == State::kStarting || process.state == State::kReady) {
    wait_anew(process.function);
  }
  // Room came free: whoever waited for it has not waited in vain.
  if (process.state == State::kStopping) {
    for (Function& known : functions_) known.lost_grace_period = Duration(0);
  }
  count(process, -1);
  processes_.erase(found);
}

void Invariants::see(const dispatch::InvocationFinished& event) {
  const auto found = live_.find(event.invocation);
  if (found == live_.end() || !found->second.running) return;
  must_complete_ = event.invocation;
  handler_succeeded_ = event.succeeded;
}

void Invariants::see(const dispatch::DeviceReading& event) {
  if (event.device.value == 0 || event.device.value >= devices_.size()) return;
  Device& device = devices_[event.device.value];
  device.healthy = event.healthy && !event.lost;
  if (event.lost && !std::exchange(device.lost, event.lost)) ++device.losses;
  device.lost = event.lost;
}

void Invariants::see(const dispatch::DeviceTaken& event) {
  if (event.device.value == 0 || event.device.value >= devices_.size()) return;
  devices_[event.device.value].taken = event.bytes;
}

void Invariants::see(const dispatch::TimerFired&) {
  armed_ = kNever;
  timer_fired_ = true;
}

// ---- What dispatch wants

void Invariants::see(const dispatch::StartSandbox& action) {
  const auto wrong = [&](const char* why) {
    violate(Invariant::kStartSandbox, text_of(action.sandbox) + " is started " + why);
  };
  // Numbers are dense, but given when a place is found: they do not always start in order.
  const size_t number = action.sandbox.value;
  if (number >= used_.size()) used_.resize(number + 1);
  if (used_[number]) wrong("under a number that was used before");
  used_[number] = true;
  const Function& known = function(action.function);
  if (!known.registered) wrong("for a function that does not exist");
  if (action.revision != known.profile.revision) wrong("of a revision that is not the present one");
  if (action.device.value >= devices_.size() || !devices_[action.device.value].known) {
    return wrong("on a device that does not exist");
  }
  if (!devices_[action.device.value].healthy) wrong("on a device that is not healthy");
  const bool uses_gpu = known.profile.device_memory.count > 0;
  const bool cpu_variant = uses_gpu && action.device.value == 0 && known.profile.has_cpu_variant &&
                           options_.limits.hybrid.rule != scheduling::HybridRule::kOff;
  if (uses_gpu != (action.device.value > 0) && !cpu_variant) wrong("on the wrong kind of device");
  Process process{
      .function = action.function,
      .revision = action.revision,
      .device = action.device.value,
      .memory = cpu_variant ? Bytes(0) : known.profile.device_memory,
      .cpu_variant = cpu_variant,
      .movable = known.profile.memory_moves && devices_[action.device.value].options.memory_moves,
      .checkpoints = known.profile.checkpoints,
      .start_limit = std::max(options_.limits.init_timeout, known.profile.timeout),
      .since = now_,
      .device_losses = devices_[action.device.value].losses};
  hold(process);
  count(process, 1);
  check_arrival(process, "a sandbox is started");
  processes_[action.sandbox] = process;
}

void Invariants::see(const dispatch::StartInvocation& action) {
  const auto wrong = [&](const std::string& why) {
    violate(Invariant::kStartInvocation,
            text_of(action.invocation) + " is given to " + text_of(action.sandbox) + ", " + why);
  };
  const auto found = processes_.find(action.sandbox);
  if (found == processes_.end()) return wrong("which does not exist");
  Process& process = found->second;
  // One that has just answered may get its next invocation in the same breath.
  const bool just_answered =
      std::find(answered_.begin(), answered_.end(), action.sandbox) != answered_.end();
  const bool warm = process.state == State::kIdle || just_answered;
  if (process.state != State::kReady && !warm) return wrong("which is not ready for one");
  const auto invocation = live_.find(action.invocation);
  if (invocation == live_.end()) return wrong("but has its outcome or was never submitted");
  Live& live = invocation->second;
  if (live.running) return wrong("but runs already");
  if (live.function != process.function) return wrong("a sandbox of another function");
  if (action.device.value != process.device) return wrong("which is on another device");
  const Function& known = function(live.function);
  if (warm && (!known.registered || known.profile.revision != process.revision)) {
    return wrong("a sandbox of a revision that is gone");
  }
  if (warm && !devices_[process.device].healthy) wrong("which is on a device that is not healthy");
  if (process.device_losses != devices_[process.device].losses) {
    wrong("whose device was lost since it was started");
  }
  const bool in = process.where == Process::Where::kIn;
  const StartClass start = !warm ? StartClass::kCold
                           : in  ? StartClass::kWarm
                                 : StartClass::kGpuCold;
  if (action.start != start) wrong("under the wrong start class");
  std::erase(answered_, action.sandbox);
  change(process, State::kBusy);
  process.invocation = action.invocation;
  process.since = now_;
  live.running = true;
  live.sandbox = action.sandbox;
  live.run_limit = in && known.profile.timeout.count() > 0 ? now_ + known.profile.timeout : kNever;
  if (process.where == Process::Where::kOut || process.where == Process::Where::kMovingOut) {
    process.move_limit = now_ + options_.limits.move_timeout;
  }
  --function(live.function).waiting;
}

void Invariants::see(const dispatch::StopSandbox& action) {
  const auto found = processes_.find(action.sandbox);
  if (found == processes_.end()) {
    violate(Invariant::kStopSandbox, text_of(action.sandbox) + " is stopped and does not exist");
    return;
  }
  Process& process = found->second;
  if (process.state == State::kStopping) {
    violate(Invariant::kStopSandbox, text_of(action.sandbox) + " is stopped twice");
  }
  const bool answered =
      std::find(answered_.begin(), answered_.end(), action.sandbox) != answered_.end();
  if (process.state == State::kBusy && !answered) {
    violate(Invariant::kStopSandbox,
            text_of(action.sandbox) + " is stopped under an invocation that has no outcome");
  }
  if (process.state == State::kStarting || process.state == State::kReady) {
    wait_anew(process.function);
  }
  std::erase(answered_, action.sandbox);
  // One that makes room was at rest first, if only for a moment.
  if (answered && action.reason == dispatch::StopReason::kEvicted) change(process, State::kIdle);
  change(process, State::kStopping);
  process.since = now_;
}

void Invariants::see(const dispatch::CompleteInvocation& action) {
  const auto found = live_.find(action.invocation);
  if (found == live_.end()) {
    violate(Invariant::kOneOutcome,
            text_of(action.invocation) + " gets an outcome that nothing waits for");
    return;
  }
  const Live& live = found->second;
  const Phases& phases = action.phases;
  const auto untrue = [&](const char* why) {
    violate(Invariant::kTrueOutcome, text_of(action.invocation) + " " + why);
  };
  if (action.outcome == Outcome::kSucceeded &&
      (must_complete_ != action.invocation || handler_succeeded_ != true)) {
    untrue("succeeds without an answer of its handler");
  }
  if (handler_succeeded_ == true && must_complete_ == action.invocation &&
      action.outcome != Outcome::kSucceeded) {
    untrue("failed although its handler answered");
  }
  if (action.outcome == Outcome::kRejected && !action.error) untrue("is rejected without a reason");
  if (action.outcome == Outcome::kRejected && live.running) untrue("is rejected while it runs");
  if (std::min({phases.queue, phases.sandbox, phases.init, phases.memory, phases.run}) <
      Duration(0)) {
    untrue("has a phase of less than nothing");
  }
  if (phases.total() != now_ - live.submitted) untrue("has phases that do not add up");
  if (live.running) {
    if (live.sandbox != SandboxId{}) answered_.push_back(live.sandbox);
  } else {
    --function(live.function).waiting;
  }
  if (must_complete_ == action.invocation) must_complete_.reset();
  live_.erase(found);
}

void Invariants::see(const dispatch::WakeAt& action) {
  if (action.instant < now_ || (timer_fired_ && action.instant == now_)) {
    violate(Invariant::kTimers, "a timer is set to an instant that has passed");
  }
  armed_ = action.instant;
}

// ---- After the actions

// A sandbox whose invocation is over and that got neither stopped nor another one is idle.
void Invariants::settle() {
  for (const SandboxId id : answered_) {
    const auto found = processes_.find(id);
    if (found == processes_.end() || found->second.state != State::kBusy) continue;
    change(found->second, State::kIdle);
    found->second.since = now_;
    if (found->second.where == Process::Where::kOut) found->second.move_limit = kNever;
  }
  if (must_complete_) {
    violate(Invariant::kOneOutcome, text_of(*must_complete_) + " is over and has no outcome");
  }
}

void Invariants::check_limits() {
  const scheduling::FleetOptions& fleet = options_.limits.fleet;
  for (const Device& device : devices_) {
    if (!device.known) continue;
    const auto over = [&](Invariant invariant, const std::string& what, uint64_t has,
                          uint64_t most) {
      violate(invariant, "device " + std::to_string(device.options.id.value) + " has " +
                             std::to_string(has) + " " + what + ", of " + std::to_string(most));
    };
    const bool is_host = device.options.id == scheduling::kHostDevice;
    if (!is_host && device.memory > device.options.memory) {
      over(Invariant::kMemory, "bytes in use", device.memory.count, device.options.memory.count);
    }
    const unsigned most = device.options.most_tokens();
    if (device.at_work > most) over(Invariant::kTokens, "at work", device.at_work, most);
    const unsigned places = most + (is_host ? 0 : fleet.starts_outside_tokens);
    if (device.places > places) {
      over(Invariant::kTokens, "at work and starting", device.places, places);
    }
    const unsigned contexts = device.processes - device.without_context;
    if (contexts > device.options.contexts) {
      over(Invariant::kPool, "sandboxes", contexts, device.options.contexts);
    }
  }
  check_host_memory();
  check_beside_taken();
  if (gpu_processes_ > fleet.most_sandboxes) {
    violate(Invariant::kPool, std::to_string(gpu_processes_) + " sandboxes exist, of " +
                                  std::to_string(fleet.most_sandboxes));
  }
}

void Invariants::check_queues(const dispatch::Event& event) {
  // What comes back from a place that is no more may exceed the limit; what is let in may not.
  const size_t returned = options_.limits.fleet.most_sandboxes + options_.limits.host_sandboxes;
  size_t most = options_.limits.queued_invocations + returned;
  size_t most_each = options_.limits.queued_per_function + returned;
  if (const auto* submitted = std::get_if<dispatch::InvocationSubmitted>(&event)) {
    const auto found = live_.find(submitted->invocation);
    if (found != live_.end() && !found->second.running && found->second.submitted == now_) {
      most -= returned;
      const FunctionId id = submitted->function;
      const size_t pending = dispatcher_.flows()[id.value].pending;
      if (pending > options_.limits.queued_per_function) {
        violate(Invariant::kQueues, "function " + std::to_string(id.value) + " has " +
                                        std::to_string(pending) + " waiting after an arrival");
      }
    }
  }
  if (dispatcher_.queued() > most) {
    violate(Invariant::kQueues, std::to_string(dispatcher_.queued()) + " invocations wait");
  }
  for (const scheduling::Flow& flow : dispatcher_.flows()) {
    if (flow.pending > most_each) {
      violate(Invariant::kQueues, std::to_string(flow.pending) + " wait for one function");
    }
  }
  if (dispatcher_.queued() + dispatcher_.in_flight() != live_.size()) {
    violate(Invariant::kOneOutcome,
            std::to_string(live_.size()) + " invocations have no outcome, dispatch knows of " +
                std::to_string(dispatcher_.queued() + dispatcher_.in_flight()));
  }
}

// ---- Accounts

void Invariants::change(Process& process, State state) {
  count(process, -1);
  process.state = state;
  hold(process);
  count(process, 1);
}

// What a sandbox in its state holds; one that is stopped keeps what it has until it is gone.
void Invariants::hold(Process& process) const {
  if (process.state == State::kStopping) return;
  const scheduling::FleetOptions& fleet = options_.limits.fleet;
  const bool starts = process.state == State::kStarting || process.state == State::kReady;
  process.held = process.memory;
  if (fleet.memory_rule == scheduling::MemoryRule::kMoveIdle) hold_moving(process);
  process.at_work = process.state == State::kBusy;
  process.holds_place = process.at_work || starts;
}

void Invariants::count(const Process& process, int by) {
  const auto add = [by](unsigned& number, bool counts) {
    if (counts) number += static_cast<unsigned>(by);
  };
  const auto add_memory = [&](Bytes& total, Bytes amount) {
    total = by > 0 ? total + amount : total - amount;
  };
  Device& device = devices_[process.device];
  add(device.processes, true);
  add(gpu_processes_, process.device != 0);
  const bool idle = process.state == State::kIdle;
  add(device.idle, idle);
  add(gpu_idle_, idle && process.device != 0);
  add(gpu_stopping_, process.state == State::kStopping && process.device != 0);
  if (idle) add_memory(device.idle_memory, process.held);
  add(device.at_work, process.at_work);
  add(device.places, process.holds_place);
  add(device.ready, process.state == State::kReady);
  add_memory(device.occupied, process.memory);
  add_memory(device.memory, process.held);
  add_memory(on_host_, process.on_host);
  add(device.without_context, process.deep && process.where == Process::Where::kOut);
  Function& owner = function(process.function);
  add(owner.starting, process.state == State::kStarting || process.state == State::kReady);
  add(owner.busy, process.state == State::kBusy);
  add(owner.as_cpu_variant,
      process.cpu_variant && process.state != State::kIdle && process.state != State::kStopping);
}

// Which of a function's invocations a starting sandbox is for is dispatch's affair: when one is
// gone, any of them may be the one that waits again.
void Invariants::wait_anew(FunctionId id) {
  Function& known = function(id);
  if (known.waiting == 0) return;
  for (auto& [invocation, live] : live_) {
    if (live.function == id && !live.running) live.waiting_since = now_;
  }
}

Invariants::Function& Invariants::function(FunctionId id) {
  if (id.value >= functions_.size()) functions_.resize(id.value + 1);
  return functions_[id.value];
}

void Invariants::violate(Invariant invariant, std::string what) {
  if (!violation_) violation_ = Violation{invariant, std::move(what)};
}

}  // namespace lambent::simulator
