// The part of Fleet that remembers for a flow what a search for a place found, which was none.
#include "decide/scheduling/fleet.h"

namespace lambent::scheduling {

NoPlace Fleet::note_no_place(FunctionId function, const Flow& flow, bool idle_devices_only) const {
  NoPlace note{.because = NoPlace::Because::kNowhere,
               .idle_devices_only = idle_devices_only,
               .memory = flow.device_memory};
  WaitReason reason = WaitReason::kNoToken;
  bool is_warm = false;
  for (SandboxSlot slot = newest_idle_of(function); slot != kNoSandbox;
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
    const bool starts = function.value < functions_.size() && functions_[function.value].starts > 0;
    if (flow.cold_start.known()) {
      note.then = worth_another_start(flow, options_.second_grace_period);
    } else {
      note.first_start = starts;
      if (!starts) note.then = Instant::min();
    }
  }
  return note;
}

bool Fleet::may_end_wait(uint32_t index, const NoPlace& note) const {
  const Device& device = devices_[index];
  if (!device.healthy || note.because != NoPlace::Because::kWarm) return true;
  if (note.warm_reason != WaitReason::kNoToken) return true;
  return note.idle_devices_only ? device.is_idle() : device.has_token();
}

bool Fleet::still_no_place(const NoPlace& note, FunctionId function, bool idle_devices_only,
                           PlaceOrReason& answer) const {
  if (note.idle_devices_only != idle_devices_only) return false;
  switch (note.because) {
    case NoPlace::Because::kUnknown:
      return false;
    case NoPlace::Because::kWarm: {
      const bool elsewhere = has_cold_place(note.memory, true);
      if (elsewhere && is_time(note.then)) return false;
      answer = {std::nullopt, elsewhere ? WaitReason::kWarmElsewhere : note.warm_reason,
                note.warm_reason == WaitReason::kNoToken};
      return true;
    }
    case NoPlace::Because::kAtWork: {
      if (has_cold_place(note.memory, idle_devices_only)) {
        const bool starts = note.first_start && function.value < functions_.size() &&
                            functions_[function.value].starts > 0;
        if (!starts && (note.first_start || is_time(note.then))) return false;
      }
      answer = {std::nullopt, WaitReason::kAtWork, true};
      return true;
    }
    case NoPlace::Because::kNowhere:
      answer = find_cold_place(note.memory, idle_devices_only);
      return !answer.place;
  }
  return false;
}

}  // namespace lambent::scheduling
