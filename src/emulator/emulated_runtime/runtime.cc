#include "emulator/emulated_runtime/runtime.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <set>
#include <string>

#include "core/base/mutex.h"
#include "emulator/emulated_node/settings.h"
#include "gpu/cuda_abi/emulated_uuid.h"

namespace lambent::emulated_runtime {

namespace {

constexpr int kMostDevices = 1024;

// Primary contexts that this runtime retains. `generation` tells a thread that the context which it
// was given has been reset meanwhile.
struct Primary {
  std::atomic<CUcontext> context{nullptr};
  std::atomic<unsigned> generation{0};
};

struct Thread {
  cudaError_t last_error = cudaSuccess;
  int device = -1;  // not chosen yet
  CUcontext bound = nullptr;
  int bound_device = 0;
  unsigned bound_generation = 0;
};

constinit thread_local Thread thread;
std::atomic<int> first_device{0};
Primary primaries[kMostDevices];
Mutex primary_mutex;  // guards changes of them

Driver loaded_driver;

bool load_functions(Driver* driver) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library) return false;
  const char* missing = nullptr;
#define DRIVER_FUNCTION(name, symbol, parameters)                                   \
  driver->name = reinterpret_cast<CUresult(*) parameters>(dlsym(library, #symbol)); \
  if (!driver->name) missing = #symbol;
#include "gpu/cuda_abi/driver_table.inc"
#undef DRIVER_FUNCTION
  if (missing) std::fprintf(stderr, "libcudart stand-in: the driver has no %s\n", missing);
  return missing == nullptr;
}

bool is_emulated(const Driver& driver) {
  CUuuid uuid;
  return driver.device_get_uuid_v2(&uuid, 0) == CUDA_SUCCESS &&
         cuda_abi::is_emulated_uuid(uuid.bytes);
}

cudaError_t load() {
  if (!load_functions(&loaded_driver)) return cudaErrorInsufficientDriver;
  if (CUresult result = loaded_driver.init(0)) return error_of(result);
  if (!is_emulated(loaded_driver)) {
    std::fputs(
        "libcudart stand-in: this library works over the emulated GPU only, but libcuda.so.1 is "
        "another driver.\nTake lib/emulated_runtime off LD_LIBRARY_PATH to use NVIDIA's runtime.\n",
        stderr);
    return cudaErrorSystemDriverMismatch;
  }
  return cudaSuccess;
}

cudaError_t bind_primary(const Driver& driver, int device) {
  CUcontext context;
  if (cudaError_t error = primary_context(driver, device, &context)) return error;
  if (CUresult result = driver.ctx_set_current(context)) return error_of(result);
  thread.bound = context;
  thread.bound_device = device;
  thread.bound_generation = primaries[device].generation;
  return cudaSuccess;
}

}  // namespace

cudaError_t get_driver(const Driver** driver) {
  // A failure is final: the real runtime does not ask twice either.
  static const cudaError_t error = load();
  *driver = &loaded_driver;
  return error;
}

cudaError_t get_driver_with_context(const Driver** driver) {
  if (cudaError_t error = get_driver(driver)) return error;
  CUcontext current = nullptr;
  if (CUresult result = (*driver)->ctx_get_current(&current)) return error_of(result);
  bool stale = current == thread.bound &&
               thread.bound_generation != primaries[thread.bound_device].generation;
  if (current && !stale) return cudaSuccess;
  return bind_primary(**driver, thread_device());
}

int thread_device() { return thread.device < 0 ? first_device.load() : thread.device; }

cudaError_t set_thread_device(const Driver& driver, int device) {
  int count = 0;
  if (CUresult result = driver.device_get_count(&count)) return error_of(result);
  if (device < 0 || device >= count) return cudaErrorInvalidDevice;
  if (cudaError_t error = bind_primary(driver, device)) return error;
  thread.device = device;
  return cudaSuccess;
}

cudaError_t primary_context(const Driver& driver, int device, CUcontext* context) {
  if (device < 0 || device >= kMostDevices) return cudaErrorInvalidDevice;
  if ((*context = primaries[device].context)) return cudaSuccess;
  const MutexLock lock(primary_mutex);
  if ((*context = primaries[device].context)) return cudaSuccess;
  if (CUresult result = driver.device_primary_ctx_retain(context, device)) return error_of(result);
  primaries[device].context = *context;
  return cudaSuccess;
}

cudaError_t reset_device(const Driver& driver, int device) {
  const MutexLock lock(primary_mutex);
  if (CUresult result = driver.device_primary_ctx_reset(device)) return error_of(result);
  primaries[device].context = nullptr;
  primaries[device].generation++;
  CUcontext current = nullptr;
  if (driver.ctx_get_current(&current) == CUDA_SUCCESS && current == thread.bound) {
    driver.ctx_set_current(nullptr);
  }
  return cudaSuccess;
}

void set_first_device(int device) { first_device = device; }

cudaError_t record(cudaError_t error) {
  if (error != cudaSuccess) thread.last_error = error;
  return error;
}

cudaError_t last_error(bool clear) {
  cudaError_t error = thread.last_error;
  if (clear) thread.last_error = cudaSuccess;
  return error;
}

void log_refusal(const char* name, const char* reason) {
  // Never destroyed: programs call us until their very end.
  static Mutex mutex;  // guards the names, and keeps lines whole
  static auto* seen = new std::set<std::string>;
  const MutexLock lock(mutex);
  if (!seen->insert(name).second) return;
  static auto* path = new std::string(emulated_node::read_settings().log_path);
  FILE* log = path->empty() ? stderr : std::fopen(path->c_str(), "ae");
  if (!log) return;
  std::fprintf(log, "emulated-runtime: %s refused: %s\n", name, reason);
  if (log != stderr) std::fclose(log);
}

}  // namespace lambent::emulated_runtime

extern "C" __attribute__((visibility("hidden"))) int emulated_runtime_refuse(const char* name) {
  lambent::emulated_runtime::log_refusal(name, "not emulated");
  return lambent::emulated_runtime::record(cudaErrorNotSupported);
}
