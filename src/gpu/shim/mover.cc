#include "gpu/shim/mover.h"

#include "driver_slots.h"
#include "gpu/shim/captures.h"
#include "gpu/shim/checkpoint.h"
#include "gpu/shim/contexts.h"
#include "gpu/shim/driver_mapping.h"
#include "gpu/shim/gate.h"
#include "gpu/shim/log.h"
#include "gpu/shim/managed_memory.h"
#include "gpu/shim/moved_blocks.h"

namespace lambent::shim {
namespace {

using device_memory::Block;
using protocol::LinkDirection;
using protocol::MemoryMoveStatus;

// How long calls that are inside the gate may take to come out.
constexpr uint64_t kGracePeriodNs = 1'000'000'000;
// How long work that was let in may take to end. It may wait for a call that waits at the gate (a
// stream for a word that another writes), so it must not be waited for without end.
constexpr uint64_t kRestGracePeriodNs = 2'000'000'000;

uint64_t bytes_that_move(Blocks& blocks) {
  uint64_t sum = 0;
  for (const Block& block : blocks) {
    if (!block.is_offloaded) sum += block.bytes;
  }
  return sum;
}

// What counts and did not move: the most of any device.
uint64_t most_left(Residency* residency) {
  Accounting* accounting = Accounting::current();
  uint64_t most = 0;
  for (Device device = 0; accounting != nullptr && device < accounting->devices(); ++device) {
    const uint64_t counted = accounting->held_bytes(device);
    const uint64_t ours = residency == nullptr ? 0 : residency->counted_bytes(*accounting, device);
    if (counted > ours && counted - ours > most) most = counted - ours;
  }
  return most;
}

// What the wait for a context said.
MemoryMoveStatus rest_of(int status) {
  if (status == kSuccess) return MemoryMoveStatus::kDone;
  if (status == kNotReady) return MemoryMoveStatus::kBusy;
  log_line("the work of a context ended with %d: its memory stays", status);
  return MemoryMoveStatus::kFailed;
}

}  // namespace

Moved Mover::move_out() {
  Moved moved;
  Residency* residency = Residency::current();
  if (is_broken_) {
    moved.status = MemoryMoveStatus::kFailed;
    return moved;
  }
  if (residency != nullptr && keeps_working_set_) {
    // What the program has freed of it counts no longer.
    offloader_.count(residency->budget().host_bytes());
  }
  if (!is_out_) {
    // Before anybody is made to wait.
    if (residency != nullptr && !get_host_memory(*residency)) {
      moved.status = MemoryMoveStatus::kNoHostMemory;
      return moved;
    }
    shut_gate();
    if (!wait_until_nobody_inside(kGracePeriodNs)) {
      moved.status = MemoryMoveStatus::kBusy;
    } else if (residency != nullptr) {
      moved.status = take_out(*residency, &moved.bytes);
    }
    is_out_ = moved.status == MemoryMoveStatus::kDone;
    if (!is_out_) open_gate();
  }
  moved.left_bytes = most_left(residency);
  if (residency == nullptr) return moved;
  // What is wanted of it comes in with the rest.
  OffloadBudget& budget = residency->budget();
  moved.offloaded_bytes = budget.offloaded_bytes() - budget.wanted_bytes();
  if (is_out_) budget.spare(moved.offloaded_bytes);
  return moved;
}

Moved Mover::move_in() {
  Moved moved;
  if (!is_out_) return moved;
  if (is_checkpointed_) moved.status = restore_this_process();
  if (moved.status == MemoryMoveStatus::kNoDeviceMemory) return moved;
  const bool was_checkpointed = is_checkpointed_;
  is_checkpointed_ = false;
  Residency* residency = Residency::current();
  const bool has_driver = moved.status == MemoryMoveStatus::kDone;
  if (residency != nullptr && has_driver) moved.status = bring_in(*residency, &moved.bytes);
  if (moved.status == MemoryMoveStatus::kNoDeviceMemory) {
    // The context goes back to where it was, so that nothing stays that is not counted.
    if (was_checkpointed) {
      is_checkpointed_ = checkpoint_this_process() == MemoryMoveStatus::kDone;
    }
    return moved;
  }
  // After a failure calls fail, which is better than that they wait for ever.
  is_out_ = false;
  if (residency != nullptr) moved.offloaded_bytes = residency->budget().offloaded_bytes();
  open_gate();
  return moved;
}

Moved Mover::move_out_with_context() {
  Moved moved = move_out();
  if (moved.status != MemoryMoveStatus::kDone || is_checkpointed_) return moved;
  moved.status = checkpoint_this_process();
  is_checkpointed_ = moved.status == MemoryMoveStatus::kDone;
  if (is_checkpointed_) moved.left_bytes = 0;
  return moved;
}

void Mover::fetch() {
  Residency* residency = Residency::current();
  if (is_out_ || is_broken_ || residency == nullptr) return;  // it comes with the rest
  Status status = Status::kBusy;
  if (knows_all_contexts()) {
    shut_gate();
    if (wait_until_nobody_inside(kGracePeriodNs)) status = come_to_rest(*residency);
    if (status == Status::kDone) {
      residency->named().count_fetch();
      uint64_t bytes = 0;
      status = offloader_.bring_back(residency->table_at_rest(), residency->budget(), &bytes);
      is_broken_ = status == Status::kFailed;
    }
  }
  // If it was not done, or left something that was granted, no other is tried in this stay.
  if (status != Status::kDone || residency->budget().can_fetch_wanted()) {
    residency->named().refuse_fetches();
  }
  open_gate();
}

void Mover::prepare() {
  Residency* residency = Residency::current();
  if (is_out_ || residency == nullptr || residency->is_managed()) return;
  if (!get_host_memory(*residency)) return;
  // The program may end its own contexts meanwhile, but not the one that we hold.
  const Device device = residency->some_device();
  unsigned flags = 0;
  int active = 0;
  const auto ask = REAL(cuDevicePrimaryCtxGetState, Device, unsigned*, int*);
  if (device < 0 || ask(device, &flags, &active) != kSuccess || active == 0) return;
  Handle context = nullptr;
  if (REAL(cuDevicePrimaryCtxRetain, Handle*, Device)(&context, device) != kSuccess) return;
  {
    const InContext inside(context);
    host_.register_all();
  }
  REAL(cuDevicePrimaryCtxRelease_v2, Device)(device);
}

MemoryMoveStatus Mover::take_out(Residency& residency, uint64_t* bytes) {
  Status status = come_to_rest(residency);
  if (status != Status::kDone) return status;
  MemoryTable& table = residency.table_at_rest();
  if (keeps_working_set_) {
    status = offloader_.offload(table, residency.budget(), bytes);
    if (status != Status::kDone) return status;
  }
  if (!get_host_memory(residency)) return Status::kNoHostMemory;
  Blocks& blocks = table.blocks();
  if (residency.is_managed()) {
    status = managed_.move(blocks, LinkDirection::kToHost);
    if (status != Status::kDone) return status;
  } else {
    OwnMappings& own = residency.own_mappings();
    status = mapped_.copy_out(blocks);
    if (status != Status::kDone) return status;
    // Behind the blocks in the row of the arena.
    status = own_.carry(own, blocks, residency.block_bytes(), LinkDirection::kToHost);
    if (status != Status::kDone) return status;
    *bytes += own.moving_bytes();
    mapped_.release(blocks);
    own_.release(own);
  }
  *bytes += bytes_that_move(blocks);
  table.working_set.end_stay();
  return Status::kDone;
}

// Memory is used in other contexts than its own as well, so all that are known are waited for;
// where some are not, at least those that own memory.
MemoryMoveStatus Mover::come_to_rest(Residency& residency) {
  if (is_anything_captured()) return Status::kBusy;
  Status status = rest_of(wait_for_known_contexts(kRestGracePeriodNs));
  if (status == Status::kDone && !knows_all_contexts()) status = wait_for_owners(residency);
  if (status != Status::kDone) return status;
  residency.settle();
  return Status::kDone;
}

MemoryMoveStatus Mover::wait_for_owners(Residency& residency) {
  Blocks& blocks = residency.table_at_rest().blocks();
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Handle context = blocks.begin()[i].context;
    bool is_first = true;
    for (size_t j = 0; j < i && is_first; ++j) is_first = blocks.begin()[j].context != context;
    if (!is_first) continue;
    const Status status = rest_of(wait_for_context(context, kRestGracePeriodNs));
    if (status != Status::kDone) return status;
  }
  Handle last = nullptr;
  for (const OwnPhysical& physical : residency.own_mappings().physicals()) {
    if (physical.context == last) continue;
    last = physical.context;
    const Status status = rest_of(wait_for_context(last, kRestGracePeriodNs));
    if (status != Status::kDone) return status;
  }
  return Status::kDone;
}

