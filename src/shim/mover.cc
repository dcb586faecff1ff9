#include "shim/mover.h"

#include "driver_slots.h"
#include "shim/captures.h"
#include "shim/driver_mapping.h"
#include "shim/gate.h"
#include "shim/locked.h"
#include "shim/log.h"

namespace lambent::shim {
namespace {

using device_memory::Allocation;
using device_memory::Block;
using protocol::LinkDirection;
using protocol::MemoryMoveStatus;

// How long calls that are inside the gate may take to come out.
constexpr uint64_t kPatienceNs = 1'000'000'000;
// Neighbours are given to the device together, up to so much: what lies in the first is copied
// while the next are made.
constexpr uint64_t kRunBytes = uint64_t{256} << 20;

// A context in which memory of the device can be worked with, current while this lives: one of the
// program's, or else the primary one.
class ContextOf {
 public:
  ContextOf(device_memory::AddressTable<Block>& blocks, Device device) : device_(device) {
    Handle context = nullptr;
    for (const Block& block : blocks) {
      if (block.owner.device == device && block.context != nullptr) context = block.context;
    }
    if (context == nullptr) {
      const auto retain = REAL(cuDevicePrimaryCtxRetain, Handle*, Device);
      is_retained_ = retain(&context, device) == kSuccess;
    }
    is_pushed_ = REAL(cuCtxPushCurrent_v2, Handle)(context) == kSuccess;
  }
  ~ContextOf() {
    Handle popped = nullptr;
    if (is_pushed_) REAL(cuCtxPopCurrent_v2, Handle*)(&popped);
    if (is_retained_) REAL(cuDevicePrimaryCtxRelease_v2, Device)(device_);
  }
  ContextOf(const ContextOf&) = delete;
  ContextOf& operator=(const ContextOf&) = delete;
  bool is_current() const { return is_pushed_; }

