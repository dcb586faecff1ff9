// MemoryMoves: device memory that moves to the host and back (MemoryRule::kMoveIdle): which
// sandboxes wait for theirs, which fetch what is offloaded, and until when. Owned by DevicePool, on
// the thread that handles events.
#pragma once

#include <optional>
#include <vector>

#include "core/base/state_archive.h"
#include "core/base/time.h"
#include "decide/dispatch/action_log.h"
#include "decide/dispatch/options.h"
#include "decide/dispatch/pool_scheduler.h"
#include "decide/scheduling/deadlines.h"

namespace lambent::dispatch {

// What is to be done after a move has ended.
enum class MoveEnd {
  kDone,       // nothing
  kArrived,    // the memory of a running sandbox is on the device
  kInFailed,   // it is not, for the first time: it waits for another try
  kInGivenUp,  // it is not, for the second time
  kOutFailed,  // an idle sandbox keeps its memory on the device
};

class MemoryMoves {
 public:
  MemoryMoves(PoolScheduler& scheduler, const DispatchOptions& options, ActionLog& log)
      : scheduler_(scheduler), options_(options), log_(log) {}

  // A sandbox was given an invocation and its memory is not on the device: the run goes on up to
  // where it needs it.
  void await(scheduling::SandboxSlot slot);
  // Moves in all that were given an invocation and find room now.
  void move_in_wanting() {
    if (!wanting_.empty()) move_in_those_with_room();
  }
  // Moves an idle one in before its turn has come.
  void prefetch(scheduling::SandboxSlot slot);
  void move_out(scheduling::SandboxSlot slot, MoveDepth depth);

  // Whether a move in this direction is under way, of a sandbox that is to stay.
  bool is_moving(scheduling::SandboxSlot slot, MoveDirection direction) const;
  MoveEnd end(scheduling::SandboxSlot slot, const MemoryMoved& event);

  // A sandbox that runs asks for memory that is offloaded. It is admitted like an invocation:
  // beside those at work, so that only idle ones have to leave. What does not fit is refused at
  // once: when those at work end is unknown, and the program can go on without it.
  void want(scheduling::SandboxSlot slot, Bytes bytes);
  // Grants what was admitted and finds room now.
  void grant_fetches() {
    if (!fetching_.empty()) grant_those_with_room();
  }
  void refuse_fetch(scheduling::SandboxSlot slot) { end_fetch(slot, false); }
  // Refuses fetches on a device until what is committed there fits.
  void refuse_fetches_beyond(uint32_t device);
  // The last on this device that waits for its memory.
  std::optional<scheduling::SandboxSlot> last_wanting_on(uint32_t device) const;

  // A sandbox rests after its run. One that had no memory to the end has no move under way; and
  // some policies move memory out after each run.
  void rest(scheduling::SandboxSlot slot);
  // A sandbox is stopped or gone.
  void forget(scheduling::SandboxSlot slot);

  // A move that has taken, or a sandbox that has waited for its memory or for a grant, too long.
  bool any_expired(Instant now) { return deadlines_.any_until(now); }
  scheduling::SandboxSlot pop_expired() { return deadlines_.pop(); }
  Instant earliest_deadline(Instant limit) { return deadlines_.earliest(limit); }

  // The parts of a snapshot, in their order; the fleet must have been restored before.
  void archive_lists(StateArchive& archive);
  void archive_deadlines(StateArchive& archive) { deadlines_.archive(archive); }

 private:
  scheduling::Fleet& fleet() const { return scheduler_.fleet(); }
  void move_in(scheduling::SandboxSlot slot);
  void move_in_those_with_room();
  void grant_those_with_room();
  void end_fetch(scheduling::SandboxSlot slot, bool granted);
  void start_deadline(scheduling::SandboxSlot slot, Duration time) {
    deadlines_.put(slot, log_.now() + time);
  }

  PoolScheduler& scheduler_;
  const DispatchOptions& options_;
  ActionLog& log_;
  // Those that were given an invocation while their memory was out or on its way out, in that
  // order.
  std::vector<scheduling::SandboxSlot> wanting_;
  // Running ones whose fetch was admitted and waits for room, in that order.
  std::vector<scheduling::SandboxSlot> fetching_;
  scheduling::Deadlines deadlines_;
};

}  // namespace lambent::dispatch
