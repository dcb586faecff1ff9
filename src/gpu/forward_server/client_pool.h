// ClientPool: where the device memory of one client comes from: a pool of the driver's for all its
// processes, so that no more of the device goes to them than was promised, however they cut it.
// Any thread, with the device's context current.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/mutex.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "gpu/cuda/driver.h"

namespace lambent::forward_server {

class ClientPool {
 public:
  ClientPool(const cuda::Driver& driver, int ordinal, Bytes limit)
      : driver_(driver), ordinal_(ordinal), limit_(limit) {}
  // What was allocated goes with what frees it.
  ~ClientPool();
  ClientPool(const ClientPool&) = delete;
  ClientPool& operator=(const ClientPool&) = delete;

  // In the order of the stream.
  CUresult allocate(CUdeviceptr* address, uint64_t bytes, CUstream stream);

  // Something was given back to it, on whichever stream.
  void freed() { ++frees_; }
  // Gives the device what is free in the pool, if nothing was freed since an earlier call at least
  // kHold ago: who allocates in every request finds its memory there. Called by threads that have
  // nothing else to do.
  void recycle(Instant now);
  // The same at once.
  void trim();

  static constexpr Duration kHold = milliseconds(400);

 private:
  const cuda::Driver& driver_;
  const int ordinal_;
  const Bytes limit_;
  Mutex mutex_;
  bool was_made_ GUARDED_BY(mutex_) = false;
  // Null: the driver's default, because it has no others.
  CUmemoryPool pool_ GUARDED_BY(mutex_) = nullptr;
  std::atomic<uint64_t> frees_{0};
  uint64_t seen_ GUARDED_BY(mutex_) = 0, trimmed_ GUARDED_BY(mutex_) = 0;  // of the frees
  Instant seen_at_ GUARDED_BY(mutex_){};
};

}  // namespace lambent::forward_server
