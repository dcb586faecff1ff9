// What the code that nvcc generates calls by itself: the registration of images before main, and
// the two halves of a launch with <<<>>>.
#include <vector>

#include "emulator/emulated_runtime/api.h"

using namespace lambent::emulated_runtime;

#define RUNTIME_HOOK(type) extern "C" __attribute__((visibility("default"))) type

namespace {

struct Configuration {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};

// Launches nest where a parameter's value launches another kernel.
std::vector<Configuration>& configurations() {
  thread_local std::vector<Configuration> stack;
  return stack;
}

const Binary* binary_of(void** handle) { return reinterpret_cast<const Binary*>(handle); }

}  // namespace

RUNTIME_HOOK(void**) __cudaRegisterFatBinary(void* image) {
  return reinterpret_cast<void**>(Registry::get().add_binary(image));
}

RUNTIME_HOOK(void) __cudaRegisterFatBinaryEnd(void**) {}

RUNTIME_HOOK(void) __cudaUnregisterFatBinary(void** handle) {
  Registry::get().remove_binary(binary_of(handle));
}

RUNTIME_HOOK(void)
__cudaRegisterFunction(void** handle, const char* host_function, char*, const char* name, int,
                       void*, void*, void*, void*, int*) {
  Registry::get().add_kernel(binary_of(handle), host_function, name);
}

RUNTIME_HOOK(void)
__cudaRegisterVar(void** handle, char* host_address, char*, const char* name, int, size_t, int,
                  int) {
  Registry::get().add_variable(binary_of(handle), host_address, name);
}

RUNTIME_HOOK(void)
__cudaRegisterManagedVar(void** handle, void** pointer, char*, const char* name, int, size_t, int,
                         int) {
  Registry::get().add_managed(binary_of(handle), pointer, name);
}

// Called before the program's own accesses to a managed variable.
RUNTIME_HOOK(char) __cudaInitModule(void** handle) {
  const Driver* driver = nullptr;
  cudaError_t error = get_driver_with_context(&driver);
  if (!error) error = Registry::get().prepare_managed(*driver, binary_of(handle));
  record(error);
  return 1;
}

RUNTIME_API __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                        cudaStream_t stream) {
  configurations().push_back({grid, block, shared_bytes, stream});
  return cudaSuccess;
}

RUNTIME_API __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                       void* stream) {
  if (!grid || !block || !shared_bytes || !stream) return record(cudaErrorInvalidValue);
  if (configurations().empty()) return record(cudaErrorMissingConfiguration);
  const Configuration& top = configurations().back();
  *grid = top.grid;
  *block = top.block;
  *shared_bytes = top.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  configurations().pop_back();
  return cudaSuccess;
}

// A call site asks once and keeps what it gets, so it gets the host function itself: what goes
// wrong with its image is then told by each launch again.
RUNTIME_API __cudaGetKernel(cudaKernel_t* kernel, const void* host_function) {
  if (!kernel) return record(cudaErrorInvalidValue);
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host_function));
  return cudaSuccess;
}

RUNTIME_API __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** parameters,
                               size_t shared_bytes, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, parameters, shared_bytes, stream);
}
