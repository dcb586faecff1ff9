// What compiled programs register before main: their images of GPU code, and by which host address
// each kernel and variable is known. Images are given to the driver when something of them is
// needed first; any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/mutex.h"
#include "emulator/emulated_runtime/runtime.h"

namespace lambent::emulated_runtime {

// One image, as nvcc embeds one for each object file.
struct Binary {
  explicit Binary(const void* given) : image(given) {}
  const void* image;
  Mutex mutex;
  CUlibrary library GUARDED_BY(mutex) = nullptr;  // null until loaded
  cudaError_t load_error GUARDED_BY(mutex) = cudaSuccess;
  std::atomic<bool> managed_ready{false};
  struct Managed {
    void** pointer;  // where the program looks for the variable's address
    std::string name;
  };
  std::vector<Managed> managed GUARDED_BY(mutex);
};

struct RegisteredKernel {
  std::shared_ptr<Binary> binary;
  std::string name;
  std::atomic<CUkernel> kernel{nullptr};
};

struct RegisteredVariable {
  std::shared_ptr<Binary> binary;
  std::string name;
  bool managed = false;
};

class Registry {
 public:
  static Registry& get();  // of the process: the program registers by functions without a place

  // The handle by which the program names the image afterwards.
  Binary* add_binary(const void* image);
  void remove_binary(const Binary* binary);
  void add_kernel(const Binary* binary, const void* host_function, const char* name);
  void add_variable(const Binary* binary, const void* host_address, const char* name);
  void add_managed(const Binary* binary, void** pointer, const char* name);

  // The kernel behind a host function; INVALID_DEVICE_FUNCTION if it is none, else why its image
  // cannot be loaded.
  cudaError_t find_kernel(const Driver& driver, const void* host_function, CUkernel* kernel);
  // The host function of the kernel of this name; null if none is registered under it.
  const void* host_function(const char* name) const;
  // A variable in the current context, by its host address.
  cudaError_t find_variable(const Driver& driver, const void* host_address, CUdeviceptr* address,
                            size_t* bytes);
  // Gives the program the addresses of the managed variables of one image.
  cudaError_t prepare_managed(const Driver& driver, const Binary* binary);
  // Images that the driver ended with the primary context, as one does whose calls are forwarded:
  // they are given to it again when something of them is needed.
  void forget_ended(const Driver& driver);

 private:
  std::shared_ptr<Binary> owned(const Binary* binary) const REQUIRES(mutex_);
  // Gives the driver the image if it does not have it yet.
  static cudaError_t load(const Driver& driver, Binary& binary, CUlibrary* library);

  mutable Mutex mutex_;
  std::unordered_map<const Binary*, std::shared_ptr<Binary>> binaries_ GUARDED_BY(mutex_);
  std::unordered_map<const void*, std::shared_ptr<RegisteredKernel>> kernels_ GUARDED_BY(mutex_);
  std::unordered_map<const void*, std::shared_ptr<RegisteredVariable>> variables_
      GUARDED_BY(mutex_);
};

// What may stand for a kernel in the runtime API: a host function, or a handle of a loaded kernel.
cudaError_t kernel_of(const Driver& driver, const void* function, CUkernel* kernel);
// The same in the current context.
cudaError_t function_of(const Driver& driver, const void* function, CUfunction* out);
// `bytes` bytes from `offset` of a variable in the current context; INVALID_VALUE beyond its end.
cudaError_t symbol_range(const Driver& driver, const void* symbol, size_t bytes, size_t offset,
                         char** begin);

}  // namespace lambent::emulated_runtime
