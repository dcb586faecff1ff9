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
    host_.count_offloaded(residency->host_bytes(), link_);
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
  Accounting* accounting = Accounting::current();
  const uint64_t counted = accounting == nullptr ? 0 : accounting->held_bytes();
  const uint64_t ours =
      accounting == nullptr || residency == nullptr ? 0 : residency->counted_bytes(*accounting);
  moved.left_bytes = counted > ours ? counted - ours : 0;
  if (residency == nullptr) return moved;
  // What is wanted of it comes in with the rest.
  moved.offloaded_bytes = residency->offloaded_bytes() - residency->wanted_bytes();
  if (is_out_) residency->spare(moved.offloaded_bytes);
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
    // The context goes back to where it was, so that nothing stays that nobody counts.
    if (was_checkpointed) {
      is_checkpointed_ = checkpoint_this_process() == MemoryMoveStatus::kDone;
    }
    return moved;
  }
  // After a failure calls fail, which is better than that they wait for ever.
  is_out_ = false;
  if (residency != nullptr) moved.offloaded_bytes = residency->offloaded_bytes();
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
      residency->a_fetch_begins();
      uint64_t bytes = 0;
      status = take_back(*residency, &bytes);
      is_broken_ = status == Status::kFailed;
    }
  }
  residency->a_fetch_has_ended(status == Status::kDone);
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
  if (keeps_working_set_) {
    status = offload(residency, bytes);
    if (status != Status::kDone) return status;
  }
  if (!get_host_memory(residency)) return Status::kNoHostMemory;
  auto& blocks = residency.allocations_.blocks();
  const uint64_t devices = devices_of(blocks);
  for (Device device = 0; device < kMostDevices; ++device) {
    if ((devices >> device & 1) == 0 || residency.is_managed()) continue;
    status = copy_out(residency, device);
    if (status != Status::kDone) return status;
  }
  if (residency.is_managed()) {
    status = move_managed(residency, LinkDirection::kToHost);
    if (status != Status::kDone) return status;
  } else {
    status = carry_own(residency, LinkDirection::kToHost);
    if (status != Status::kDone) return status;
    *bytes += residency.own_.moving_bytes();
    release(residency);
    release_own(residency);
  }
  *bytes += bytes_that_move(blocks);
  residency.working_set_.end_stay();
  return Status::kDone;
}

// Memory is used in other contexts than its own as well, so all that are known are waited for;
// where some are not, at least those that own memory.
MemoryMoveStatus Mover::come_to_rest(Residency& residency) {
  if (is_anything_captured()) return Status::kBusy;
  Status status = rest_of(wait_for_known_contexts(kRestGracePeriodNs));
  if (status == Status::kDone && !knows_all_contexts()) status = wait_for_owners(residency);
  if (status != Status::kDone) return status;
  residency.reclaim_pending(true);
  residency.reclaim_deferred(nullptr, true);
  residency.tidy();
  return Status::kDone;
}

MemoryMoveStatus Mover::wait_for_owners(Residency& residency) {
  auto& blocks = residency.allocations_.blocks();
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Handle context = blocks.begin()[i].context;
    bool is_first = true;
    for (size_t j = 0; j < i && is_first; ++j) is_first = blocks.begin()[j].context != context;
    if (!is_first) continue;
    const Status status = rest_of(wait_for_context(context, kRestGracePeriodNs));
    if (status != Status::kDone) return status;
  }
  Handle last = nullptr;
  for (const OwnPhysical& physical : residency.own_.physicals()) {
    if (physical.context == last) continue;
    last = physical.context;
    const Status status = rest_of(wait_for_context(last, kRestGracePeriodNs));
    if (status != Status::kDone) return status;
  }
  return Status::kDone;
}

MemoryMoveStatus Mover::bring_in(Residency& residency, uint64_t* bytes) {
  auto& blocks = residency.allocations_.blocks();
  if (residency.is_managed()) {
    const Status status = move_managed(residency, LinkDirection::kToDevice);
    if (status != Status::kDone) return status;
  }
  const uint64_t devices = devices_of(blocks);
  for (Device device = 0; device < kMostDevices; ++device) {
    if ((devices >> device & 1) == 0 || residency.is_managed()) continue;
    const Status status = map_and_copy_in(residency, device);
    if (status == Status::kDone) continue;
    if (status == Status::kNoDeviceMemory) release(residency);
    return status;
  }
  const Status status = carry_own(residency, LinkDirection::kToDevice);
  if (status == Status::kNoDeviceMemory) {
    release(residency);
    release_own(residency);
  }
  if (status != Status::kDone) return status;
  *bytes += residency.own_.moving_bytes();
  const bool comes_later = residency.is_managed() && managed_way() != ManagedWay::kPrefetch;
  if (!comes_later) *bytes += bytes_that_move(blocks);
  return keeps_working_set_ ? take_back(residency, bytes) : Status::kDone;
}

// Managed memory brings its own.
bool Mover::get_host_memory(Residency& residency) {
  return residency.is_managed() || host_.grow_to(residency.used_bytes(), link_);
}

}  // namespace lambent::shim
