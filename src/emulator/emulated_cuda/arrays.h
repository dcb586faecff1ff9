// CUDA arrays: plain linear device memory behind an opaque handle, counted like any other. They are
// filled and emptied by copies, and read by kernels through textures and surfaces. Any thread.
#pragma once

#include <memory>
#include <vector>

#include "emulator/emulated_cuda/copies.h"
#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_cuda {

struct Array {
  CUDA_ARRAY3D_DESCRIPTOR descriptor;  // as the program gave it
  size_t element_bytes;                // all channels
  uintptr_t base;                      // rows and layers without gaps
  int device;
  void* context;
  std::shared_ptr<Array> owner;  // of the memory, for a level of a mipmapped array; null: itself

  size_t row_bytes() const { return descriptor.Width * element_bytes; }
  size_t rows() const { return descriptor.Height ? descriptor.Height : 1; }
  size_t layers() const { return descriptor.Depth ? descriptor.Depth : 1; }
  size_t bytes() const { return row_bytes() * rows() * layers(); }
};

struct MipmappedArray {
  std::shared_ptr<Array> whole;  // the memory of all levels
  std::vector<std::shared_ptr<Array>> levels;
};

// Of one channel of a CUarray_format; 0: it is no plain number.
size_t channel_bytes(int format);
// What one element takes; CUDA_ERROR_NOT_SUPPORTED for formats that have no plain elements.
CUresult check_array(const CUDA_ARRAY3D_DESCRIPTOR& descriptor, size_t* element_bytes);

// One end of a copy of a box inside an array; false if it runs over an edge.
bool array_side(const Array& array, size_t x_bytes, size_t y, size_t z, size_t width_bytes,
                size_t height, size_t depth, Side* side);

}  // namespace lambent::emulated_cuda
