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
  // Put the message into a buffer, as much as fits, and tell the size used.
  void write_error(const std::string& message) { errors_.write(message); }
  void write_information(const std::string& message) { information_.write(message); }

  unsigned optimisation() const { return optimisation_; }
  bool is_verbose() const { return is_verbose_; }

 private:
  struct Log {
    char* buffer = nullptr;
    size_t bytes = 0;
    void** size = nullptr;

    void write(const std::string& message);
  };

  Log errors_, information_;
  unsigned optimisation_ = 4;
  bool is_verbose_ = false;
};

}  // namespace lambent::emulated_cuda
