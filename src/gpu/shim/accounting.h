// Accounting: what this process has allocated, held against the sandbox's limit. One object in the
// driver shim, made at its first use and made afresh in a forked child; any thread.
#pragma once

#include <sys/types.h>

#include "core/base/plain_mutex.h"
#include "gpu/ledger/writer.h"
#include "gpu/shim/handle_table.h"

namespace lambent::shim {

class Accounting {
 public:
  // This process's accounting, or null if no ledger is configured or it cannot be used: then the
  // shim only forwards.
  static Accounting* current();

  Accounting(const Accounting&) = delete;
  Accounting& operator=(const Accounting&) = delete;

  uint64_t limit_bytes() const { return ledger_.limit_bytes(); }  // of each device; 0: no limit
  // The device of the current context, by the program's numbers.
  int current_device() const { return devices_ > 1 ? device_of_context() : 0; }
  // So many devices there are, by these numbers from 0.
  int devices() const { return devices_; }
  // A pool that the program made, whose memory lies on this device.
  void pool_is_made(uint64_t pool, int device);
  void pool_is_gone(uint64_t pool);
  // -1: the program made no such pool.
  int device_of_pool(uint64_t pool);
  // What an allocation of `bytes` is counted as.
  uint64_t charge_of(uint64_t bytes) const;
  // False: over the limit, answer out of memory. A reservation is then recorded or cancelled.
  bool try_reserve(uint64_t charge, int device) { return of(device).try_reserve(charge); }
  void cancel(uint64_t charge, int device) { of(device).cancel(charge); }
  // Remembers an allocation whose charge was reserved. If that fails it is not counted any more.
  void record(Kind kind, uint64_t key, uint64_t charge, void* context, int device);
  void record_host(uint64_t address, uint64_t bytes, void* context);

  // A free is told in two steps: forget before the driver's call (the driver may hand the same
  // address out to another thread at once), then settle with what forget gave, freed or not.
  Entry forget(Kind kind, uint64_t key);
  void settle(const Entry& forgotten, bool freed);
  // Memory that no call names an amount of, counted after the fact and as far as the limit goes.
  // All that the graphs of this process hold on a device, more or less than before.
  void graph_memory_is(int device, uint64_t bytes);
  uint64_t used_bytes() const { return ledger_.used_bytes(); }
  // The same with what is reserved and not recorded yet.
  uint64_t promised_bytes() const { return ledger_.promised_bytes(); }

  // The lowest key above `after` among the pool memory that was allocated in this context; 0: none.
  uint64_t next_pooled(void* context, uint64_t after);
  // Everything that went with a context, or with a device's primary context (its pools too).
  void context_is_gone(void* context, bool with_pools);
  // A call of the program was answered with this; the worker replaces the sandbox.
  void context_is_broken(uint32_t result) { ledger_.context_is_broken(result); }
  // What was the one context's is the other's from now on.
  void context_is_inherited(void* context, void* heir);

  // Physical allocations of cuMemCreate live while a handle or a mapping does.
  void record_physical(uint64_t handle, uint64_t charge, int device);
  void retain_physical(uint64_t handle, uint64_t address);
  // A release in two steps, as forget and settle.
  uint64_t forget_handle(uint64_t handle);
  void settle_handle(uint64_t handle, uint64_t physical, bool released);
  void map_physical(uint64_t address, uint64_t bytes, uint64_t handle);
  void unmap_physical(uint64_t address, uint64_t bytes);

  // The device of the sandbox's that memory on this one counts for; and what this process holds by
  // its own count on one of them.
  int counted_on(int device) const { return device > 0 && device < devices_ ? device : 0; }
  uint64_t held_bytes(int device) { return of(device).own_bytes(); }
  // What the program is told: of a device with `free` and `total` bytes, what the limit leaves.
  void narrow(uint64_t* free, uint64_t* total, int device);

 private:
  friend void start_afresh_in_child();
  Accounting();
  ~Accounting() = default;
  void drop_reference(uint64_t physical) REQUIRES(mutex_);
  void give_back(const Entry& entry);
  void grow(Kind kind, uint64_t key, uint64_t bytes, int device) REQUIRES(mutex_);
  bool attach(const char* path);
  int device_of_context() const;
  // What is on a device that is not the sandbox's own is on none.
  ledger::LedgerWriter& of(int device) {
    return counted_on(device) > 0 ? others_[device - 1] : ledger_;
  }

  static constexpr int kMostDevices = 64;
  // Of the first device; pinned memory and broken contexts, which are of none, are told in it too.
  ledger::LedgerWriter ledger_;
  ledger::LedgerWriter others_[kMostDevices - 1];
  int devices_ = 1;
  PlainMutex mutex_;  // held for no call of the driver
  HandleTable table_ GUARDED_BY(mutex_);
  uint64_t last_physical_ GUARDED_BY(mutex_) = 0;
  pid_t owner_;
};

}  // namespace lambent::shim
