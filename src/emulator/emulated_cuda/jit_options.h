// The options with which modules are loaded and linked: checked, and the buffers among them that
// receive messages. A value of one call, on its thread.
#pragma once

#include <string>

#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_cuda {

class JitOptions {
 public:
  // INVALID_VALUE for an option that there is not, or missing arrays.
  CUresult read(unsigned int count, CUjit_option* options, void** values);
  // Puts the message into the error buffer, as much as fits, and tells the sizes used.
  void write_error(const std::string& message);

 private:
  char* error_buffer_ = nullptr;
  size_t error_bytes_ = 0;
  void** error_size_ = nullptr;
};

}  // namespace lambent::emulated_cuda
