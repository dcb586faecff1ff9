#include "emulator/emulated_cuda/child_launches.h"

#include <atomic>
#include <iterator>
#include <utility>

#include "emulator/emulated_cuda/occupancy.h"

namespace lambent::emulated_cuda {

namespace {

constexpr uint32_t kMostSharedBytes = 48 * 1024;  // of one launch, unless the host allows more

// Of all that one launch of the host brings about.
struct Family {
  const RunGrid& run;
  std::atomic<size_t> waiting{0};
};

// What the blocks of one grid launch.
class Children {
 public:
  Children(unsigned nesting, Family& family) : nesting_(nesting), family_(family) {}

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
    if (CUresult result = check_shape(kernel, shape)) return result;
    if (shape.dynamic_shared_bytes > kMostSharedBytes) return CUDA_ERROR_INVALID_VALUE;
    if (!is_tail && nesting_ >= kMostNesting) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    ChildLaunch child{&kernel, {shape.grid, shape.block, shape.dynamic_shared_bytes}, nullptr};
    if (family_.waiting.fetch_add(1) >= kMostWaiting) {
      family_.waiting.fetch_sub(1);
      return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    }
    if (CUresult result = copy_parameters(kernel, parameters, nullptr, &child.parameters)) {
      family_.waiting.fetch_sub(1);
      return result;
    }
    const MutexLock lock(mutex_);
    (is_tail ? tails_ : others_).push_back(std::move(child));
    return CUDA_SUCCESS;
  }

  const unsigned nesting_;
  Family& family_;
  Mutex mutex_;
  std::deque<ChildLaunch> others_ GUARDED_BY(mutex_);
  std::deque<ChildLaunch> tails_ GUARDED_BY(mutex_);
};

CUresult run_tails(std::deque<ChildLaunch> grids, unsigned nesting, Family& family);

// A grid and what it launched, but for its tails, which are put before `next`.
CUresult run_one(const emulated_kernel& kernel, emulated_launch launch, void** parameters,
                 unsigned nesting, const RunGrid& run, Family& family,
                 std::deque<ChildLaunch>* next) {
  Children children(nesting, family);
  children.attach(&launch);
  if (CUresult result = run(kernel, launch, parameters)) return result;
  for (std::deque<ChildLaunch> others = children.take(false); !others.empty();) {
    const ChildLaunch child = std::move(others.front());
    others.pop_front();
    if (CUresult result = run_tails({child}, nesting + 1, family)) return result;
  }
  std::deque<ChildLaunch> tails = children.take(true);
  next->insert(next->begin(), std::make_move_iterator(tails.begin()),
               std::make_move_iterator(tails.end()));
  return CUDA_SUCCESS;
}

CUresult run_tails(std::deque<ChildLaunch> grids, unsigned nesting, Family& family) {
  while (!grids.empty()) {
    const ChildLaunch grid = std::move(grids.front());
    grids.pop_front();
    family.waiting.fetch_sub(1);
    void** parameters = const_cast<void**>(grid.parameters->pointers.data());
    if (CUresult result =
            run_one(*grid.kernel, grid.shape, parameters, nesting, family.run, family, &grids)) {
      return result;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult run_with_children(const emulated_kernel& kernel, const emulated_launch& launch,
                           void** parameters, const RunGrid& run_first, const RunGrid& run) {
  Family family{run};
  std::deque<ChildLaunch> tails;
  if (CUresult result = run_one(kernel, launch, parameters, 0, run_first, family, &tails)) {
    return result;
  }
  return run_tails(std::move(tails), 0, family);
}

}  // namespace lambent::emulated_cuda
