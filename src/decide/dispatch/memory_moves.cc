#include "decide/dispatch/memory_moves.h"

#include <algorithm>

namespace lambent::dispatch {

using scheduling::Device;
using scheduling::MemoryState;
using scheduling::Sandbox;
using scheduling::SandboxSlot;
using scheduling::SandboxState;

void MemoryMoves::await(SandboxSlot slot) {
  // One whose memory is fetched ahead, or on its way out, keeps the time that it has for that:
  // another sandbox may wait for it.
  const MemoryState state = fleet().sandbox(slot).memory_state;
  if (state == MemoryState::kMovingIn) return;
  if (state != MemoryState::kMovingOut) start_deadline(slot, options_.move_wait());
  wanting_.push_back(slot);
  if (fleet().memory().may_move_in(slot)) move_in(slot);
}

void MemoryMoves::move_in_those_with_room() {
  const std::vector<SandboxSlot> wanting = wanting_;
  for (const SandboxSlot slot : wanting) {
    fleet().memory().note_cleared(slot);
    if (fleet().memory().may_move_in(slot)) move_in(slot);
  }
}

void MemoryMoves::prefetch(SandboxSlot slot) {
  ++log_.counters().prefetches;
  move_in(slot);
}

void MemoryMoves::move_in(SandboxSlot slot) {
  fleet().memory().begin_move_in(slot);
  start_deadline(slot, options_.move_timeout);
  std::erase(wanting_, slot);
  log_.add(MoveMemoryIn{fleet().sandbox(slot).id});
  scheduler_.places_changed(slot);
}

void MemoryMoves::move_out(SandboxSlot slot, MoveDepth depth) {
  fleet().memory().begin_move_out(slot, depth == MoveDepth::kContext);
  start_deadline(slot, options_.move_timeout);
  log_.add(MoveMemoryOut{fleet().sandbox(slot).id, depth});
  scheduler_.places_changed(slot);
}

bool MemoryMoves::is_moving(SandboxSlot slot, MoveDirection direction) const {
  const Sandbox& sandbox = fleet().sandbox(slot);
  const MemoryState moving =
      direction == MoveDirection::kIn ? MemoryState::kMovingIn : MemoryState::kMovingOut;
  return sandbox.memory_state == moving && sandbox.state != SandboxState::kStopping;
}

MoveEnd MemoryMoves::end(SandboxSlot slot, const MemoryMoved& event) {
  const bool failed_before = fleet().sandbox(slot).move_failed;
  fleet().memory().end_move(slot, event.done, event.left, event.offloaded);
  Counters& counters = log_.counters();
  const bool moved_in = event.direction == MoveDirection::kIn;
  if (event.done) {
    ++(moved_in ? counters.moves_in : counters.moves_out);
    counters.moved_bytes += event.moved.count;
  } else {
    ++counters.failed_moves;
  }
  const Sandbox& sandbox = fleet().sandbox(slot);
  if (sandbox.state != SandboxState::kBusy) {
    deadlines_.erase(slot);
    scheduler_.places_changed(slot);
    return event.done || moved_in ? MoveEnd::kDone : MoveEnd::kOutFailed;
  }
  if (sandbox.memory_state == MemoryState::kIn) {
    std::erase(wanting_, slot);
    deadlines_.erase(slot);
    return MoveEnd::kArrived;
  }
  if (!moved_in) {
    start_deadline(slot, options_.move_wait());
    return MoveEnd::kDone;
  }
  if (failed_before) return MoveEnd::kInGivenUp;
  wanting_.push_back(slot);
  return MoveEnd::kInFailed;
}

void MemoryMoves::want(SandboxSlot slot, Bytes bytes) {
  const Sandbox& sandbox = fleet().sandbox(slot);
  const Bytes uncounted = std::min(bytes, sandbox.offloaded);
  const bool is_counted = uncounted == Bytes(0);
  if (is_counted || !fleet().memory().admits_fetch(slot, uncounted)) {
    Counters& counters = log_.counters();
    ++(is_counted ? counters.fetches : counters.refused_fetches);
    log_.add(GrantMemory{sandbox.id, is_counted ? bytes : Bytes(0)});
    return;
  }
  fleet().memory().begin_fetch(slot, uncounted);
  fetching_.push_back(slot);
  start_deadline(slot, options_.move_timeout);
}

void MemoryMoves::grant_those_with_room() {
  const std::vector<SandboxSlot> fetching = fetching_;
  for (const SandboxSlot slot : fetching) {
    if (fleet().memory().may_fetch(slot)) end_fetch(slot, true);
  }
}

void MemoryMoves::end_fetch(SandboxSlot slot, bool granted) {
  const Sandbox& sandbox = fleet().sandbox(slot);
  const Bytes bytes = granted ? sandbox.fetching : Bytes(0);
  fleet().memory().end_fetch(slot, granted);
  std::erase(fetching_, slot);
  deadlines_.erase(slot);
  Counters& counters = log_.counters();
  ++(granted ? counters.fetches : counters.refused_fetches);
  log_.add(GrantMemory{sandbox.id, bytes});
}

void MemoryMoves::refuse_fetches_beyond(uint32_t index) {
  const Device& device = fleet().devices()[index];
  const std::vector<SandboxSlot> fetching = fetching_;
  for (const SandboxSlot slot : fetching) {
    if (device.committed <= device.capacity()) return;
    if (fleet().sandbox(slot).is_on(index)) refuse_fetch(slot);
  }
}

std::optional<SandboxSlot> MemoryMoves::last_wanting_on(uint32_t device) const {
  const auto last = std::find_if(wanting_.rbegin(), wanting_.rend(), [&](SandboxSlot slot) {
    return fleet().sandbox(slot).is_on(device);
  });
  return last == wanting_.rend() ? std::nullopt : std::optional(*last);
}

void MemoryMoves::rest(SandboxSlot slot) {
  std::erase(wanting_, slot);
  if (!fleet().memory().moves_idle()) return;
  if (fleet().sandbox(slot).memory_state == MemoryState::kOut) deadlines_.erase(slot);
  if (scheduler_.policy().moves_off_after_run() && fleet().memory().may_move_out(slot, false)) {
    move_out(slot, MoveDepth::kMemory);
  }
}

void MemoryMoves::forget(SandboxSlot slot) {
  if (!fleet().memory().moves_idle()) return;
  std::erase(wanting_, slot);
  std::erase(fetching_, slot);
  deadlines_.erase(slot);
}

void MemoryMoves::archive_lists(StateArchive& archive) {
  const auto& all = fleet().all();
  for (std::vector<SandboxSlot>* list : {&wanting_, &fetching_}) {
    archive.list(*list);
    for (const SandboxSlot slot : *list) {
      archive.expect(std::find(all.begin(), all.end(), slot) != all.end());
    }
  }
}

}  // namespace lambent::dispatch
