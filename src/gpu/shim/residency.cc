#include "gpu/shim/residency.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <new>

#include "driver_slots.h"
#include "gpu/shim/captures.h"
#include "gpu/shim/driver_mapping.h"
#include "gpu/shim/environment.h"
#include "gpu/shim/locked.h"
#include "gpu/shim/log.h"
#include "gpu/shim/managed_memory.h"

namespace lambent::shim {
namespace {

using device_memory::Allocation;
using device_memory::Allocations;
using device_memory::Block;
using device_memory::Owner;

// Addresses cost nothing, so they are reserved for more than the device has.
constexpr uint64_t kRegionsOfDevice = 4;

// What streams have freed waits for others of its size; with more than so many waiting, what has
// been reached goes back to the driver.
constexpr size_t kMostIdleFrees = 64;

// Null before the first use and in a forked child.
Residency* instance = nullptr;
pid_t process_with_plain_memory = 0;
bool fork_is_watched = false;

protocol::MemoryMode wanted_mode() {
  const char* mode = memory_mode_name();
  if (mode == nullptr || strcmp(mode, "off") == 0) return protocol::MemoryMode::kOff;
  if (strcmp(mode, "vmm") == 0) return protocol::MemoryMode::kVmm;
  if (strcmp(mode, "uvm") == 0) return protocol::MemoryMode::kManaged;
  log_line("LAMBENT_SHIM_MEMORY_MODE=%s is unknown: memory stays plain", mode);
  return protocol::MemoryMode::kOff;
}

}  // namespace

void residency_starts_afresh_in_child() { __atomic_store_n(&instance, nullptr, __ATOMIC_RELEASE); }

Residency::Residency(protocol::MemoryMode mode) : mode_(mode), owner_(getpid()) {
  pthread_mutex_init(&mutex_, nullptr);
}

Residency* Residency::current() {
  if (InsideHook::is_nested()) return nullptr;
  const pid_t self = getpid();
  Residency* known = __atomic_load_n(&instance, __ATOMIC_ACQUIRE);
  if (known != nullptr) {
    if (known->owner_ == self) return known;
    residency_starts_afresh_in_child();  // a child of a plain clone(), which runs no fork handlers
  }
  if (__atomic_load_n(&process_with_plain_memory, __ATOMIC_RELAXED) == self) return nullptr;
  const protocol::MemoryMode mode = wanted_mode();
  void* memory = mode == protocol::MemoryMode::kOff ? nullptr : malloc(sizeof(Residency));
  if (memory == nullptr) {
    __atomic_store_n(&process_with_plain_memory, self, __ATOMIC_RELAXED);
    return nullptr;
  }
  Residency* made = new (memory) Residency(mode);
  Residency* expected = nullptr;
  if (!__atomic_compare_exchange_n(&instance, &expected, made, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_ACQUIRE)) {
    made->~Residency();  // another thread was faster
    free(memory);
    return expected;
  }
  if (!__atomic_exchange_n(&fork_is_watched, true, __ATOMIC_ACQ_REL)) {
    pthread_atfork(nullptr, nullptr, residency_starts_afresh_in_child);
  }
  return made;
}

Status Residency::allocate(Address* address, uint64_t bytes) {
  Allocation wanted;
  wanted.bytes = bytes;
  wanted.context = current_context();
  if (wanted.context == nullptr) return kAskDriver;
  wanted.owner.context = wanted.context;
  if (REAL(cuCtxGetDevice, Device*)(&wanted.owner.device) != kSuccess) return kAskDriver;
  const Status status = place(&wanted, wanted.context);
  if (status == kSuccess) *address = wanted.base;
  return status;
}

// The device may be full of what streams are about to free: then that is waited for.
Status Residency::place(Allocation* allocation, Handle context) {
  const Device device = allocation->owner.device;
  if (!(is_managed() ? device_can_manage(device) : device_can_map(device))) return kAskDriver;
  const uint64_t most = device_bytes(device);
  if (most != 0 && allocation->bytes > most) return kOutOfMemory;
  bool too_many_wait = false;
  {
    Locked lock(mutex_);
    const bool is_small = Allocations::is_small(allocation->bytes);
    if (is_small && allocations_.place_small(allocation)) {
      working_set_.touch(allocations_.blocks().containing(allocation->base));
      return kSuccess;
    }
    too_many_wait = pending_.size() > kMostIdleFrees;
  }
  if (too_many_wait) reclaim_pending(false);
  Block block;
  Status status = make_block(*allocation, context, &block);
  if (status == kOutOfMemory) {
    reclaim_pending(true);
    tidy();
    status = make_block(*allocation, context, &block);
  }
  if (status != kSuccess) return status;
  if (enter(block, allocation)) return kSuccess;
  dispose_of(block);
  return kOutOfMemory;
}

Status Residency::make_block(const Allocation& allocation, Handle context, Block* made) {
  if (is_managed()) return make_managed_block(allocation, context, made);
  Block block;
  const bool is_small = Allocations::is_small(allocation.bytes);
  block.owner = allocation.owner;
  block.context = context;
  block.bytes = rounded_up(allocation.bytes, kMappingGranularity);
  block.used_bytes =
      is_small ? block.bytes : rounded_up(allocation.bytes, device_memory::kPieceBytes);
  Status status = take_addresses(block.owner.device, block.bytes, &block.base);
  if (status != kSuccess) return status;
  // What was freed while offloaded has left the limit room that the device may not have.
  const Share share = spared_bytes() > 0 ? share_of_device() : Share{};
  status = share.on_device > share.most ? make_block_offloaded(&block) : kAskDriver;
  if (status != kSuccess) {
    status = create_and_map(block.owner.device, block.base, block.bytes, &block.physical);
  }
  if (status == kSuccess) {
    *made = block;
    return status;
  }
  Locked lock(mutex_);
  space_.give_back(block.base, block.bytes);
  if (status == kOutOfMemory) return status;
  log_line("mapping %lu bytes failed (%d): they stay plain", allocation.bytes, status);
  return kAskDriver;
}

Status Residency::make_block_offloaded(Block* block) {
  const Device device = block->owner.device;
  if (!device_can_map_host(device)) return kAskDriver;
  Status status = create_physical_on_host(device, block->bytes, &block->physical);
  if (status != kSuccess) return status;
  status = map_physical(block->base, block->bytes, block->physical);
  if (status == kSuccess) {
    status = open_access(block->base, block->bytes, device);
    if (status != kSuccess) unmap(block->base, block->bytes);
  }
  if (status != kSuccess) {
    release_physical(block->physical);
    block->physical = 0;
  }
  block->is_offloaded = status == kSuccess;
  return status;
}

// It takes its place on the device at once, as plain memory does: so what the device cannot hold is
// refused here, and not met as a fault later.
Status Residency::make_managed_block(const Allocation& allocation, Handle context, Block* made) {
  Block block;
  block.owner = allocation.owner;
  block.context = context;
  block.bytes = room_for(allocation.bytes);
  block.used_bytes = block.bytes;
  const bool oversubscribes = may_oversubscribe();
  if (!oversubscribes && block.bytes > free_bytes_of_current_device()) return kOutOfMemory;
  Status status = allocate_managed(block.owner.device, block.bytes, &block.base);
  if (status == kSuccess && !oversubscribes) {
    status = populate_managed(block.owner.device, block.base, block.bytes);
    if (status != kSuccess) free_managed(block.base);
  }
  if (status == kSuccess) *made = block;
  return status;
}

Status Residency::take_addresses(Device device, uint64_t bytes, uint64_t* base) {
  {
    Locked lock(mutex_);
    *base = space_.take(bytes);
  }
  if (*base != 0) return kSuccess;
  uint64_t region = rounded_up(device_bytes(device), kMappingGranularity) * kRegionsOfDevice;
  if (region < bytes) region = bytes;
  Status status = reserve_addresses(region, base);
  if (status != kSuccess && region > bytes) {
    region = bytes;
    status = reserve_addresses(region, base);
  }
  if (status != kSuccess) return status == kOutOfMemory ? status : kAskDriver;
  Locked lock(mutex_);
  if (!space_.add_region(*base, region)) return kOutOfMemory;
  *base = space_.take(bytes);
  return *base != 0 ? kSuccess : kOutOfMemory;
}

bool Residency::enter(const Block& block, Allocation* allocation) {
  const bool is_small = Allocations::is_small(allocation->bytes) && !is_managed();
  Locked lock(mutex_);
  if (!allocations_.add_block(block, is_small)) return false;
  working_set_.add(allocations_.blocks().at(block.base));
  allocation->base = block.base;
  if (is_small ? allocations_.place_small(allocation) : allocations_.place_whole(allocation)) {
    return true;
  }
  Block gone;
  allocations_.remove_block_at(block.base, &gone);
  return false;
}

// As the driver does, waits for work that may still use the memory.
Status Residency::deallocate(Address address) {
  PendingFree freed;
  freed.context = current_context();
  if (freed.context == nullptr) return kAskDriver;
  {
    Locked lock(mutex_);
    Allocation* found = allocations_.at(address);
    if (found == nullptr || !pending_.prepare()) return kAskDriver;
    found->is_leaving = true;
    freed.base = found->base;
    freed.number = found->number;
    freed.room = room_for(found->bytes);
    if (found->owner.context != nullptr) freed.context = found->owner.context;
  }
  if (is_anything_captured()) {
    Locked lock(mutex_);
    if (pending_.add(freed)) return kSuccess;
  }
  const Status status = wait_for_context(freed.context);
  if (status != kSuccess) {
    Locked lock(mutex_);
    if (Allocation* kept = allocations_.leaving_at(address); kept != nullptr) {
      kept->is_leaving = false;
    }
    return status;
  }
  finish_free(freed);
  reclaim_deferred(freed.context, false);
  reclaim_pending(false);
  return kSuccess;
}

void Residency::finish_free(const PendingFree& freed) {
  Block gone;
  {
    Locked lock(mutex_);
    Allocation* allocation = allocations_.leaving_at(freed.base);
    if (allocation == nullptr || allocation->number != freed.number) return;
    if (!allocations_.remove(allocation, &gone)) return;
  }
  dispose_of(gone);
}

void Residency::dispose_of(const Block& block) {
  if (is_managed()) return free_managed(block.base);
  if (block.physical != 0) {
    unmap(block.base, block.bytes);
    release_physical(block.physical);
  }
  Locked lock(mutex_);
  space_.give_back(block.base, block.bytes);
}

bool Residency::find(Address address, Allocation* found) {
  Locked lock(mutex_);
  const Allocation* known = allocations_.containing(address);
  if (known == nullptr) return false;
  *found = *known;
  return true;
}

bool Residency::owns(Address address) {
  Locked lock(mutex_);
  return space_.is_reserved(address) || allocations_.blocks().containing(address) != nullptr;
}

uint64_t Residency::block_bytes() {
  Locked lock(mutex_);
  uint64_t sum = 0;
  for (const Block& block : allocations_.blocks()) {
    if (!block.is_offloaded) sum += block.used_bytes;
  }
  return sum;
}

Device Residency::some_device() {
  Locked lock(mutex_);
  return allocations_.blocks().size() == 0 ? -1 : allocations_.blocks().begin()->owner.device;
}

uint64_t Residency::counted_bytes(const Accounting& accounting) {
  uint64_t sum = own_.counted_moving_bytes(accounting);
  Locked lock(mutex_);
  for (const Allocation& allocation : allocations_.all()) {
    if (!allocation.is_leaving) sum += accounting.charge_of(allocation.bytes);
  }
  return sum;
}

void Residency::drop_blocks_of(const Owner& owner) {
  while (true) {
    Block gone;
    {
      Locked lock(mutex_);
      if (!allocations_.remove_block_of(owner, &gone)) return;
    }
    if (!is_managed()) dispose_of(gone);  // managed memory goes with its context by itself
  }
}

void Residency::tidy() {
  reclaim_pending(false);
  while (true) {
    Block gone;
    {
      Locked lock(mutex_);
      if (!allocations_.remove_empty_block(&gone)) return;
    }
    dispose_of(gone);
  }
}

void Residency::context_is_gone(Handle context) {
  for (Device device = 0; device < kMostDevices; ++device) drop_blocks_of(Owner{context, device});
  forget_pending_of(context);
  own_.context_is_gone(context);
  Locked lock(mutex_);
  for (Block& block : allocations_.blocks()) {
    if (block.context == context) block.context = nullptr;
  }
}

void Residency::context_is_inherited(Handle context, Handle heir) {
  const auto pass_on = [=](Handle* known) {
    if (*known == context) *known = heir;
  };
  Locked lock(mutex_);
  for (Block& block : allocations_.blocks()) {
    pass_on(&block.context);
    pass_on(&block.owner.context);
  }
  for (Allocation& allocation : allocations_.all()) {
    pass_on(&allocation.context);
    pass_on(&allocation.owner.context);
  }
  pending_.hand_over(context, heir);
}

void Residency::pools_are_gone(Device device) { drop_blocks_of(Owner{nullptr, device}); }

Status Residency::open_to_peer(Device device, Device peer) {
  let_peer_in(device, peer);
  if (is_managed()) return kSuccess;  // it follows by itself
  Locked lock(mutex_);
  for (const Block& block : allocations_.blocks()) {
    if (block.owner.device != device) continue;
    const Status status = open_access(block.base, block.bytes, device);
    if (status != kSuccess) return status;
  }
  return kSuccess;
}

}  // namespace lambent::shim
