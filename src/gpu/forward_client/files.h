// Files that the library reads: module images that a program names, and, for an emulated device,
// the host code that belongs to a program whose images hold GPU code only. Any thread.
#pragma once

#include <cstddef>

#include "gpu/cuda_abi/driver_types.h"

namespace lambent::forward_client {

// A whole file, followed by a zero; to be freed.
struct FileContent {
  char* bytes = nullptr;
  size_t size = 0;
};
CUresult read_whole_file(const char* path, FileContent* content);

// The first file of those in EMULATED_CUDA_KERNELS that can be read, or FILE.kernels.so beside the
// file that holds the image or beside the program. False if there is none.
bool read_side_code(const void* image, FileContent* content);

// Whether so much can be there: a damaged image states any size.
bool is_mapped(const void* bytes, size_t size);

// The calling library's own symbol; null if it has none of this name.
void* own_symbol(const char* name);
// Says it on standard error, cut to some thousand characters: a function's log has it.
void say(const char* first, const char* second);
// Says once for each name that it is not forwarded.
CUresult refuse(const char* name, unsigned char* said);

}  // namespace lambent::forward_client