MemoryMoveStatus Mover::bring_in(Residency& residency, uint64_t* bytes) {
  MemoryTable& table = residency.table_at_rest();
  const Status status = residency.is_managed() ? bring_managed_in(table.blocks(), bytes)
                                               : bring_mapped_in(residency, bytes);
  if (status != Status::kDone || !keeps_working_set_) return status;
  return offloader_.bring_back(table, residency.budget(), bytes);
}

MemoryMoveStatus Mover::bring_managed_in(Blocks& blocks, uint64_t* bytes) {
  const Status status = managed_.move(blocks, LinkDirection::kToDevice);
  const bool comes_later = managed_way() != ManagedWay::kPrefetch;
  if (status == Status::kDone && !comes_later) *bytes += bytes_that_move(blocks);
  return status;
}

MemoryMoveStatus Mover::bring_mapped_in(Residency& residency, uint64_t* bytes) {
  Blocks& blocks = residency.table_at_rest().blocks();
  OwnMappings& own = residency.own_mappings();
  Status status = mapped_.bring_in(blocks);
  if (status == Status::kDone) {
    status = own_.carry(own, blocks, residency.block_bytes(), LinkDirection::kToDevice);
  }
  if (status == Status::kNoDeviceMemory) {
    mapped_.release(blocks);
    own_.release(own);
  }
  if (status == Status::kDone) *bytes += own.moving_bytes() + bytes_that_move(blocks);
  return status;
}

// Managed memory brings its own.
bool Mover::get_host_memory(Residency& residency) {
  return residency.is_managed() || host_.grow_to(residency.used_bytes(), link_);
}

}  // namespace lambent::shim
