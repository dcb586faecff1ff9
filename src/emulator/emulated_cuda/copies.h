// Copies and fills as values: what lies at either end, the rows, and how they are done and timed.
// Built by the API functions, done by whichever thread performs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/emulated_cuda/memory.h"
#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_cuda {

class Process;
struct Context;

// One end of a copy, as the driver found it when the copy was asked for.
struct Side {
  uintptr_t address = 0;
  bool device = false;
  bool pinned = false;   // known to the driver
  bool managed = false;  // where it lies turns out when the copy is done
  Access access = Access::kReadWrite;
  size_t backing = 0;  // real bytes behind the allocation; 0: all
  int device_index = 0;
};

// Rows of a copy, in layers; one row for a plain one.
struct Shape {
  size_t width, height, from_pitch, to_pitch;
  size_t depth = 1, from_layer = 0, to_layer = 0;  // layers, and the bytes from one to the next
  size_t bytes() const { return width * height * depth; }
  size_t from_bytes() const { return (depth - 1) * from_layer + (height - 1) * from_pitch + width; }
  size_t to_bytes() const { return (depth - 1) * to_layer + (height - 1) * to_pitch + width; }
};

struct Copy {
  Side to, from;
  Shape shape;
  bool peer = false;  // the program named both devices: straight over, if there is a way
  // The caller must wait: the owner of pageable memory may reuse it once the call
  // returns.
  bool pageable() const { return !to.pinned || !from.pinned; }
  // Whether mapped memory at either end has been opened for it, and the program's own memory is
  // there.
  bool permitted() const;
};

// Buffers the source's bytes as they are now: the program may change them once the call returns.
// Null if they are too many.
std::shared_ptr<const void> offload(Copy& copy);

// Copies without order among them, asked for in one call.
struct CopyBatch {
  std::vector<Copy> copies;
  std::vector<std::shared_ptr<const void>> kept;  // sources that were buffered
};

// Writes `value`, of 1, 2 or 4 bytes, `width` times into each row.
struct Fill {
  Side to;
  size_t pitch;
  uint32_t value;
  uint32_t element_bytes;
  size_t width, height;
};

// Sleeps until the virtual instant.
void sleep_to(Process& process, int64_t end_ns);

// Finds the allocation that holds all of a range; false if there is none.
bool resolve_device(const Process& process, CUdeviceptr address, size_t bytes, Side* side);
// What lies at a host address: page-locked memory, a device's that the host sees, or pageable.
Side resolve_host(const Process& process, const void* address, size_t bytes);

// Checks a request for a copy of boxes and finds what lies at its ends. A box without contents
// gives a shape of width 0.
CUresult make_copy(const Process& process, const CUDA_MEMCPY3D& request, Copy* copy);
// The same for a fill.
CUresult make_fill(const Process& process, const CUDA_MEMSET_NODE_PARAMS& request, Fill* fill);

int64_t perform(Process& process, Context& context, const Copy& copy, int64_t begin_ns);
int64_t perform(Process& process, Context& context, const CopyBatch& batch, int64_t begin_ns);
int64_t perform(Process& process, Context& context, const Fill& fill, int64_t begin_ns);

}  // namespace lambent::emulated_cuda
