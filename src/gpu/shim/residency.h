// Residency: the device memory that the shim allocates in the driver's stead, mapped by hand so
// that it can leave the device and come back to the same addresses. One object in the driver shim,
// made at its first use and made afresh in a forked child; any thread.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include "core/protocol/memory_message.h"
#include "gpu/device_memory/address_space.h"
#include "gpu/device_memory/allocations.h"
#include "gpu/device_memory/working_set.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/own_mappings.h"
#include "gpu/shim/pending_frees.h"

namespace lambent::shim {

// What the functions here answer where they have nothing to say: let the driver do it.
constexpr Status kAskDriver = -1;

class Residency {
 public:
  // Null unless LAMBENT_SHIM_MEMORY_MODE says vmm or uvm, and inside a call that a driver makes by
  // itself.
  static Residency* current();
  // kVmm: blocks are mapped by hand. kManaged: each allocation is a block of managed memory.
  protocol::MemoryMode mode() const { return mode_; }

  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) = delete;

  // In place of cuMemAlloc and cuMemFree. The caller holds a GateScope, here and below.
  Status allocate(Address* address, uint64_t bytes);
  Status deallocate(Address address);
  // In place of cuMemAllocFromPoolAsync, or cuMemAllocAsync without a pool; not while the stream is
  // captured.
  Status allocate_in_stream(Address* address, uint64_t bytes, Handle pool, const Stream& stream);
  Status deallocate_in_stream(Address address, const Stream& stream);

  // What the program knows at this address: false if there is nothing of ours.
  bool find(Address address, device_memory::Allocation* found);
  // Whether the address is one of ours to give, be it given or not.
  bool owns(Address address);

  // Pools that the program makes and that are as the device's own: their memory is ours to give.
  void pool_is_made(Handle pool, Device device);
  void pool_is_gone(Handle pool);
  // The device that a pool's memory of ours lies on; false if the pool's memory is the driver's.
  bool device_of_pool(Handle pool, Device* device);
  // All that belonged to a context, or to a device's pools, goes.
  void context_is_gone(Handle context);
  // What was the one context's is the other's from now on.
  void context_is_inherited(Handle context, Handle heir);
  void pools_are_gone(Device device);
  // For the working set (touches.h). A call names this address, be it one of ours or not: true if
  // what is there is offloaded and has to be fetched first.
  bool touch(Address address);
  // The same where the driver looks on which side the memory lies: true if it is offloaded, whether
  // fetches were refused or not.
  bool note_access(Address address);
  // Whether to go on trying to fetch it; and that this was given up for the rest of the stay.
  bool may_retry();
  void give_up_retrying();
  // False: nothing has been offloaded so far.
  bool can_have_offload();
  // Something that is written into device memory may be this address.
  void note_reference(Address address);
  void touch_anything();
  // Another number than before whenever what was touched once has to be touched again to be in the
  // set, or may be offloaded.
  uint64_t changes_of_working_set();
  // What was named and is offloaded is to be fetched; and is, for it was granted.
  void a_fetch_is_wanted();
  void a_fetch_begins();
  // If it was not done, or left something that was granted, no other is tried in this stay.
  void a_fetch_has_ended(bool is_done);
  // Notes of every block as how much what lies in it counts against the limit.
  void note_counted_bytes();
  // What is offloaded, as it counts; and of that, what is wanted on the device.
  uint64_t offloaded_bytes();
  uint64_t wanted_bytes();
  // The worker counts so much of what is offloaded as not on the device: what the device holds of
  // this process and others of the sandbox stays below the limit by that much. Set by a move out,
  // and less by so much as is granted.
  void spare(uint64_t bytes);
  void grant(uint64_t bytes);
  uint64_t spared_bytes();
  // How much more may come onto the device before more is granted.
  uint64_t room_on_device();
  // What is offloaded, in whole blocks, as the host has it.
  uint64_t host_bytes();
  // Gives back what nobody uses: frees that streams have reached, blocks that are kept for more.
  void tidy();
  // What a move would have to copy, and some device that it would do so from (-1: none).
  uint64_t used_bytes() { return block_bytes() + own_.moving_bytes(); }
  Device some_device();
  // As how much what is here counts against the limit.
  uint64_t counted_bytes(const Accounting& accounting);
  // What the program makes and maps by itself; null where that is the driver's own business.
  OwnMappings* own() { return is_managed() ? nullptr : &own_; }
  // From now on `peer` reaches all of the device's memory that is ours.
  Status open_to_peer(Device device, Device peer);

 private:
  friend class Mover;
  friend void residency_starts_afresh_in_child();
  uint64_t block_bytes();
  explicit Residency(protocol::MemoryMode mode);

  bool is_managed() const { return mode_ == protocol::MemoryMode::kManaged; }
  Status place(device_memory::Allocation* allocation, Handle context);
  Status make_block(const device_memory::Allocation& allocation, Handle context,
                    device_memory::Block* made);
  Status make_block_offloaded(device_memory::Block* block);
  // Of the limit: what is on the device, or about to be, and what may be.
  struct Share {
    uint64_t on_device = 0;
    uint64_t most = UINT64_MAX;
  };
  Share share_of_device();
  template <typename Act>
  void for_each_counted(Act act);
  template <typename Counts>
  uint64_t sum_of_blocks(Counts counts);
  Status take_addresses(Device device, uint64_t bytes, uint64_t* base);
  Status make_managed_block(const device_memory::Allocation& allocation, Handle context,
                            device_memory::Block* made);
  bool enter(const device_memory::Block& block, device_memory::Allocation* allocation);
  bool reuse_pending(device_memory::Allocation* allocation, const Stream& stream);

  // The allocation was marked as leaving, and nobody uses its memory any more.
  void finish_free(const PendingFree& freed);
  // Finishes the frees that the streams have reached; with `wait`, those that they have not as
  // well.
  void reclaim_pending(bool wait);
  // Those that wait for nothing but for this context, or for any, to come to rest: it has.
  void reclaim_deferred(Handle context, bool any);
  void forget_pending_of(Handle context);
  void drop_blocks_of(const device_memory::Owner& owner);
  void dispose_of(const device_memory::Block& block);

  pthread_mutex_t mutex_;  // guards all below; held for no call of the driver that may wait
  device_memory::AddressSpace space_;
  device_memory::Allocations allocations_;
  OwnMappings own_;  // guards itself
  PendingFrees pending_;
  device_memory::WorkingSet working_set_;
  uint64_t spared_bytes_ = 0;
  struct Pool {
    Handle pool;
    Device device;
  };
  static constexpr int kMostPools = 64;
  Pool pools_[kMostPools] = {};
  const protocol::MemoryMode mode_;
  pid_t owner_;
};

}  // namespace lambent::shim
