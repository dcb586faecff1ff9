// What the exported functions share: the driver that they call, the context that each thread works
// in, and the errors that it has met. Any thread; the first call that needs the driver loads it.
#pragma once

#include "gpu/cuda_abi/runtime_types.h"

namespace lambent::emulated_runtime {

// Every driver function that Lambent knows, as libcuda.so.1 exports them.
struct Driver {
#define DRIVER_FUNCTION(name, symbol, parameters) CUresult(*name) parameters = nullptr;
#include "gpu/cuda_abi/driver_table.inc"
#undef DRIVER_FUNCTION
};

// Loads and initialises the driver, once. Sets `*driver` on success. Refuses to work over any
// driver but the emulated one, with a message on standard error.
cudaError_t get_driver(const Driver** driver);

// The same, and the calling thread has a context: the one that it made current itself, else the
// primary context of its device, which is made if need be.
cudaError_t get_driver_with_context(const Driver** driver);

// What belongs to the calling thread.
int thread_device();
cudaError_t set_thread_device(const Driver& driver, int device);
// The primary context of a device, kept until reset_device.
cudaError_t primary_context(const Driver& driver, int device, CUcontext* context);
cudaError_t reset_device(const Driver& driver, int device);
// The device of new threads, and the choice of cudaSetValidDevices.
void set_first_device(int device);

// Codes of the driver and of the runtime have the same values.
constexpr cudaError_t error_of(CUresult result) { return static_cast<cudaError_t>(result); }
// Remembers an error as the thread's last one; hands it through.
cudaError_t record(cudaError_t error);
inline cudaError_t record(CUresult result) { return record(error_of(result)); }
cudaError_t last_error(bool clear);

// Notes, once for each name, that a call was refused and why; where the driver notes its own.
void log_refusal(const char* name, const char* reason);

}  // namespace lambent::emulated_runtime

// Declares `cu`, or returns the reason why there is no driver.
#define WITH_DRIVER()                                                         \
  const ::lambent::emulated_runtime::Driver* driver_ = nullptr;               \
  if (cudaError_t error_ = ::lambent::emulated_runtime::get_driver(&driver_)) \
    return ::lambent::emulated_runtime::record(error_);                       \
  [[maybe_unused]] const ::lambent::emulated_runtime::Driver& cu = *driver_

// The same for calls that need a context.
#define WITH_CONTEXT()                                                                     \
  const ::lambent::emulated_runtime::Driver* driver_ = nullptr;                            \
  if (cudaError_t error_ = ::lambent::emulated_runtime::get_driver_with_context(&driver_)) \
    return ::lambent::emulated_runtime::record(error_);                                    \
  [[maybe_unused]] const ::lambent::emulated_runtime::Driver& cu = *driver_

// Returns, recorded, whatever is not success.
#define RETURN_IF_ERROR(expression)                                \
  if (auto result_ = (expression); static_cast<int>(result_) != 0) \
  return ::lambent::emulated_runtime::record(result_)
