// Launches that kernels make (dynamic parallelism). They run once the grid that made them has
// ended: a kernel cannot wait for them, so it cannot tell. Used by block_pool.cc.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "core/base/mutex.h"
#include "emulator/emulated_cuda/kernel_launch.h"

namespace lambent::emulated_cuda {

// As on a GPU: kernels launched by kernels, counted from the one that the host launched.
constexpr unsigned kMostNesting = 24;
// That wait at a time behind one launch of the host: what they take is its memory. A GPU has room
// for 2,048, but runs them while more are launched.
constexpr size_t kMostWaiting = 1 << 16;

// A grid as a kernel launched it, with its own copy of the parameters.
struct ChildLaunch {
  const emulated_kernel* kernel;
  emulated_launch shape;
  std::shared_ptr<const Parameters> parameters;
};

using RunGrid =
    std::function<CUresult(const emulated_kernel&, const emulated_launch&, void** parameters)>;

// Runs a grid by `run_first`, then what its blocks launched by `run`, and what these launched.
// Ends with the first error.
CUresult run_with_children(const emulated_kernel& kernel, const emulated_launch& launch,
                           void** parameters, const RunGrid& run_first, const RunGrid& run);

}  // namespace lambent::emulated_cuda