 private:
  Device device_;
  bool is_retained_ = false;
  bool is_pushed_ = false;
};

// The devices that have blocks, one bit each.
uint64_t devices_of(device_memory::AddressTable<Block>& blocks) {
  uint64_t devices = 0;
  for (const Block& block : blocks) devices |= uint64_t{1} << block.owner.device;
  return devices;
}

uint64_t sum_of_used(device_memory::AddressTable<Block>& blocks, Device device) {
  uint64_t sum = 0;
  for (const Block& block : blocks) {
    if (block.owner.device == device) sum += block.used_bytes;
  }
  return sum;
}

}  // namespace

Moved Mover::move_out() {
  Moved moved;
  Residency* residency = Residency::current();
  if (!is_out_) {
    // Before anybody is made to wait.
    if (residency != nullptr && !host_.grow_to(residency->used_bytes(), link_)) {
      moved.status = MemoryMoveStatus::kNoHostMemory;
      return moved;
    }
    shut_gate();
    if (!wait_until_nobody_inside(kPatienceNs)) {
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
  return moved;
}

Moved Mover::move_in() {
  Moved moved;
  if (!is_out_) return moved;
  Residency* residency = Residency::current();
  if (residency != nullptr) moved.status = bring_in(*residency, &moved.bytes);
  if (moved.status == MemoryMoveStatus::kNoDeviceMemory) return moved;
  // After a failure calls fail, which is better than that they wait for ever.
  is_out_ = false;
  open_gate();
  return moved;
}

void Mover::prepare() {
  Residency* residency = Residency::current();
  if (is_out_ || residency == nullptr || !host_.grow_to(residency->used_bytes(), link_)) return;
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
  if (!host_.grow_to(residency.used_bytes(), link_)) return Status::kNoHostMemory;
  auto& blocks = residency.allocations_.blocks();
  const uint64_t devices = devices_of(blocks);
  for (Device device = 0; device < kMostDevices; ++device) {
    if ((devices >> device & 1) == 0) continue;
    status = copy_out(residency, device);
    if (status != Status::kDone) return status;
  }
  for (const Block& block : blocks) *bytes += block.bytes;
  let_go(residency);
  return Status::kDone;
}

MemoryMoveStatus Mover::come_to_rest(Residency& residency) {
  if (is_anything_captured()) return Status::kBusy;
  auto& blocks = residency.allocations_.blocks();
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Handle context = blocks.begin()[i].context;
    bool is_first = true;
    for (size_t j = 0; j < i && is_first; ++j) is_first = blocks.begin()[j].context != context;
    if (!is_first) continue;
    const int status = wait_for_context(context);
    if (status == kSuccess) continue;
    log_line("the work of a context ended with %d: its memory stays", status);
    return Status::kFailed;
  }
  residency.reclaim_pending(true);
  residency.reclaim_deferred(nullptr, true);
  residency.tidy();
  return Status::kDone;
}

// Blocks lie in the row of the arena one after the other, in order of address, those of the first
// device first; nothing comes or goes while the gate is shut.
MemoryMoveStatus Mover::copy_out(Residency& residency, Device device) {
  auto& blocks = residency.allocations_.blocks();
  const ContextOf context(blocks, device);
  if (!context.is_current()) return Status::kFailed;
  host_.register_all();
  uint64_t position = 0;
  for (Device before = 0; before < device; ++before) position += sum_of_used(blocks, before);
  Copier copier(LinkDirection::kToHost, sum_of_used(blocks, device), link_, host_.arena());
  for (const Block& block : blocks) {
    if (block.owner.device != device) continue;
    if (copier.copy(block.base, position, block.used_bytes) != kSuccess) break;
    position += block.used_bytes;
  }
  const int status = copier.finish();
  if (status == kSuccess) return Status::kDone;
  log_line("copying memory out failed: %d", status);
  return Status::kFailed;
}

MemoryMoveStatus Mover::bring_in(Residency& residency, uint64_t* bytes) {
  auto& blocks = residency.allocations_.blocks();
  const uint64_t devices = devices_of(blocks);
  for (Device device = 0; device < kMostDevices; ++device) {
    if ((devices >> device & 1) == 0) continue;
    const Status status = map_and_copy_in(residency, device);
    if (status == Status::kDone) continue;
    if (status == Status::kNoDeviceMemory) let_go(residency);
    return status;
  }
  for (const Block& block : blocks) *bytes += block.bytes;
  return Status::kDone;
}

namespace {

// Makes and maps the blocks of a run of neighbours, and opens them all at once.
int map_run(Block* first, Block* last, Device device) {
  for (Block* block = first; block != last; ++block) {
    uint64_t physical = 0;
    int status = create_physical(device, block->bytes, &physical);
    if (status != kSuccess) return status;
    status = map_physical(block->base, block->bytes, physical);
    if (status != kSuccess) {
      release_physical(physical);
      return status;
    }
    block->physical = physical;
  }
  const uint64_t bytes = last[-1].base + last[-1].bytes - first->base;
  if (open_access(first->base, bytes, device) == kSuccess) return kSuccess;
  // Perhaps they were not reserved in one piece.
  for (Block* block = first; block != last; ++block) {
    const int status = open_access(block->base, block->bytes, device);
    if (status != kSuccess) return status;
  }
  return kSuccess;
}

Block* end_of_run(Block* first, Block* end) {
  uint64_t bytes = first->bytes;
  Block* next = first + 1;
  while (next != end && next->base == next[-1].base + next[-1].bytes &&
         next->owner.device == first->owner.device && bytes + next->bytes <= kRunBytes) {
    bytes += next->bytes;
    ++next;
  }
  return next;
}

}  // namespace

MemoryMoveStatus Mover::map_and_copy_in(Residency& residency, Device device) {
  auto& blocks = residency.allocations_.blocks();
  const ContextOf context(blocks, device);
  if (!context.is_current()) return Status::kFailed;
  uint64_t position = 0;
  for (Device before = 0; before < device; ++before) position += sum_of_used(blocks, before);
  Copier copier(LinkDirection::kToDevice, sum_of_used(blocks, device), link_, host_.arena());
  for (Block* first = blocks.begin(); first != blocks.end();) {
    Block* last = end_of_run(first, blocks.end());
    int status = first->owner.device == device ? map_run(first, last, device) : kSuccess;
    for (Block* block = first; block != last && status == kSuccess; ++block) {
      if (block->owner.device != device) continue;
      status = copier.copy(block->base, position, block->used_bytes);
      position += block->used_bytes;
    }
    if (status != kSuccess) {
      copier.finish();
      if (status == kOutOfMemory) return Status::kNoDeviceMemory;
      log_line("bringing memory in failed: %d", status);
      return Status::kFailed;
    }
    first = last;
  }
  const int status = copier.finish();
  if (status == kSuccess) return Status::kDone;
  log_line("copying memory in failed: %d", status);
  return Status::kFailed;
}

void Mover::let_go(Residency& residency) {
  for (Block& block : residency.allocations_.blocks()) {
    if (block.physical == 0) continue;
    unmap(block.base, block.bytes);
    release_physical(block.physical);
    block.physical = 0;
  }
}

}  // namespace lambent::shim
