#include "sim/simulator/invariant_scans.h"

#include <algorithm>

namespace lambent::simulator {

namespace {

std::string in_seconds(Duration duration) { return std::to_string(to_seconds(duration)) + " s"; }

}  // namespace

InvariantScans::InvariantScans(const dispatch::Dispatcher& dispatcher,
                               const InvariantOptions& options, const WorldAccounts& accounts,
                               Violate violate)
    : dispatcher_(dispatcher),
      options_(options),
      accounts_(accounts),
      violate_(std::move(violate)) {}

void InvariantScans::check_progress(const InvariantMoment& moment) {
  check_virtual_times(moment);
  check_conservation(moment);
  check_grace_period(moment);
}

void InvariantScans::check_virtual_times(const InvariantMoment& moment) {
  // Where tenants matter each has its own.
  if (!options_.over_run || dispatcher_.tenants().matter()) return;
  const scheduling::Policy& policy = dispatcher_.policy();
  const Duration global = policy.global_virtual_time();
  if (global < global_) {
    violate_(Invariant::kVirtualTime, "global virtual time went back from " + in_seconds(global_) +
                                          " to " + in_seconds(global));
  }
  global_ = global;
  virtual_times_.resize(dispatcher_.flows().size());
  uint64_t beyond = 0;
  Duration least = Duration::max();
  bool some_unknown = false;
  // Whom no healthy device could hold takes no part, or not as many as it takes together.
  const auto could_run = [&](const scheduling::Flow& flow) {
    const auto& devices = dispatcher_.fleet().devices();
    const auto could = std::count_if(devices.begin(), devices.end(), [&](const auto& device) {
      return device.healthy && flow.device_memory <= device.options.memory;
    });
    return could >= flow.gpu_count;
  };
  for (uint32_t f = 0; f < virtual_times_.size(); ++f) {
    const scheduling::Flow& flow = dispatcher_.flows()[f];
    if (flow.device_memory.count == 0) continue;
    const Duration time = dispatcher_.status(FunctionId{f}, moment.now).virtual_time;
    // An event dispatches a flow at most a few times; the last one began within T of the global
    // time at most, and global time only grows, or it was counted.
    if (time > virtual_times_[f] && virtual_times_[f] > global + *options_.over_run) ++beyond;
    virtual_times_[f] = time;
    const bool holds_global = options_.waiting_holds_global ? flow.waits() : flow.has_work();
    if (!holds_global || !could_run(flow)) continue;
    some_unknown = some_unknown || !flow.registered;
    if (flow.registered) least = std::min(least, time);
  }
  const uint64_t conserving = policy.conserving_dispatches();
  if (beyond > conserving - conserving_) {
    violate_(Invariant::kOverRun, "a flow was served more than T ahead of the others");
  }
  conserving_ = conserving;
  if (least == Duration::max()) return;
  if (global > least || (global < least && !some_unknown)) {
    violate_(Invariant::kVirtualTime, "global virtual time is " + in_seconds(global) +
                                          ", the least that holds it " + in_seconds(least));
  }
}

// By dispatch's own idea of what fits where.
void InvariantScans::check_conservation(const InvariantMoment& moment) {
  if (moment.draining || options_.may_idle || !dispatcher_.fleet().device_table().any_idle())
    return;
  for (uint32_t f = 0; f < dispatcher_.flows().size(); ++f) {
    const scheduling::Flow& flow = dispatcher_.flows()[f];
    if (flow.pending == 0 || flow.device_memory.count == 0 || flow.max_concurrency == 0) continue;
    if (flow.in_flight >= (options_.one_batch_per_function ? 1 : flow.max_concurrency)) continue;
    if (dispatcher_.tenants().hold_of(flow) != scheduling::WaitReason::kNone) continue;
    if (!dispatcher_.fleet().places().find(FunctionId{f}, flow, true).place) continue;
    violate_(Invariant::kWorkConservation,
             "function " + std::to_string(f) + " waits and fits on a device with nothing to do");
  }
}

// By our own accounts only: beside a healthy device on which nothing runs or starts, nothing that
// fits once idle sandboxes have gone waits for much longer than stops may take, one after the other
// where several hang. Time counts second by second, so that a clock that jumps does not take the
// dispatcher's chance to act.
void InvariantScans::check_grace_period(const InvariantMoment& moment) {
  std::vector<Bytes> rooms;         // of devices with nothing to do, the largest first
  std::vector<Bytes> not_reserved;  // of these, those that are not kept for one that takes several
  const bool pool_full =
      accounts_.gpu_processes - accounts_.gpu_idle >= options_.limits.fleet.most_sandboxes;
  for (size_t i = 1; i < accounts_.devices.size() && !moment.draining && !pool_full; ++i) {
    const WorldAccounts::Device& device = accounts_.devices[i];
    const bool nothing_to_do = device.places == 0;
    if (!device.known || !device.healthy || !nothing_to_do) continue;
    if (device.processes - device.idle >= device.options.contexts) continue;
    const Bytes room = device.options.memory - device.taken - (device.memory - device.idle_memory);
    rooms.push_back(room);
    const auto index = dispatcher_.fleet().device_index(device.options.id);
    const bool reserved = index && dispatcher_.fleet().devices()[*index].reserved;
    if (!reserved) not_reserved.push_back(room);
  }
  std::sort(rooms.rbegin(), rooms.rend());
  std::sort(not_reserved.rbegin(), not_reserved.rend());
  lost_grace_periods_.resize(accounts_.functions.size());
  for (uint32_t f = 0; f < accounts_.functions.size(); ++f) {
    const WorldAccounts::Function& known = accounts_.functions[f];
    Duration& lost = lost_grace_periods_[f];
    const unsigned at_work = known.starting + known.busy - known.as_cpu_variant;
    const bool has_gpus =
        f >= dispatcher_.flows().size() || dispatcher_.flows()[f].max_concurrency > 0;
    const bool one_at_a_time = options_.one_batch_per_function || options_.may_idle;
    const unsigned limit = one_at_a_time ? 1 : std::max(1U, known.profile.max_concurrency);
    const unsigned takes = std::max(1U, known.profile.gpu_count);
    const std::vector<Bytes>& there = takes > 1 ? rooms : not_reserved;
    const bool fits = there.size() >= takes && known.profile.device_memory <= there[takes - 1];
    const bool could_start = known.registered && has_gpus && known.waiting > known.starting &&
                             at_work < limit && known.profile.device_memory.count > 0 && fits;
    const bool held =
        f < dispatcher_.flows().size() &&
        dispatcher_.tenants().hold_of(dispatcher_.flows()[f]) != scheduling::WaitReason::kNone;
    if (!could_start || held) {
      lost = Duration(0);
      continue;
    }
    lost += std::min<Duration>(moment.now - moment.before, seconds(1));
    const Duration moves = scheduling::moves_idle(options_.limits.fleet.memory_rule)
                               ? options_.limits.move_timeout * (1 + accounts_.gpu_idle)
                               : Duration(0);
    // It may be warm on a busy device or at work, and not worth a start elsewhere yet.
    const Duration start =
        f < dispatcher_.flows().size() ? dispatcher_.flows()[f].cold_start.mean() : Duration(0);
    const scheduling::FleetOptions& fleet = options_.limits.fleet;
    const double grace_period = std::max(fleet.move_grace_period, fleet.second_grace_period);
    const Duration stays = from_seconds(to_seconds(start) * grace_period);
    const Duration stops = options_.limits.stop_timeout * (1 + accounts_.gpu_stopping);
    if (lost > moves + stays + stops + seconds(30)) {
      violate_(Invariant::kEndlessWait,
               "function " + std::to_string(f) + " waits beside " +
                   (takes > 1 ? std::to_string(takes) + " devices" : "a device") +
                   " with nothing to do");
    }
  }
}

// A sandbox that is ready runs as soon as its device has a token. Of those that hold a place each
// may hold a token, but not one that is ready and waits; so where the others are fewer than tokens,
// one is free. And who is ready does not wait where only sandboxes hold any that do not go.
void InvariantScans::check_ready(const InvariantMoment& moment) {
  for (size_t i = 0; i < accounts_.devices.size(); ++i) {
    const WorldAccounts::Device& device = accounts_.devices[i];
    if (device.ready == 0) continue;
    const unsigned tokens = device.options.by_utilisation ? 1 : device.options.tokens;
    const unsigned others = device.places - device.ready;
    if (others < tokens && others + planned_on(static_cast<uint32_t>(i)) < tokens) {
      violate_(Invariant::kEndlessWait, "a ready sandbox waits for a token of device " +
                                            std::to_string(i) + ", which has one");
    }
    if (!moment.timer_fired || others == 0) continue;
    const bool all_hang =
        std::all_of(accounts_.processes.begin(), accounts_.processes.end(), [&](const auto& entry) {
          const WorldAccounts::Process& process = entry.second;
          if (!process.is_on(static_cast<uint32_t>(i)) || !process.holds_place ||
              process.state == WorldAccounts::State::kReady) {
            return true;
          }
          return process.state == WorldAccounts::State::kStopping &&
                 process.since + options_.limits.stop_timeout <= moment.now;
        });
    if (all_hang && planned_on(static_cast<uint32_t>(i)) == 0) {
      violate_(Invariant::kEndlessWait, "a ready sandbox waits for a token of device " +
                                            std::to_string(i) + ", which gets none back");
    }
  }
}

// How many of its places sandboxes hold that are planned and have no process yet: only the fleet
// knows.
unsigned InvariantScans::planned_on(uint32_t device) const {
  const scheduling::Fleet& fleet = device == 0 ? dispatcher_.host_fleet() : dispatcher_.fleet();
  const auto planned = [&](scheduling::SandboxSlot slot) {
    const scheduling::Sandbox& sandbox = fleet.sandbox(slot);
    const auto index = fleet.device_index(DeviceId{device});
    return sandbox.state == scheduling::SandboxState::kPlanned && index && sandbox.is_on(*index);
  };
  return static_cast<unsigned>(std::count_if(fleet.all().begin(), fleet.all().end(), planned));
}

// After a timer: what should have ended by now has. At any other time: a timer is set for what is
// to end first.
void InvariantScans::check_deadlines(const InvariantMoment& moment, bool after_timer) {
  const auto hold = [&](Instant deadline, const auto& what) {
    if (deadline == kNever) return;
    if (after_timer && deadline <= moment.now)
      violate_(Invariant::kEndlessWait, what() + " goes on");
    if (moment.armed > deadline)
      violate_(Invariant::kTimers, "no timer is set to when " + what() + " ends");
  };
  std::vector<unsigned> overdue(accounts_.functions.size());
  for (const auto& [id, live] : accounts_.live) {
    const auto name = [&, &invocation = id] {
      return "invocation " + std::to_string(invocation.high) + "/" + std::to_string(invocation.low);
    };
    if (live.running) {
      hold(live.run_limit, [&] { return "the run of " + name(); });
      continue;
    }
    if (live.asynchronous) continue;
    const Instant deadline = live.waiting_since + options_.limits.longest_wait;
    const unsigned starting = accounts_.functions[live.function.value].starting;
    // It may be one of those whose sandbox starts.
    if (starting > 0 && (!after_timer || deadline > moment.now)) continue;
    if (deadline <= moment.now && ++overdue[live.function.value] <= starting) continue;
    hold(deadline, [&] { return "the wait of " + name(); });
  }
  for (const auto& [id, process] : accounts_.processes) {
    const auto name = [&, &sandbox = id] { return "sandbox " + std::to_string(sandbox.value); };
    if (process.state != WorldAccounts::State::kStopping) {
      hold(process.move_limit, [&] { return "the move of " + name(); });
    }
    if (process.state == WorldAccounts::State::kStarting) {
      hold(process.since + process.start_limit, [&] { return "the start of " + name(); });
    } else if (process.state == WorldAccounts::State::kIdle) {
      const Duration limit = rest_limit(process);
      if (limit == kNever - Instant{}) continue;
      hold(process.since + limit, [&] { return "the rest of " + name(); });
    }
  }
}

// One that was started ahead of a call may wait for it for as long as it was expected within.
Duration InvariantScans::rest_limit(const WorldAccounts::Process& process) const {
  const dispatch::FunctionProfile& function = accounts_.functions[process.function.value].profile;
  // Which of them stay, Invariants::see(StopSandbox) knows.
  if (function.min_instances > 0) return kNever - Instant{};
  // A lower number is noticed within a minute.
  if (process.was_kept) return std::chrono::hours(1);
  const Duration keep_alive =
      function.keep_alive.count() > 0 ? function.keep_alive : options_.limits.keep_alive;
  if (!process.ahead) return keep_alive;
  const auto expected = dispatcher_.fleet().foresight().expectation(process.function);
  return std::max(keep_alive, expected.within);
}

void InvariantScans::check_accounts() {
  std::vector<unsigned> places(accounts_.devices.size());  // of planned sandboxes
  std::vector<unsigned> on_host(dispatcher_.flows().size());
  size_t planned = 0;
  const scheduling::Fleet* fleets[] = {&dispatcher_.fleet(), &dispatcher_.host_fleet()};
  size_t all = 0;
  for (const scheduling::Fleet* fleet : fleets) {
    all += fleet->all().size();
    for (const scheduling::SandboxSlot slot : fleet->all()) {
      const scheduling::Sandbox& sandbox = fleet->sandbox(slot);
      if (sandbox.state != scheduling::SandboxState::kPlanned) continue;
      ++planned;
      sandbox.for_each_device([&](uint32_t index) {
        const uint32_t device = fleet->devices()[index].options.id.value;
        if (sandbox.holds != scheduling::Sandbox::Holds::kNothing) ++places[device];
        if (device == 0) ++on_host[sandbox.function.value];
      });
    }
  }
  check_places(on_host);
  if (all != accounts_.processes.size() + planned) {
    violate_(Invariant::kAccounts, std::to_string(accounts_.processes.size()) +
                                       " sandboxes exist and " + std::to_string(planned) +
                                       " are planned, the fleet has " + std::to_string(all));
  }
  for (const scheduling::Fleet* fleet : fleets) {
    for (const scheduling::Device& theirs : fleet->devices()) {
      const WorldAccounts::Device& ours = accounts_.devices[theirs.options.id.value];
      const auto compare = [&](const char* what, uint64_t fleets_number, uint64_t number) {
        if (fleets_number == number) return;
        violate_(Invariant::kAccounts, "of device " + std::to_string(theirs.options.id.value) +
                                           " the fleet has " + std::to_string(fleets_number) + " " +
                                           what + ", we have " + std::to_string(number));
      };
      compare("sandboxes", theirs.occupants, ours.processes);
      compare("bytes", theirs.occupied.count, ours.occupied.count);
      if (fleet->memory().moves_idle()) {
        compare("bytes on it", theirs.resident.count, ours.memory.count);
        compare("without context", theirs.without_context, ours.without_context);
      }
      compare("tokens and start slots held", theirs.tokens_held + theirs.start_slots_held,
              ours.places + places[theirs.options.id.value]);
      check_slots(*fleet, theirs);
    }
  }
}

// Start slots are no more than there are, and accounts of them agree with who holds what.
void InvariantScans::check_slots(const scheduling::Fleet& fleet, const scheduling::Device& device) {
  unsigned tokens = 0, slots = 0;
  Bytes starting;
  for (const scheduling::SandboxSlot slot : fleet.all()) {
    const scheduling::Sandbox& sandbox = fleet.sandbox(slot);
    const auto index = static_cast<uint32_t>(&device - fleet.devices().data());
    if (!sandbox.is_on(index)) continue;
    if (sandbox.holds == scheduling::Sandbox::Holds::kToken) ++tokens;
    if (sandbox.holds != scheduling::Sandbox::Holds::kStartSlot) continue;
    ++slots;
    starting += sandbox.memory;
  }
  const std::string name = "device " + std::to_string(device.options.id.value);
  if (slots > fleet.options().starts_outside_tokens) {
    violate_(Invariant::kTokens, name + " has " + std::to_string(slots) + " starts in slots");
  }
  if (slots != device.start_slots_held || tokens != device.tokens_held ||
      starting != device.starting) {
    violate_(Invariant::kAccounts, name + " counts other tokens and start slots than are held");
  }
}

// Everything that was dispatched and is not over is counted once, on a GPU or on the host.
// `planned` counts the sandboxes of each function that are planned on the host.
void InvariantScans::check_places(const std::vector<unsigned>& planned) {
  uint64_t dispatched = 0;
  for (uint32_t f = 0; f < dispatcher_.flows().size(); ++f) {
    const scheduling::Flow& flow = dispatcher_.flows()[f];
    dispatched += flow.in_flight + flow.on_host;
    const unsigned on_host =
        (f < accounts_.functions.size() ? accounts_.functions[f].as_cpu_variant : 0) +
        (flow.device_memory.count > 0 ? planned[f] : 0);
    if (!flow.registered || flow.on_host == on_host) continue;
    violate_(Invariant::kAccounts,
             "function " + std::to_string(f) + " has " + std::to_string(flow.on_host) +
                 " on the host as its CPU variant, we have " + std::to_string(on_host));
  }
  // Of those that share a sandbox flows count one.
  for (const auto& [id, process] : accounts_.processes) dispatched += process.others.size();
  if (dispatched == dispatcher_.in_flight()) return;
  violate_(Invariant::kAccounts, "flows have " + std::to_string(dispatched) +
                                     " dispatched in all, dispatch has " +
                                     std::to_string(dispatcher_.in_flight()));
}

}  // namespace lambent::simulator
