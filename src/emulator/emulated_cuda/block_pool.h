// The threads of a process on which blocks of kernels run: a few that all launches share, and one
// for each block of a cooperative launch. Used to perform launches.
#pragma once

#include <deque>
#include <memory>

#include "core/base/mutex.h"
#include "emulator/emulated_cuda/threads.h"
#include "gpu/cuda_abi/driver_types.h"
#include "gpu/cuda_abi/emulated_kernel.h"

namespace lambent::emulated_cuda {

// Cooperative blocks that can wait for each other, each on a thread of its own.
constexpr unsigned kMostCooperativeBlocks = 1024;

class BlockPool {
 public:
  // Runs every block of the grid, and of the grids that its blocks launch, and returns when the
  // last has ended: with an error if a block faulted; blocks that had not begun then do not run.
  CUresult run(const emulated_kernel& kernel, const emulated_launch& launch, void** parameters);

  // The same with all blocks at a time, so that they can wait for each other; at most
  // kMostCooperativeBlocks.
  CUresult run_cooperative(const emulated_kernel& kernel, const emulated_launch& launch,
                           void** parameters);

 private:
  struct Job;
  CUresult run_grid(const emulated_kernel& kernel, const emulated_launch& launch,
                    void** parameters);
  CUresult run_cooperative_grid(const emulated_kernel& kernel, const emulated_launch& launch,
                                void** parameters);
  void start_threads() REQUIRES(mutex_);
  void work();

  Mutex mutex_;
  Condition wake_;
  std::deque<std::shared_ptr<Job>> jobs_ GUARDED_BY(mutex_);
  bool started_ GUARDED_BY(mutex_) = false;

  Mutex cooperative_mutex_;  // one grid at a time: two that share the threads could deadlock
  ThreadCache cooperative_threads_ GUARDED_BY(cooperative_mutex_){kMostCooperativeBlocks};
};

}  // namespace lambent::emulated_cuda
