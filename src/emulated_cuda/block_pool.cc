#include "emulated_cuda/block_pool.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "emulated_cuda/threads.h"

namespace lambent::emulated_cuda {

namespace {
constexpr unsigned kMaxThreads = 4;
constexpr uint64_t kBlocksPerTurn = 8;
}  // namespace

struct BlockPool::Job {
  const emulated_kernel* kernel;
  const emulated_launch* launch;
  void** parameters;
  uint64_t blocks;
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> ended{0};
  std::atomic<int> done{0};

  bool exhausted() const { return next.load(std::memory_order_relaxed) >= blocks; }

  void run_some() {
    uint64_t first = next.fetch_add(kBlocksPerTurn);
    uint64_t last = std::min(blocks, first + kBlocksPerTurn);
    if (first >= last) return;
    for (uint64_t i = first; i < last; i++) {
      emulated_dim3 index{static_cast<uint32_t>(i % launch->grid.x),
                          static_cast<uint32_t>(i / launch->grid.x % launch->grid.y),
                          static_cast<uint32_t>(i / launch->grid.x / launch->grid.y)};
      kernel->run_block(launch, index, parameters);
    }
    if (ended.fetch_add(last - first) + (last - first) == blocks) {
      done.store(1, std::memory_order_release);
      done.notify_all();
    }
  }
};

void BlockPool::run(const emulated_kernel& kernel, const emulated_launch& launch,
                    void** parameters) {
  auto job = std::make_shared<Job>();
  job->kernel = &kernel;
  job->launch = &launch;
  job->parameters = parameters;
  job->blocks = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  {
    std::lock_guard lock(mutex_);
    if (!started_) start_threads();
    jobs_.push_back(job);
  }
  wake_.notify_all();
  while (!job->done.load(std::memory_order_acquire)) job->done.wait(0, std::memory_order_acquire);
}

void BlockPool::start_threads() {
  started_ = true;
  unsigned count = std::clamp(std::thread::hardware_concurrency(), 1u, kMaxThreads);
  for (unsigned i = 0; i < count; i++) start_thread([this] { work(); });
}

void BlockPool::work() {
  for (;;) {
    std::shared_ptr<Job> job;
    {
      std::unique_lock lock(mutex_);
      for (;;) {
        while (!jobs_.empty() && jobs_.front()->exhausted()) jobs_.pop_front();
        if (!jobs_.empty()) break;
        wake_.wait(lock);
      }
      // Kernels that run side by side take turns.
      job = jobs_.front();
      jobs_.pop_front();
      jobs_.push_back(job);
    }
    job->run_some();
  }
}

}  // namespace lambent::emulated_cuda
