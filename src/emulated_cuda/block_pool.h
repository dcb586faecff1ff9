// The few threads of a process on which blocks of kernels run. Used by stream threads.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "cuda_abi/emulated_kernel.h"

namespace lambent::emulated_cuda {

class BlockPool {
 public:
  // Runs every block of the grid and returns when the last has ended.
  void run(const emulated_kernel& kernel, const emulated_launch& launch, void** parameters);

 private:
  struct Job;
  void start_threads();
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Job>> jobs_;
  bool started_ = false;
};

}  // namespace lambent::emulated_cuda
