#include "gpu/stage_channel/driver.h"

#include <dlfcn.h>

#include "core/base/plain_mutex.h"

namespace lambent::stage_channel {
namespace {

PlainMutex mutex;
Driver found GUARDED_BY(mutex);  // once complete, never changed again
bool is_complete GUARDED_BY(mutex) = false;

template <typename Function>
bool find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  return function != nullptr;
}

// Under the plain name: where the shim is preloaded, that is the shim.
void load() REQUIRES(mutex) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  is_complete = find(library, "cuGetErrorName", found.get_error_name) &&
                find(library, "cuCtxGetCurrent", found.ctx_get_current) &&
                find(library, "cuCtxSetCurrent", found.ctx_set_current) &&
                find(library, "cuMemHostRegister_v2", found.mem_host_register) &&
                find(library, "cuMemHostUnregister", found.mem_host_unregister) &&
                find(library, "cuMemcpyHtoDAsync_v2", found.copy_to_device) &&
                find(library, "cuMemcpyDtoHAsync_v2", found.copy_to_host) &&
                find(library, "cuStreamCreate", found.stream_create) &&
                find(library, "cuStreamDestroy_v2", found.stream_destroy) &&
                find(library, "cuStreamSynchronize", found.stream_synchronize) &&
                find(library, "cuStreamWaitEvent", found.stream_wait_event) &&
                find(library, "cuEventCreate", found.event_create) &&
                find(library, "cuEventDestroy_v2", found.event_destroy) &&
                find(library, "cuEventRecord", found.event_record) &&
                find(library, "cuEventSynchronize", found.event_synchronize);
}

}  // namespace

const Driver* driver() {
  const PlainLock lock(mutex);
  // Again, if there was none: the program may have opened one since, by its path.
  if (!is_complete) load();
  return is_complete ? &found : nullptr;
}

}  // namespace lambent::stage_channel
