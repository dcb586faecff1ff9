#include "emulator/emulated_cuda/block_pool.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "core/base/mutex.h"
#include "emulator/emulated_cuda/child_launches.h"
#include "emulator/emulated_cuda/kernel_guard.h"
#include "emulator/emulated_cuda/process.h"

namespace lambent::emulated_cuda {

namespace {
constexpr unsigned kMaxThreads = 4;
constexpr uint64_t kBlocksPerTurn = 8;

// Once for each thread that runs blocks. What it runs may not call the driver, which would wait for
// the kernel that waits for it.
void prepare_thread() {
  prepare_thread_for_kernels();
  in_host_call() = true;
}

emulated_dim3 block_index(const emulated_launch& launch, uint64_t i) {
  return {static_cast<uint32_t>(i % launch.grid.x),
          static_cast<uint32_t>(i / launch.grid.x % launch.grid.y),
          static_cast<uint32_t>(i / launch.grid.x / launch.grid.y)};
}

uint64_t blocks_of(const emulated_launch& launch) {
  return uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
}

// A kernel says itself that it failed.
void fail_launch(const emulated_launch*, int result) {
  abandon_guarded_call(static_cast<CUresult>(result));
}

// The barrier of one cooperative grid. A fault anywhere frees all blocks.
class GridBarrier {
 public:
  explicit GridBarrier(uint64_t blocks) : blocks_(blocks) {}

  static void wait(void* self) { static_cast<GridBarrier*>(self)->arrive_and_wait(); }

  void fail() {
    const MutexLock lock(mutex_);
    failed_ = true;
    open_.notify_all();
  }

 private:
  void arrive_and_wait() {
    bool failed;
    {
      MutexLock lock(mutex_);
      uint64_t round = round_;
      if (++arrived_ == blocks_) {
        arrived_ = 0;
        round_++;
        open_.notify_all();
      }
      while (round_ == round && !failed_) open_.wait(lock);
      failed = failed_;
    }
    if (failed) abandon_guarded_call(CUDA_ERROR_LAUNCH_FAILED);
  }

  const uint64_t blocks_;
  Mutex mutex_;
  Condition open_;
  uint64_t arrived_ GUARDED_BY(mutex_) = 0;
  uint64_t round_ GUARDED_BY(mutex_) = 0;
  bool failed_ GUARDED_BY(mutex_) = false;
};

}  // namespace

struct BlockPool::Job {
  const emulated_kernel* kernel;
  const emulated_launch* launch;
  void** parameters;
  uint64_t blocks;
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> ended{0};
  std::atomic<int> error{CUDA_SUCCESS};
  std::atomic<int> done{0};

  bool exhausted() const { return next.load(std::memory_order_relaxed) >= blocks; }

  void note(CUresult result) {
    int none = CUDA_SUCCESS;
    error.compare_exchange_strong(none, result);
  }

  void count(uint64_t these) {
    if (ended.fetch_add(these) + these != blocks) return;
    done.store(1, std::memory_order_release);
    done.notify_all();
  }

  CUresult wait() {
    while (!done.load(std::memory_order_acquire)) done.wait(0, std::memory_order_acquire);
    return static_cast<CUresult>(error.load());
  }

  // Runs the next few blocks; false if this thread is beyond use.
  bool run_some() {
    struct Turn {
      Job* job;
      uint64_t first, last;
    } turn{this, next.fetch_add(kBlocksPerTurn), 0};
    turn.last = std::min(blocks, turn.first + kBlocksPerTurn);
    if (turn.first >= turn.last) return true;
    CUresult result = CUDA_SUCCESS;
    if (error.load(std::memory_order_relaxed) == CUDA_SUCCESS) {
      result = run_guarded(
          [](void* argument) {
            auto* turn = static_cast<Turn*>(argument);
            const Job& job = *turn->job;
            for (uint64_t i = turn->first; i < turn->last; i++) {
              job.kernel->run_block(job.launch, block_index(*job.launch, i), job.parameters);
            }
          },
          &turn);
    }
    if (result) note(result);
    count(turn.last - turn.first);
    return result == CUDA_SUCCESS;
  }
};

CUresult BlockPool::run(const emulated_kernel& kernel, const emulated_launch& launch,
                        void** parameters) {
  const RunGrid grid = [this](auto& kernel, auto& launch, void** parameters) {
    return run_grid(kernel, launch, parameters);
  };
  return run_with_children(kernel, launch, parameters, grid, grid);
}

CUresult BlockPool::run_cooperative(const emulated_kernel& kernel, const emulated_launch& launch,
                                    void** parameters) {
  return run_with_children(
      kernel, launch, parameters,
      [this](auto& kernel, auto& launch, void** parameters) {
        return run_cooperative_grid(kernel, launch, parameters);
      },
      [this](auto& kernel, auto& launch, void** parameters) {
        return run_grid(kernel, launch, parameters);
      });
}

CUresult BlockPool::run_grid(const emulated_kernel& kernel, const emulated_launch& launch,
                             void** parameters) {
  emulated_launch own = launch;
  own.fail = fail_launch;
  auto job = std::make_shared<Job>();
  job->kernel = &kernel;
  job->launch = &own;
  job->parameters = parameters;
  job->blocks = blocks_of(launch);
  {
    const MutexLock lock(mutex_);
    if (!started_) start_threads();
    jobs_.push_back(job);
  }
  wake_.notify_all();
  return job->wait();
}

CUresult BlockPool::run_cooperative_grid(const emulated_kernel& kernel,
                                         const emulated_launch& launch, void** parameters) {
  const MutexLock one_grid(cooperative_mutex_);
  emulated_launch own = launch;
  GridBarrier barrier(blocks_of(launch));
  own.wait_for_grid = GridBarrier::wait;
  own.grid_barrier = &barrier;
  own.fail = fail_launch;
  auto job = std::make_shared<Job>();
  job->kernel = &kernel;
  job->launch = &own;
  job->parameters = parameters;
  job->blocks = blocks_of(launch);
  for (uint64_t i = 0; i < job->blocks; i++) {
    cooperative_threads_.run([job, &barrier, i] {
      thread_local bool prepared = (prepare_thread(), true);
      (void)prepared;
      struct Block {
        const Job* job;
        uint64_t index;
      } block{job.get(), i};
      CUresult result = run_guarded(
          [](void* argument) {
            auto* block = static_cast<Block*>(argument);
            const Job& job = *block->job;
            job.kernel->run_block(job.launch, block_index(*job.launch, block->index),
                                  job.parameters);
          },
          &block);
      if (result) {
        job->note(result);
        barrier.fail();
      }
      job->count(1);
      return result == CUDA_SUCCESS;
    });
  }
  return job->wait();
}

void BlockPool::start_threads() {
  started_ = true;
  unsigned count = std::clamp(std::thread::hardware_concurrency(), 1u, kMaxThreads);
  for (unsigned i = 0; i < count; i++) start_thread([this] { work(); });
}

void BlockPool::work() {
  prepare_thread();
  for (;;) {
    std::shared_ptr<Job> job;
    {
      MutexLock lock(mutex_);
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
    if (job->run_some()) continue;
    job = nullptr;
    start_thread([this] { work(); });
    rest_for_ever();
  }
}

}  // namespace lambent::emulated_cuda
