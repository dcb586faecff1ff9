#include "decide/scheduling/places.h"

namespace lambent::scheduling {
namespace {

constexpr double kLongestGracePeriod_s = 1e9;

}  // namespace

PlaceOrReason Places::find(FunctionId function, const Flow& flow, bool idle_devices_only) const {
  if (flow.gpu_count > 1) [[unlikely]] {
    return find_together(function, flow, idle_devices_only, false);
  }
  bool waits_for_warm = false;
  std::optional<Place> outside;
  WaitReason reason = WaitReason::kNoToken;
  for (SandboxSlot slot = idle_.newest_of(function); slot != kNoSandbox;
       slot = sandboxes_[slot].older) {
    const Sandbox& sandbox = sandboxes_[slot];
    const Device& device = devices_[sandbox.device];
    if (!device.healthy) continue;
    waits_for_warm = true;
    if (idle_devices_only && !device.is_idle()) continue;
    if (const WaitReason obstacle = warm_obstacle(sandbox); obstacle != WaitReason::kNone) {
      if (obstacle != WaitReason::kNoToken) reason = obstacle;
      continue;
    }
    // One whose memory is there, if there is any.
    if (sandbox.memory_state == MemoryState::kIn) return {Place{sandbox.device, slot}};
    if (!outside) outside = Place{sandbox.device, slot};
  }
  if (outside) return {outside};
  if (fits_into_starts(function, flow)) return {std::nullopt, WaitReason::kAtWork, true};
  if (waits_for_warm) {
    // Its warm sandboxes are on busy devices: only an idle one is worth a cold start, and that not
    // at once.
    const bool for_token = reason == WaitReason::kNoToken;
    if (!cold_.any(flow.device_memory, true)) return {std::nullopt, reason, for_token};
    if (!is_time(worth_another_start(flow, options_.move_grace_period))) {
      return {std::nullopt, WaitReason::kWarmElsewhere, for_token};
    }
    return cold_.find(flow.device_memory, true);
  }
  const bool may_wait = flow.in_flight > 0 && options_.second_grace_period > 0;
  if (may_wait &&
      (!cold_.any(flow.device_memory, idle_devices_only) || !is_worth_a_second(function, flow))) {
    return {std::nullopt, WaitReason::kAtWork, true};
  }
  return cold_.find(flow.device_memory, idle_devices_only);
}

// As above, of several devices together: a warm sandbox where all of its devices have a token; else
// a new one, where it is worth that.
PlaceOrReason Places::find_together(FunctionId function, const Flow& flow, bool idle_devices_only,
                                    bool on_reserved) const {
  const GangPlaces::Wanted wanted{.function = function,
                                  .count = flow.gpu_count,
                                  .memory = flow.device_memory,
                                  .idle_devices_only = idle_devices_only,
                                  .on_reserved = on_reserved};
  bool is_warm = false;
  if (const auto warm = gangs_.warm(wanted, is_warm)) return {warm};
  if (fits_into_starts(function, flow)) return {std::nullopt, WaitReason::kAtWork, true};
  // Time is asked for only where it would bring a place: else a policy that does not ask at every
  // event is woken at other instants than one that does.
  const PlaceOrReason cold = gangs_.cold(wanted);
  const bool may_wait = flow.in_flight > 0 && options_.second_grace_period > 0;
  if (!is_warm && may_wait && (!cold.place || !is_worth_a_second(function, flow))) {
    return {std::nullopt, WaitReason::kAtWork, true};
  }
  if (!cold.place || !is_warm) return cold;
  if (is_time(worth_another_start(flow, options_.move_grace_period))) return cold;
  return {std::nullopt, WaitReason::kWarmElsewhere, true};
}

// While its first start goes on it is unknown what one costs, and that one will tell.
bool Places::is_worth_a_second(FunctionId function, const Flow& flow) const {
  if (flow.cold_start.known()) {
    return is_time(worth_another_start(flow, options_.second_grace_period));
  }
  return sandboxes_.starts_of(function) == 0;
}

// Whether all that wait will join the first ones of the sandboxes that start.
bool Places::fits_into_starts(FunctionId function, const Flow& flow) const {
  if (flow.sandbox_concurrency <= 1) return false;
  const uint64_t others = flow.sandbox_concurrency - 1;
  const uint64_t room = others * sandboxes_.starts_of(function);
  return flow.pending <= room;
}

// From when on a start is worth it beside a sandbox that it would otherwise wait for.
Instant Places::worth_another_start(const Flow& flow, double grace_period) const {
  if (grace_period == 0) return Instant::min();
  const double wait_s =
      std::min(to_seconds(flow.cold_start.mean()) * grace_period, kLongestGracePeriod_s);
  return flow.oldest_since + from_seconds(wait_s);
}

PlaceOrReason Places::find_on(uint32_t index, FunctionId function, const Flow& flow) const {
  const Device& device = devices_[index];
  if (!device.healthy) return {std::nullopt, WaitReason::kNoDevice};
  if (flow.gpu_count > 1) return {std::nullopt, WaitReason::kGpusNotTogether};
  bool is_warm = false;
  std::optional<Place> outside;
  WaitReason reason = WaitReason::kNone;
  for (SandboxSlot slot = idle_.newest_of(function); slot != kNoSandbox;
       slot = sandboxes_[slot].older) {
    const Sandbox& sandbox = sandboxes_[slot];
    if (!devices_[sandbox.device].healthy) continue;
    is_warm = true;
    if (sandbox.device != index) continue;
    reason = warm_obstacle(sandbox);
    if (reason != WaitReason::kNone) continue;
    if (sandbox.memory_state == MemoryState::kIn) return {Place{index, slot}};
    if (!outside) outside = Place{index, slot};
  }
  if (outside) return {outside};
  if (is_warm && !device.is_idle()) {
    return {std::nullopt, reason == WaitReason::kNone ? WaitReason::kNoToken : reason};
  }
  if (devices_.pool_is_full()) {
    return {std::nullopt, WaitReason::kNoSandbox};
  }
  reason = cold_.obstacle(device, flow.device_memory);
  if (reason != WaitReason::kNone) return {std::nullopt, reason};
  return {Place{index, kNoSandbox}};
}

// What keeps an idle sandbox from running now; kNone: nothing does.
WaitReason Places::warm_obstacle(const Sandbox& sandbox) const {
  const Device& device = devices_[sandbox.device];
  if (!device.has_token()) {
    return device.reserved ? WaitReason::kGpuReserved : WaitReason::kNoToken;
  }
  if (!moves_idle(options_.memory_rule)) return WaitReason::kNone;
  if (!devices_.room().memory_fits(device, sandbox.needed())) return WaitReason::kNoMemory;
  if (!sandbox.counts.wants_context && !devices_.room().context_fits(device))
    return WaitReason::kNoSandbox;
  return WaitReason::kNone;
}

// ---- No place

NoPlace Places::note_none(FunctionId function, const Flow& flow, bool idle_devices_only) const {
  NoPlace note{.because = NoPlace::Because::kNowhere,
               .idle_devices_only = idle_devices_only,
               .memory = flow.device_memory};
  // Whether all fit into its starts changes with each start and each call, and several devices with
  // each of them: it is asked each time.
  if (flow.sandbox_concurrency > 1 || flow.gpu_count > 1) {
    note.because = NoPlace::Because::kUnknown;
    return note;
  }
  WaitReason reason = WaitReason::kNoToken;
  bool is_warm = false;
  for (SandboxSlot slot = idle_.newest_of(function); slot != kNoSandbox;
       slot = sandboxes_[slot].older) {
    const Sandbox& sandbox = sandboxes_[slot];
    const Device& device = devices_[sandbox.device];
    if (!device.healthy) continue;
    is_warm = true;
    if (idle_devices_only && !device.is_idle()) continue;
    const WaitReason obstacle = warm_obstacle(sandbox);
    if (obstacle != WaitReason::kNoToken) reason = obstacle;
  }
  if (is_warm) {
    note.because = NoPlace::Because::kWarm;
    note.warm_reason = reason;
    note.then = worth_another_start(flow, options_.move_grace_period);
  } else if (flow.in_flight > 0 && options_.second_grace_period > 0) {
    note.because = NoPlace::Because::kAtWork;
    const bool starts = sandboxes_.starts_of(function) > 0;
    if (flow.cold_start.known()) {
      note.then = worth_another_start(flow, options_.second_grace_period);
    } else {
      note.first_start = starts;
      if (!starts) note.then = Instant::min();
    }
  }
  return note;
}

bool Places::may_end_wait(uint32_t index, const NoPlace& note) const {
  const Device& device = devices_[index];
  if (!device.healthy || note.because != NoPlace::Because::kWarm) return true;
  if (note.warm_reason != WaitReason::kNoToken) return true;
  return note.idle_devices_only ? device.is_idle() : device.has_token();
}

bool Places::still_none(const NoPlace& note, FunctionId function, bool idle_devices_only,
                        PlaceOrReason& answer) const {
  if (note.idle_devices_only != idle_devices_only) return false;
  switch (note.because) {
    case NoPlace::Because::kUnknown:
      return false;
    case NoPlace::Because::kWarm: {
      const bool elsewhere = cold_.any(note.memory, true);
      if (elsewhere && is_time(note.then)) return false;
      answer = {std::nullopt, elsewhere ? WaitReason::kWarmElsewhere : note.warm_reason,
                note.warm_reason == WaitReason::kNoToken};
      return true;
    }
    case NoPlace::Because::kAtWork: {
      if (cold_.any(note.memory, idle_devices_only)) {
        const bool starts = note.first_start && sandboxes_.starts_of(function) > 0;
        if (!starts && (note.first_start || is_time(note.then))) return false;
      }
      answer = {std::nullopt, WaitReason::kAtWork, true};
      return true;
    }
    case NoPlace::Because::kNowhere:
      answer = cold_.find(note.memory, idle_devices_only);
      return !answer.place;
  }
  return false;
}

}  // namespace lambent::scheduling
