// ClientShare: which multiprocessors the kernels of a client's processes may use. Set on the loop
// thread, looked at by the threads of its processes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/mutex.h"
#include "gpu/cuda/partition.h"

namespace lambent::forward_server {

// The multiprocessors of the device, where it can be split; outlives all that is made of it.
struct Splitting {
  const cuda::Driver& driver;
  int ordinal = 0;
  const cuda::Multiprocessors* multiprocessors = nullptr;  // null: it cannot
};

class ClientShare {
 public:
  // None: the whole device.
  ClientShare(const Splitting& splitting, std::vector<uint32_t> groups)
      : splitting_(splitting), groups_(std::move(groups)) {}

  // Waits for nothing that the driver does, and destroys nothing.
  void set(std::vector<uint32_t> groups);
  // Another number for each that was set. Any thread.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

  using Part = std::shared_ptr<const cuda::GreenContext>;
  // Where streams are to be now, and of which version that is; null: the whole device. Calls the
  // driver if none is there: only of the threads of processes. It goes with the last stream in it.
  Part part(uint64_t* version);

 private:
  const Splitting& splitting_;
  std::atomic<uint64_t> version_{1};
  Mutex making_mutex_;                               // held while a part is made
  Mutex mutex_ ACQUIRED_AFTER(making_mutex_);        // the loop takes it
  std::vector<uint32_t> groups_ GUARDED_BY(mutex_);  // with its version
  std::weak_ptr<const cuda::GreenContext> part_ GUARDED_BY(making_mutex_);
  uint64_t made_version_ GUARDED_BY(making_mutex_) = 0;
  bool failed_ GUARDED_BY(making_mutex_) = false;  // to make that version
};

}  // namespace lambent::forward_server
