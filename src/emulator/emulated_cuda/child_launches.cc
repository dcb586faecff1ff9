#include "emulator/emulated_cuda/child_launches.h"

#include <iterator>
#include <utility>

namespace lambent::emulated_cuda {

namespace {

constexpr uint64_t kMostThreadsOfBlock = 1024;
constexpr uint32_t kMostSharedBytes = 48 * 1024;  // of one launch, unless the host allows more

// What the blocks of one grid launch.
class Children {
 public:
  explicit Children(unsigned nesting) : nesting_(nesting) {}

  void attach(emulated_launch* parent) {
    parent->launch_child = launch;
    parent->children = this;
  }

  // Once the grid has ended.
  std::deque<ChildLaunch> take(bool tails) {
    const MutexLock lock(mutex_);
    return std::move(tails ? tails_ : others_);
  }

 private:
  static int launch(const emulated_launch* parent, const emulated_kernel* kernel,
                    const emulated_launch* shape, void** parameters, int is_tail) {
    return static_cast<Children*>(parent->children)->add(*kernel, *shape, parameters, is_tail != 0);
  }

  CUresult add(const emulated_kernel& kernel, const emulated_launch& shape, void** parameters,
               bool is_tail) {
    const emulated_dim3 &grid = shape.grid, &block = shape.block;
    if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (uint64_t{block.x} * block.y * block.z > kMostThreadsOfBlock) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (shape.dynamic_shared_bytes > kMostSharedBytes) return CUDA_ERROR_INVALID_VALUE;
    if (!is_tail && nesting_ >= kMostNesting) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    ChildLaunch child{&kernel, {grid, block, shape.dynamic_shared_bytes}, nullptr};
    if (CUresult result = copy_parameters(kernel, parameters, nullptr, &child.parameters)) {
      return result;
    }
    const MutexLock lock(mutex_);
    if (others_.size() + tails_.size() >= kMostChildren) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    (is_tail ? tails_ : others_).push_back(std::move(child));
    return CUDA_SUCCESS;
  }

  const unsigned nesting_;
  Mutex mutex_;
  std::deque<ChildLaunch> others_ GUARDED_BY(mutex_);
  std::deque<ChildLaunch> tails_ GUARDED_BY(mutex_);
};

CUresult run_family(const ChildLaunch& child, unsigned nesting, const RunGrid& run);

// A grid and what it launched, but for its tails, which are put before `next`.
CUresult run_one(const emulated_kernel& kernel, emulated_launch launch, void** parameters,
                 unsigned nesting, const RunGrid& run_first, const RunGrid& run,
                 std::deque<ChildLaunch>* next) {
  Children children(nesting);
  children.attach(&launch);
  if (CUresult result = run_first(kernel, launch, parameters)) return result;
  for (const ChildLaunch& child : children.take(false)) {
    if (CUresult result = run_family(child, nesting + 1, run)) return result;
  }
  std::deque<ChildLaunch> tails = children.take(true);
  next->insert(next->begin(), std::make_move_iterator(tails.begin()),
               std::make_move_iterator(tails.end()));
  return CUDA_SUCCESS;
}

CUresult run_tails(std::deque<ChildLaunch> grids, unsigned nesting, const RunGrid& run) {
  while (!grids.empty()) {
    const ChildLaunch grid = std::move(grids.front());
    grids.pop_front();
    void** parameters = const_cast<void**>(grid.parameters->pointers.data());
    if (CUresult result =
            run_one(*grid.kernel, grid.shape, parameters, nesting, run, run, &grids)) {
      return result;
    }
  }
  return CUDA_SUCCESS;
}

CUresult run_family(const ChildLaunch& child, unsigned nesting, const RunGrid& run) {
  return run_tails({child}, nesting, run);
}

}  // namespace

CUresult run_with_children(const emulated_kernel& kernel, const emulated_launch& launch,
                           void** parameters, const RunGrid& run_first, const RunGrid& run) {
  std::deque<ChildLaunch> tails;
  if (CUresult result = run_one(kernel, launch, parameters, 0, run_first, run, &tails)) {
    return result;
  }
  return run_tails(std::move(tails), 0, run);
}

}  // namespace lambent::emulated_cuda
