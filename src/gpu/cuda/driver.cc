#include "gpu/cuda/driver.h"

#include <dlfcn.h>

namespace lambent::cuda {
namespace {

ErrorCode code_of(CUresult result) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return ErrorCode::kResourceExhausted;
    case CUDA_ERROR_NOT_SUPPORTED:
      return ErrorCode::kUnimplemented;
    case CUDA_ERROR_NO_DEVICE:
      return ErrorCode::kUnavailable;
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
      return ErrorCode::kFailedPrecondition;
    case CUDA_ERROR_NOT_FOUND:
      return ErrorCode::kNotFound;
    case CUDA_ERROR_INVALID_VALUE:
      return ErrorCode::kInvalidArgument;
    default:
      return ErrorCode::kInternal;
  }
}

}  // namespace

Result<std::unique_ptr<Driver>> Driver::load() {
  // Never closed: drivers start threads that run in their code.
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{ErrorCode::kUnavailable, std::string("no CUDA driver: ") + dlerror()};
  }
  std::unique_ptr<Driver> driver(new Driver);
#define DRIVER_FUNCTION(name, symbol, parameters) \
  driver->functions_.name = reinterpret_cast<CUresult(*) parameters>(dlsym(library, #symbol));
#include "gpu/cuda_abi/driver_table.inc"
#undef DRIVER_FUNCTION
  if (driver->functions_.init == nullptr || driver->functions_.get_error_name == nullptr) {
    return Error{ErrorCode::kUnavailable, "libcuda.so.1 is no CUDA driver"};
  }
  RETURN_IF_ERROR(driver->check(driver->functions_.init(0), "cuInit"));
  return driver;
}

Result<void> Driver::check(CUresult result, std::string_view call) const {
  if (result == CUDA_SUCCESS) return {};
  const char* name = nullptr;
  if (functions_.get_error_name(result, &name) != CUDA_SUCCESS || name == nullptr) {
    name = "unknown CUDA error";
  }
  return Error{code_of(result), std::string(call) + ": " + name + " (" +
                                    std::to_string(static_cast<int>(result)) + ")"};
}

}  // namespace lambent::cuda
