#include "gpu/shim/residency.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <new>

#include "driver_slots.h"
#include "gpu/shim/captures.h"
#include "gpu/shim/contexts.h"
#include "gpu/shim/driver_mapping.h"
#include "gpu/shim/environment.h"
#include "gpu/shim/log.h"

namespace lambent::shim {
namespace {

using device_memory::Allocation;
using device_memory::Allocations;
using device_memory::Block;
using device_memory::Owner;

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

void start_afresh_in_child() { __atomic_store_n(&instance, nullptr, __ATOMIC_RELEASE); }

}  // namespace

Residency::Residency(protocol::MemoryMode mode) : maker_(mode), owner_(getpid()) {}

Residency* Residency::current() {
  if (InsideHook::is_nested()) return nullptr;
  const pid_t self = getpid();
  Residency* known = __atomic_load_n(&instance, __ATOMIC_ACQUIRE);
  if (known != nullptr) {
    if (known->owner_ == self) return known;
    start_afresh_in_child();  // a child of a plain clone(), which runs no fork handlers
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
    pthread_atfork(nullptr, nullptr, start_afresh_in_child);
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

Status Residency::allocate_in_stream(Address* address, uint64_t bytes, Handle pool,
                                     const Stream& stream) {
  if (current_context() == nullptr) return kAskDriver;
  const InContext inside(context_of(stream));
  Allocation wanted;
  wanted.bytes = bytes;
  wanted.context = current_context();
  if (REAL(cuCtxGetDevice, Device*)(&wanted.owner.device) != kSuccess) return kAskDriver;
  if (pool == nullptr) {
    const auto pool_of = REAL(cuDeviceGetMemPool, Handle*, Device);
    if (pool_of(&pool, wanted.owner.device) != kSuccess) return kAskDriver;
  }
  const Device stream_device = wanted.owner.device;
  if (!device_of_pool(pool, &wanted.owner.device)) return kAskDriver;
  wanted.pool = pool;
  if (is_managed()) wanted.owner.context = wanted.context;  // it does not outlive that
  // Work in a context of another device reaches the pool only if it was let in.
  const Handle context = wanted.owner.device == stream_device ? wanted.context : nullptr;
  if (!freed_.reuse(&wanted, stream)) {
    const Status status = place(&wanted, context);
    if (status != kSuccess) return status;
  }
  *address = wanted.base;
  return kSuccess;
}

// The device may be full of what streams are about to free: then that is waited for.
Status Residency::place(Allocation* allocation, Handle context) {
  const Device device = allocation->owner.device;
  if (!maker_.can_make(device)) return kAskDriver;
  const uint64_t most = device_bytes(device);
  if (most != 0 && allocation->bytes > most) return kOutOfMemory;
  if (Allocations::is_small(allocation->bytes)) {
    auto table = table_.hold();
    if (table->allocations.place_small(allocation)) {
      table->working_set.touch(table->blocks().containing(allocation->base));
      return kSuccess;
    }
  }
  if (freed_.is_long()) freed_.reclaim(false);
  Block block;
  Status status = make_block(*allocation, context, &block);
  if (status == kOutOfMemory) {
    freed_.reclaim(true);
    tidy();
    status = make_block(*allocation, context, &block);
  }
  if (status != kSuccess) return status;
  if (enter(block, allocation)) return kSuccess;
  maker_.dispose_of(block);
  return kOutOfMemory;
}

Status Residency::make_block(const Allocation& allocation, Handle context, Block* made) {
  const bool is_offloaded = !is_managed() && budget_.is_exceeded();
  return maker_.make(allocation, context, is_offloaded, made);
}

bool Residency::enter(const Block& block, Allocation* allocation) {
  const bool is_small = Allocations::is_small(allocation->bytes) && !is_managed();
  auto table = table_.hold();
  if (!table->allocations.add_block(block, is_small)) return false;
  table->working_set.add(table->blocks().at(block.base));
  allocation->base = block.base;
  if (is_small ? table->allocations.place_small(allocation)
               : table->allocations.place_whole(allocation)) {
    return true;
  }
  Block gone;
  table->allocations.remove_block_at(block.base, &gone);
  return false;
}

bool Residency::find(Address address, Allocation* found) {
  auto table = table_.hold();
  const Allocation* known = table->allocations.containing(address);
  if (known == nullptr) return false;
  *found = *known;
  return true;
}

bool Residency::owns(Address address) {
  return maker_.has_reserved(address) || table_.hold()->blocks().containing(address) != nullptr;
}

uint64_t Residency::block_bytes() {
  auto table = table_.hold();
  uint64_t sum = 0;
  for (const Block& block : table->blocks()) {
    if (!block.is_offloaded) sum += block.used_bytes;
  }
  return sum;
}

Device Residency::some_device() {
  auto table = table_.hold();
  return table->blocks().size() == 0 ? -1 : table->blocks().begin()->owner.device;
}

uint64_t Residency::counted_bytes(const Accounting& accounting, Device device) {
  uint64_t sum = own_.counted_moving_bytes(accounting, device);
  auto table = table_.hold();
  for (const Allocation& allocation : table->allocations.all()) {
    if (accounting.counted_on(allocation.owner.device) != device) continue;
    if (!allocation.is_leaving) sum += accounting.charge_of(allocation.bytes);
  }
  return sum;
}

void Residency::drop_blocks_of(const Owner& owner) {
  while (true) {
    Block gone;
    {
      auto table = table_.hold();
      if (!table->allocations.remove_block_of(owner, &gone)) return;
    }
    if (!is_managed()) maker_.dispose_of(gone);  // managed memory goes with its context by itself
  }
}

void Residency::tidy() {
  freed_.reclaim(false);
  while (true) {
    Block gone;
    {
      auto table = table_.hold();
      if (!table->allocations.remove_empty_block(&gone)) return;
    }
    maker_.dispose_of(gone);
  }
}

void Residency::settle() {
  freed_.reclaim(true);
  freed_.reclaim_deferred(nullptr, true);
  tidy();
}

void Residency::context_is_gone(Handle context) {
  for (Device device = 0; device < kMostDevices; ++device) drop_blocks_of(Owner{context, device});
  freed_.forget_all_of(context);
  own_.context_is_gone(context);
  auto table = table_.hold();
  for (Block& block : table->blocks()) {
    if (block.context == context) block.context = nullptr;
  }
}

void Residency::context_is_inherited(Handle context, Handle heir) {
  const auto pass_on = [=](Handle* known) {
    if (*known == context) *known = heir;
  };
  auto table = table_.hold();
  for (Block& block : table->blocks()) {
    pass_on(&block.context);
    pass_on(&block.owner.context);
  }
  for (Allocation& allocation : table->allocations.all()) {
    pass_on(&allocation.context);
    pass_on(&allocation.owner.context);
  }
  freed_.hand_over(table, context, heir);
}

bool Residency::device_of_pool(Handle pool, Device* device) {
  if (pools_.hold()->find(pool, device)) return true;
  int devices = 0;
  REAL(cuDeviceGetCount, int*)(&devices);
  for (Device candidate = 0; candidate < devices; ++candidate) {
    Handle own = nullptr;
    const auto ask = REAL(cuDeviceGetDefaultMemPool, Handle*, Device);
    if (ask(&own, candidate) != kSuccess || own != pool) continue;
    *device = candidate;
    return true;
  }
  return false;
}

void Residency::pools_are_gone(Device device) { drop_blocks_of(Owner{nullptr, device}); }

Status Residency::open_to_peer(Device device, Device peer) {
  let_peer_in(device, peer);
  if (is_managed()) return kSuccess;  // it follows by itself
  auto table = table_.hold();
  for (const Block& block : table->blocks()) {
    if (block.owner.device != device) continue;
    const Status status = open_access(block.base, block.bytes, device);
    if (status != kSuccess) return status;
  }
  return kSuccess;
}

}  // namespace lambent::shim
