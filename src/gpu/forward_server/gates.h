// Gates: the words in page-locked memory at which streams of one process wait until the process has
// run a host function. A gate is shut once for each wait, and opened when the wait is over. A
// resource of the process's thread; open_all() is for any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/mutex.h"
#include "gpu/cuda/driver.h"

namespace lambent::forward_server {

class Gates {
 public:
  explicit Gates(const cuda::Driver& driver) : driver_(driver) {}
  Gates(const Gates&) = delete;
  Gates& operator=(const Gates&) = delete;

  // A gate that nothing else uses. CUDA_ERROR_OUT_OF_MEMORY if there are as many as there may be.
  CUresult take(size_t* gate);
  // No stream waits at it any more.
  void give_back(size_t gate) { free_.push_back(gate); }

  // Where a stream waits for the value of a turn, or a greater one.
  CUdeviceptr address(size_t gate) const;
  // The next turn: who waits for it waits until the gate is opened for it.
  uint32_t shut(size_t gate);
  // The turn for which it was shut last.
  uint32_t turn(size_t gate) const;
  void open(size_t gate, uint32_t turn);
  // For all turns so far. From any thread, because the process's own may be in a call of the driver
  // that returns only when a gate opens.
  void open_all();

  // Frees the memory: nothing waits any more.
  void release();

 private:
  struct Gate {
    volatile uint32_t* word = nullptr;
    CUdeviceptr address = 0;
    uint32_t turn = 0;
  };
  CUresult add_page();

  const cuda::Driver& driver_;
  mutable Mutex mutex_;  // held for no call of the driver
  std::vector<Gate> gates_ GUARDED_BY(mutex_);
  std::vector<void*> pages_;
  std::vector<size_t> free_;
};

}  // namespace lambent::forward_server
