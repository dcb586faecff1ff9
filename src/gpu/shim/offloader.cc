#include "gpu/shim/offloader.h"

#include <stdlib.h>

#include "gpu/shim/copier.h"
#include "gpu/shim/driver_mapping.h"
#include "gpu/shim/log.h"
#include "gpu/shim/moved_blocks.h"

namespace lambent::shim {
namespace {

using device_memory::Block;
using protocol::LinkDirection;
using protocol::MemoryMoveStatus;

// A block on its way to the other side: its new memory, and where that is mapped beside the old
// until it is full. Blocks keep their places in their table while the gate is shut.
struct Changing {
  Block* block = nullptr;
  uint64_t physical = 0;
  uint64_t beside = 0;
};

int make_beside(Changing& changing, Device device, bool on_host) {
  const uint64_t bytes = changing.block->bytes;
  int status = on_host ? create_physical_on_host(device, bytes, &changing.physical)
                       : create_physical(device, bytes, &changing.physical);
  if (status != kSuccess) return status;
  status = map_physical(changing.beside, bytes, changing.physical);
  if (status == kSuccess) {
    status = open_access(changing.beside, bytes, device);
    if (status == kSuccess) return status;
    unmap(changing.beside, bytes);
  }
  release_physical(changing.physical);
  return status;
}

int map_in_place(const Block& block, Device device, uint64_t physical) {
  int status = map_physical(block.base, block.bytes, physical);
  if (status != kSuccess) return status;
  status = open_access(block.base, block.bytes, device);
  if (status != kSuccess) unmap(block.base, block.bytes);
  return status;
}

// False: the block has lost its memory, for neither the new nor the old can be mapped.
bool exchange(const Changing& changing, Device device, bool to_host, uint64_t* bytes) {
  Block& block = *changing.block;
  unmap(changing.beside, block.bytes);
  unmap(block.base, block.bytes);
  int status = map_in_place(block, device, changing.physical);
  if (status == kSuccess) {
    release_physical(block.physical);
    block.physical = changing.physical;
    block.is_offloaded = to_host;
    *bytes += block.bytes;
    return true;
  }
  log_line("mapping memory in another's place failed: %d", status);
  release_physical(changing.physical);
  return map_in_place(block, device, block.physical) == kSuccess;
}

void drop(const Changing& changing) {
  unmap(changing.beside, changing.block->bytes);
  release_physical(changing.physical);
}

int by_use(const void* one, const void* other) {
  const Block& first = *static_cast<const Changing*>(one)->block;
  const Block& second = *static_cast<const Changing*>(other)->block;
  if (device_memory::WorkingSet::comes_before(first, second)) return -1;
  return device_memory::WorkingSet::comes_before(second, first) ? 1 : 0;
}

// All blocks of a device that are to change sides; of those that come in, what is used first comes
// first, and no more do than there is room for.
class Exchange {
 public:
  Exchange(MemoryTable& table, OffloadBudget& budget, Device device, bool to_host)
      : device_(device), to_host_(to_host) {
    Blocks& blocks = table.blocks();
    changing_ = static_cast<Changing*>(calloc(blocks.size() + 1, sizeof(Changing)));
    size_t candidates = 0;
    for (Block& block : blocks) {
      const bool changes = block.owner.device == device && block.is_offloaded != to_host &&
                           table.working_set.holds(block) != to_host;
      if (changes && changing_ != nullptr) changing_[candidates++].block = &block;
    }
    if (!to_host && candidates > 0) {
      budget.note_counted_bytes();
      qsort(changing_, candidates, sizeof(Changing), by_use);
    }
    uint64_t room = to_host ? UINT64_MAX : budget.room_on_device();
    for (size_t i = 0; i < candidates; ++i) {
      Block& block = *changing_[i].block;
      const uint64_t counted = to_host ? 0 : block.counted_bytes;
      if (counted > room) continue;
      room -= counted;
      changing_[count_++].block = &block;
      bytes_ += block.bytes;
      used_bytes_ += block.used_bytes;
    }
    if (count_ > 0 && reserve_addresses(bytes_, &beside_) != kSuccess) count_ = 0;
  }
  ~Exchange() {
    if (beside_ != 0) free_addresses(beside_, bytes_);
    free(changing_);
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  bool is_empty() const { return count_ == 0; }
  uint64_t used_bytes() const { return used_bytes_; }

  // Copies as many as there is room for on the other side; the first of them are then ready.
  int copy(Copier& copier) {
    uint64_t at = beside_;
    int status = kSuccess;
    for (; ready_ < count_ && status == kSuccess; ++ready_) {
      Changing& changing = changing_[ready_];
      changing.beside = at;
      at += changing.block->bytes;
      status = make_beside(changing, device_, to_host_);
      if (status != kSuccess) break;
      const Address from = changing.block->base;
      status = copier.copy_across(changing.beside, from, changing.block->used_bytes);
    }
    return copier.finish();
  }

  // False: memory was lost.
  bool put_in_place(uint64_t* bytes) {
    bool is_whole = true;
    for (size_t i = 0; i < ready_; ++i) {
      is_whole &= exchange(changing_[i], device_, to_host_, bytes);
    }
    return is_whole;
  }
  void give_up() {
    for (size_t i = 0; i < ready_; ++i) drop(changing_[i]);
  }

 private:
  const Device device_;
  const bool to_host_;
  Changing* changing_ = nullptr;
  size_t count_ = 0;
  size_t ready_ = 0;
  uint64_t beside_ = 0;
  uint64_t bytes_ = 0;
  uint64_t used_bytes_ = 0;
};

}  // namespace

MemoryMoveStatus Offloader::change_sides(MemoryTable& table, OffloadBudget& budget, bool to_host,
                                         uint64_t* bytes) {
  Blocks& blocks = table.blocks();
  return for_each_device(blocks, [&](Device device) {
    const ContextOf context(blocks, device);
    if (!context.is_current()) return Status::kFailed;
    Exchange exchange(table, budget, device, to_host);
    if (exchange.is_empty()) return Status::kDone;
    const LinkDirection direction = to_host ? LinkDirection::kToHost : LinkDirection::kToDevice;
    Copier copier(device, direction, exchange.used_bytes(), link_, host_.arena());
    const int status = exchange.copy(copier);
    if (status != kSuccess) {
      log_line("copying memory %s failed: %d", to_host ? "to the host" : "back", status);
      exchange.give_up();
      return Status::kFailed;
    }
    return exchange.put_in_place(bytes) ? Status::kDone : Status::kFailed;
  });
}

// The host memory that was got for all of it is given back first, for there is to be no more of
// both kinds together than the memory takes: what the set needs is leased again.
// Where one of them is refused it is not tried again: leases would come and go with every move.
MemoryMoveStatus Offloader::offload(MemoryTable& table, OffloadBudget& budget, uint64_t* bytes) {
  Blocks& blocks = table.blocks();
  uint64_t offloaded = 0;
  uint64_t more = 0;
  Device device = -1;
  for (const Block& block : blocks) {
    if (block.is_offloaded) offloaded += block.bytes;
    if (block.is_offloaded || table.working_set.holds(block)) continue;
    more += block.bytes;
    device = block.owner.device;
    if (!device_can_map_host(device)) is_refused_ = true;
  }
  if (more == 0 || is_refused_) return Status::kDone;
  {
    const ContextOf context(blocks, device);
    if (!context.is_current()) return Status::kFailed;
    host_.release(link_);
  }
  if (!host_.count_offloaded(offloaded + more, link_)) {
    is_refused_ = true;
    log_line("no host memory for offloaded memory: it goes out whole");
    return Status::kDone;
  }
  const Status status = change_sides(table, budget, true, bytes);
  const uint64_t now_offloaded = bytes_offloaded(blocks);
  if (now_offloaded == offloaded) is_refused_ = true;
  count(now_offloaded);
  return status;
}

MemoryMoveStatus Offloader::bring_back(MemoryTable& table, OffloadBudget& budget, uint64_t* bytes) {
  const Status status = change_sides(table, budget, false, bytes);
  count(bytes_offloaded(table.blocks()));
  return status;
}

}  // namespace lambent::shim
