#include "sim/simulator/invariants.h"

#include <algorithm>
#include <utility>

namespace lambent::simulator {

namespace {

std::string text_of(SandboxId id) { return "sandbox " + std::to_string(id.value); }
std::string text_of(InvocationId id) {
  return "invocation " + std::to_string(id.high) + "/" + std::to_string(id.low);
}

bool rests(const dispatch::Dispatcher& dispatcher, SandboxId id) {
  for (const scheduling::Fleet* fleet : {&dispatcher.fleet(), &dispatcher.host_fleet()}) {
    const auto slot = fleet->find(id);
    if (slot) return fleet->sandbox(*slot).state == scheduling::SandboxState::kIdle;
  }
  return false;
}

}  // namespace

Invariants::Invariants(const dispatch::Dispatcher& dispatcher, InvariantOptions options)
    : dispatcher_(dispatcher),
      options_(std::move(options)),
      accounts_(options_.limits),
      scans_(dispatcher, options_, accounts_, [this](Invariant invariant, std::string what) {
        violate(invariant, std::move(what));
      }) {}

void Invariants::check(const dispatch::Event& event, Instant now,
                       const std::vector<dispatch::Action>& actions) {
  if (violation_) return;
  ++events_;
  if (now < moment_.now) violate(Invariant::kTimers, "time went back");
  moment_.before = moment_.now;
  moment_.now = now;
  moment_.timer_fired = false;
  must_complete_.clear();
  handler_succeeded_.reset();
  answered_.clear();
  std::visit([this](const auto& one) { see(one); }, event);
  for (const dispatch::Action& action : actions) {
    std::visit([this](const auto& one) { see(one); }, action);
  }
  settle();
  scans_.check_ready(moment_);
  check_limits();
  check_queues(event);
  scans_.check_progress(moment_);
  if (moment_.timer_fired) scans_.check_deadlines(moment_, true);
  if (events_ % options_.scan_period != 0) return;
  scans_.check_deadlines(moment_, false);
  scans_.check_accounts();
}

// ---- What the world told

void Invariants::see(const dispatch::FunctionRegistered& event) {
  Function& known = accounts_.function(event.profile.id);
  if (known.registered && event.profile.revision < known.profile.revision) return;
  known.registered = true;
  known.profile = event.profile;
  if (known.profile.device_memory.count == 0) known.profile.gpu_count = 1;
  if (known.profile.gpu_count > 1) {
    // What these do not have, whatever they ask for.
    known.profile.checkpoints = known.profile.has_cpu_variant = false;
    known.profile.memory_moves &= options_.limits.fleet.moves_gangs;
  }
  if (known.profile.min_instances == 0) return;
  for (auto& [id, process] : accounts_.processes) {
    if (process.function == event.profile.id) process.was_kept = true;
  }
}

void Invariants::see(const dispatch::FunctionRemoved& event) {
  accounts_.function(event.function).registered = false;
}

void Invariants::see(const dispatch::InvocationSubmitted& event) {
  const auto [place, fresh] = accounts_.live.try_emplace(event.invocation);
  if (!fresh) return;
  place->second = {.function = event.function,
                   .asynchronous = event.asynchronous,
                   .submitted = moment_.now,
                   .waiting_since = moment_.now};
  ++accounts_.function(event.function).waiting;
}

void Invariants::see(const dispatch::SandboxReady& event) {
  const auto found = accounts_.processes.find(event.sandbox);
  if (found == accounts_.processes.end() || found->second.state != State::kStarting) return;
  accounts_.change(found->second, State::kReady);
  found->second.since = moment_.now;
  if (found->second.ahead) ready_ahead_ = event.sandbox;
}

// One that was started ahead rests as soon as it is ready, unless a call has come meanwhile.
void Invariants::rest_ahead(SandboxId id, Process& process) {
  if (ready_ahead_ != id || process.state != State::kReady) return;
  ready_ahead_.reset();
  accounts_.change(process, State::kIdle);
  process.since = moment_.now;
}

void Invariants::see(const dispatch::SandboxExited& event) {
  const auto found = accounts_.processes.find(event.sandbox);
  if (found == accounts_.processes.end()) return;
  const Process& process = found->second;
  if (process.state == State::kBusy) {
    for (const InvocationId each : process.others) {
      must_complete_.push_back(each);
      accounts_.live.at(each).sandbox = {};
    }
    Live& live = accounts_.live.at(process.invocation);
    // The last of several may be any of them; so all have their outcome, or that one waits again.
    const bool waits_again = event.undelivered && process.others.empty();
    if (waits_again) {
      wait_again(live);
    } else {
      must_complete_.push_back(process.invocation);
    }
    live.sandbox = {};
  }
  if (process.state == State::kStarting || process.state == State::kReady) {
    accounts_.restart_waits(process.function, moment_.now);
  }
  // Room came free: one that waited for it has not waited in vain.
  if (process.state == State::kStopping) scans_.forget_waits();
  accounts_.remove(event.sandbox);
}

void Invariants::wait_again(Live& live) {
  live.running = false;
  live.run_limit = kNever;
  live.waiting_since = moment_.now;
  ++accounts_.function(live.function).waiting;
}

void Invariants::see(const dispatch::InvocationUndelivered& event) {
  const auto found = accounts_.live.find(event.invocation);
  if (found == accounts_.live.end() || !found->second.running) return;
  const auto process = accounts_.processes.find(found->second.sandbox);
  if (process == accounts_.processes.end() || process->second.others.empty()) return;
  process->second.takes_no_more = true;
  leave(process->second, event.invocation);
  found->second.sandbox = {};
  wait_again(found->second);
}

// Of several in the process; the last one is not taken out.
void Invariants::leave(Process& process, InvocationId id) {
  if (process.invocation == id && !process.others.empty()) {
    process.invocation = process.others.front();
    process.others.erase(process.others.begin());
  } else {
    std::erase(process.others, id);
  }
}

void Invariants::see(const dispatch::InvocationFinished& event) {
  const auto found = accounts_.live.find(event.invocation);
  if (found == accounts_.live.end() || !found->second.running) return;
  must_complete_.push_back(event.invocation);
  handler_succeeded_ = event.succeeded;
}

void Invariants::see(const dispatch::DeviceReading& event) {
  if (event.device.value == 0 || event.device.value >= accounts_.devices.size()) return;
  Device& device = accounts_.devices[event.device.value];
  device.healthy = event.healthy && !event.lost;
  if (event.lost && !std::exchange(device.lost, event.lost)) ++device.losses;
  device.lost = event.lost;
}

void Invariants::see(const dispatch::DeviceTaken& event) {
  if (event.device.value == 0 || event.device.value >= accounts_.devices.size()) return;
  accounts_.devices[event.device.value].taken = event.bytes;
}

void Invariants::see(const dispatch::TimerFired&) {
  moment_.armed = kNever;
  moment_.timer_fired = true;
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
  const Function& known = accounts_.function(action.function);
  if (!known.registered) wrong("for a function that does not exist");
  if (action.revision != known.profile.revision) wrong("of a revision that is not the present one");
  if (action.device.value >= accounts_.devices.size() ||
      !accounts_.devices[action.device.value].known) {
    return wrong("on a device that does not exist");
  }
  std::vector<uint32_t> beside;
  scheduling::for_each_device_in(action.beside, [&](uint32_t bit) { beside.push_back(bit + 1); });
  for (const uint32_t other : beside) {
    if (other >= accounts_.devices.size() || !accounts_.devices[other].known) {
      return wrong("on another device that does not exist");
    }
    if (other == action.device.value) wrong("twice on one device");
  }
  if (beside.size() + 1 != known.profile.gpu_count) {
    wrong("on another number of devices than its function takes");
  }
  const bool uses_gpu = known.profile.device_memory.count > 0;
  const bool cpu_variant = uses_gpu && action.device.value == 0 && known.profile.has_cpu_variant &&
                           options_.limits.hybrid.rule != scheduling::HybridRule::kOff;
  if (uses_gpu != (action.device.value > 0) && !cpu_variant) wrong("on the wrong kind of device");
  bool all_move = accounts_.devices[action.device.value].options.memory_moves;
  for (const uint32_t other : beside) all_move &= accounts_.devices[other].options.memory_moves;
  Process process{.function = action.function,
                  .revision = action.revision,
                  .device = action.device.value,
                  .beside = std::move(beside),
                  .memory = cpu_variant ? Bytes(0) : known.profile.device_memory,
                  .cpu_variant = cpu_variant,
                  .movable = known.profile.memory_moves && all_move,
                  .checkpoints = known.profile.checkpoints,
                  .ahead = action.ahead,
                  .was_kept = known.profile.min_instances > 0,
                  .start_limit = std::max(options_.limits.init_timeout, known.profile.timeout),
                  .since = moment_.now};
  process.device_losses = accounts_.losses_of(process);
  if (!accounts_.is_healthy(process)) wrong("on a device that is not healthy");
  accounts_.add(action.sandbox, process);
  check_arrival(process, "a sandbox is started");
}

void Invariants::see(const dispatch::StartInvocation& action) {
  const auto wrong = [&](const std::string& why) {
    violate(Invariant::kStartInvocation,
            text_of(action.invocation) + " is given to " + text_of(action.sandbox) + ", " + why);
  };
  const auto found = accounts_.processes.find(action.sandbox);
  if (found == accounts_.processes.end()) return wrong("which does not exist");
  Process& process = found->second;
  // One that has just answered may get its next invocation in the same breath.
  const bool just_answered =
      std::find(answered_.begin(), answered_.end(), action.sandbox) != answered_.end();
  const bool warm = process.state == State::kIdle || just_answered;
  // One that was started ahead, with what came too late to take its start over.
  const bool was_ahead =
      process.ahead && process.state == State::kReady && action.start == StartClass::kWarm;
  const Function& known = accounts_.function(process.function);
  // One that works, or began to in this breath, and has room for more.
  const bool joins = process.state == State::kBusy && !just_answered &&
                     process.others.size() + 1 < known.profile.sandbox_concurrency;
  if (process.state != State::kReady && !warm && !joins) return wrong("which has no room for it");
  if (joins && process.takes_no_more) return wrong("which is about to end");
  if (joins && process.where != Process::Where::kIn) return wrong("whose memory is not there");
  const auto invocation = accounts_.live.find(action.invocation);
  if (invocation == accounts_.live.end())
    return wrong("but has its outcome or was never submitted");
  Live& live = invocation->second;
  if (live.running) return wrong("but runs already");
  if (live.function != process.function) return wrong("a sandbox of another function");
  if (action.device.value != process.device) return wrong("which is on another device");
  // While a function with instances changes, those of before serve its calls.
  const bool may_be_old = known.profile.min_instances > 0;
  const bool is_present = known.profile.revision == process.revision || may_be_old;
  if ((warm || joins) && (!known.registered || !is_present)) {
    return wrong("a sandbox of a revision that is gone");
  }
  if ((warm || joins) && !accounts_.is_healthy(process))
    wrong("which is on a device that is not healthy");
  if (process.device_losses != accounts_.losses_of(process)) {
    wrong("whose device was lost since it was started");
  }
  const bool in = process.where == Process::Where::kIn;
  const bool is_cold = !warm && !joins && !was_ahead;
  const StartClass start = is_cold ? StartClass::kCold
                           : in    ? StartClass::kWarm
                                   : StartClass::kGpuCold;
  if (action.start != start) wrong("under the wrong start class");
  live.running = true;
  if (joins) {
    process.others.push_back(action.invocation);
  } else {
    process.ahead = false;
    std::erase(answered_, action.sandbox);
    accounts_.change(process, State::kBusy);
    process.invocation = action.invocation;
    process.takes_no_more = false;
    process.since = moment_.now;
  }
  live.sandbox = action.sandbox;
  live.run_limit =
      in && known.profile.timeout.count() > 0 ? moment_.now + known.profile.timeout : kNever;
  if (process.where == Process::Where::kOut) {
    process.move_limit = moment_.now + options_.limits.move_wait();
  }
  --accounts_.function(live.function).waiting;
}

void Invariants::see(const dispatch::StopSandbox& action) {
  const auto found = accounts_.processes.find(action.sandbox);
  if (found == accounts_.processes.end()) {
    violate(Invariant::kStopSandbox, text_of(action.sandbox) + " is stopped and does not exist");
    return;
  }
  Process& process = found->second;
  if (process.state == State::kStopping) {
    violate(Invariant::kStopSandbox, text_of(action.sandbox) + " is stopped twice");
  }
  // One of a revision that is gone, or of a worker that stops, does not come to rest first.
  const bool goes_at_once = action.reason == dispatch::StopReason::kRetired ||
                            action.reason == dispatch::StopReason::kDrained;
  if (!goes_at_once) rest_ahead(action.sandbox, process);
  if (action.reason == dispatch::StopReason::kIdle) check_kept(process);
  const bool answered =
      std::find(answered_.begin(), answered_.end(), action.sandbox) != answered_.end();
  if (process.state == State::kBusy && !answered) {
    violate(Invariant::kStopSandbox,
            text_of(action.sandbox) + " is stopped under an invocation that has no outcome");
  }
  if (process.state == State::kStarting || process.state == State::kReady) {
    accounts_.restart_waits(process.function, moment_.now);
  }
  std::erase(answered_, action.sandbox);
  // One that makes room was at rest first, if only for a moment.
  if (answered && action.reason == dispatch::StopReason::kEvicted)
    accounts_.change(process, State::kIdle);
  accounts_.change(process, State::kStopping);
  process.since = moment_.now;
}

// One of those that a function is to have ready is not stopped because it rested.
void Invariants::check_kept(const Process& process) {
  const Function& known = accounts_.function(process.function);
  const dispatch::FunctionProfile& profile = known.profile;
  if (!known.registered || profile.min_instances == 0 || process.cpu_variant ||
      process.revision != profile.revision || !dispatcher_.policy().keeps_instances()) {
    return;
  }
  // One with a CPU variant may lose the GPUs and get them back in one event: then nothing of it was
  // kept there in between.
  if (profile.has_cpu_variant) return;
  const auto others =
      std::count_if(accounts_.processes.begin(), accounts_.processes.end(), [&](const auto& entry) {
        const Process& other = entry.second;
        const bool is_ready = other.state == State::kIdle || other.state == State::kBusy;
        return &other != &process && other.function == process.function && is_ready &&
               other.revision == profile.revision;
      });
  if (static_cast<unsigned>(others) >= profile.min_instances) return;
  violate(Invariant::kStopSandbox, "one of the instances that function " +
                                       std::to_string(process.function.value) +
                                       " is to have ready is stopped because it rested");
}

void Invariants::see(const dispatch::CompleteInvocation& action) {
  const auto found = accounts_.live.find(action.invocation);
  if (found == accounts_.live.end()) {
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
      (!must_complete(action.invocation) || handler_succeeded_ != true)) {
    untrue("succeeds without an answer of its handler");
  }
  if (handler_succeeded_ == true && must_complete(action.invocation) &&
      action.outcome != Outcome::kSucceeded) {
    untrue("failed although its handler answered");
  }
  if (action.outcome == Outcome::kRejected && !action.error) untrue("is rejected without a reason");
  if (action.outcome == Outcome::kRejected && live.running) untrue("is rejected while it runs");
  if (std::min({phases.queue, phases.sandbox, phases.init, phases.memory, phases.run}) <
      Duration(0)) {
    untrue("has a phase of less than nothing");
  }
  if (phases.total() != moment_.now - live.submitted) untrue("has phases that do not add up");
  if (live.running) {
    const auto process = accounts_.processes.find(live.sandbox);
    if (process != accounts_.processes.end() && !process->second.others.empty()) {
      leave(process->second, action.invocation);
    } else if (live.sandbox != SandboxId{}) {
      answered_.push_back(live.sandbox);
    }
  } else {
    --accounts_.function(live.function).waiting;
  }
  std::erase(must_complete_, action.invocation);
  accounts_.live.erase(found);
}

void Invariants::see(const dispatch::WakeAt& action) {
  if (action.instant < moment_.now || (moment_.timer_fired && action.instant == moment_.now)) {
    violate(Invariant::kTimers, "a timer is set to an instant that has passed");
  }
  moment_.armed = action.instant;
}

// ---- After the actions

// A sandbox whose invocation is over and that got neither stopped nor another one is idle.
void Invariants::settle() {
  for (const SandboxId id : answered_) {
    const auto found = accounts_.processes.find(id);
    if (found == accounts_.processes.end() || found->second.state != State::kBusy) continue;
    accounts_.change(found->second, State::kIdle);
    found->second.since = moment_.now;
    if (found->second.where == Process::Where::kOut) found->second.move_limit = kNever;
  }
  if (const auto id = std::exchange(ready_ahead_, std::nullopt)) {
    const auto found = accounts_.processes.find(*id);
    if (found != accounts_.processes.end() && found->second.state == State::kReady &&
        rests(dispatcher_, *id)) {
      accounts_.change(found->second, State::kIdle);
    }
  }
  if (!must_complete_.empty()) {
    violate(Invariant::kOneOutcome,
            text_of(must_complete_.front()) + " is over and has no outcome");
  }
}

void Invariants::check_limits() {
  const scheduling::FleetOptions& fleet = options_.limits.fleet;
  for (const Device& device : accounts_.devices) {
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
  if (accounts_.gpu_processes > fleet.most_sandboxes) {
    violate(Invariant::kPool, std::to_string(accounts_.gpu_processes) + " sandboxes exist, of " +
                                  std::to_string(fleet.most_sandboxes));
  }
}

void Invariants::check_queues(const dispatch::Event& event) {
  // What comes back from a place that is no more may exceed the limit; what is let in may not.
  const size_t returned = options_.limits.fleet.most_sandboxes + options_.limits.host_sandboxes;
  size_t most = options_.limits.queued_invocations + returned;
  size_t most_each = options_.limits.queued_per_function + returned;
  if (const auto* submitted = std::get_if<dispatch::InvocationSubmitted>(&event)) {
    const auto found = accounts_.live.find(submitted->invocation);
    if (found != accounts_.live.end() && !found->second.running &&
        found->second.submitted == moment_.now) {
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
  if (dispatcher_.queued() + dispatcher_.in_flight() != accounts_.live.size()) {
    violate(Invariant::kOneOutcome,
            std::to_string(accounts_.live.size()) +
                " invocations have no outcome, dispatch knows of " +
                std::to_string(dispatcher_.queued() + dispatcher_.in_flight()));
  }
}

void Invariants::check_at_rest() {
  if (violation_) return;
  const auto left = [&](const std::string& what) { violate(Invariant::kNothingLeft, what); };
  for (const auto& [id, live] : accounts_.live) {
    // A worker that stops leaves asynchronous invocations to the next one.
    if (moment_.draining && live.asynchronous && !live.running) continue;
    left("an invocation of function " + std::to_string(live.function.value) + " has no outcome");
  }
  if (!accounts_.processes.empty())
    left(std::to_string(accounts_.processes.size()) + " sandboxes are left");
  scans_.check_accounts();
  for (const scheduling::Fleet* fleet : {&dispatcher_.fleet(), &dispatcher_.host_fleet()}) {
    if (!fleet->all().empty()) left("the fleet has sandboxes");
    for (const scheduling::Device& device : fleet->devices()) {
      const std::string name = "device " + std::to_string(device.options.id.value);
      if (device.tokens_held + device.start_slots_held > 0) left(name + " has no token back");
      if (device.committed + device.occupied + device.resident + device.idle_memory +
              device.promised + device.leaving + fleet->memory().on_host() >
          Bytes(0)) {
        left(name + " has memory in use");
      }
      if (device.sandboxes + device.occupants + device.idle > 0) left(name + " counts sandboxes");
    }
  }
  for (const scheduling::Flow& flow : dispatcher_.flows()) {
    if (flow.in_flight + flow.on_host > 0) left("a flow has something in flight");
  }
}

void Invariants::violate(Invariant invariant, std::string what) {
  if (!violation_) violation_ = Violation{invariant, std::move(what)};
}

}  // namespace lambent::simulator
