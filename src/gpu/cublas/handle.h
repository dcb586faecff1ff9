// Handle: a handle of cuBLAS in one context. A resource of one thread at a time, with the device's
// primary context current; it may be handed to another between two calls. Library and Driver
// outlive it.
#pragma once

#include <memory>

#include "core/base/result.h"
#include "core/base/units.h"
#include "gpu/cublas/call.h"
#include "gpu/cublas/library.h"
#include "gpu/cuda/graph.h"
#include "gpu/cuda/partition.h"
#include "gpu/cuda/stream.h"

namespace lambent::cublas {

// On the device; the call's a, b and c.
struct Operands {
  CUdeviceptr a = 0, b = 0, c = 0;
};

// Memory of the device that a call uses until it has ended: no two at a time.
struct Workspace {
  CUdeviceptr address = 0;
  Bytes size;
};

class Handle {
 public:
  // In the current context, or in that of `partition`, which outlives it. UNIMPLEMENTED if cuBLAS
  // cannot be used on this device or with this driver.
  static Result<std::unique_ptr<Handle>> create(const cuda::Driver& driver, const Library& library,
                                                const cuda::GreenContext* partition = nullptr);
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  // Queues the call on a stream of the handle's context. Sums in a fixed order, in the precision of
  // the operands (never TF32). UNIMPLEMENTED if cuBLAS does not do it; nothing is queued then.
  Result<void> run(const Call& call, const Operands& operands, const Workspace& workspace,
                   CUstream stream);
  // The same as a graph, to be a node of another. Graphs of a call, with whatever operands and
  // workspace, have the same shape while these are aligned alike.
  Result<cuda::Graph> capture(const Call& call, const Operands& operands,
                              const Workspace& workspace);

  int version() const { return version_; }  // such as 130002

 private:
  Handle(const cuda::Driver& driver, const Library& library, cuda::Stream stream)
      : driver_(driver), library_(library), stream_(std::move(stream)) {}

  const cuda::Driver& driver_;
  const Library& library_;
  CUcontext partition_ = nullptr;  // null: whatever is current
  RawHandle handle_ = nullptr;
  int version_ = 0;
  cuda::Stream stream_;  // on which calls are captured
};

}  // namespace lambent::cublas
