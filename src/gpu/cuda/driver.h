// Driver: the functions of libcuda.so.1, loaded at run time, and its results as our errors.
// Loaded once by main and passed on; immutable afterwards, any thread may call through it.
#pragma once

#include <memory>
#include <string_view>

#include "core/base/result.h"
#include "gpu/cuda_abi/driver_types.h"

namespace lambent::cuda {

// One pointer for each row of the table; null if this driver is too old to have it.
struct DriverFunctions {
#define DRIVER_FUNCTION(name, symbol, parameters) CUresult(*name) parameters = nullptr;
#include "gpu/cuda_abi/driver_table.inc"
#undef DRIVER_FUNCTION
};

class Driver {
 public:
  // UNAVAILABLE if there is no driver or it finds no device.
  static Result<std::unique_ptr<Driver>> load();

  const DriverFunctions* operator->() const { return &functions_; }

  // The error of a result, with the call and CUDA's name in its message; RESOURCE_EXHAUSTED for out
  // of memory, UNIMPLEMENTED for not supported, FAILED_PRECONDITION for an image that is refused.
  Result<void> check(CUresult result, std::string_view call) const;

 private:
  Driver() = default;

  DriverFunctions functions_;
};

}  // namespace lambent::cuda
