// The functions of the CUDA driver that channels call, found in the process's libcuda.so.1 when
// they are first needed. Any thread.
#pragma once

#include "gpu/cuda_abi/driver_types.h"

namespace lambent::stage_channel {

struct Driver {
  CUresult (*get_error_name)(CUresult, const char**) = nullptr;
  CUresult (*ctx_get_current)(CUcontext*) = nullptr;
  CUresult (*ctx_set_current)(CUcontext) = nullptr;
  CUresult (*mem_host_register)(void*, size_t, unsigned int) = nullptr;
  CUresult (*mem_host_unregister)(void*) = nullptr;
  CUresult (*copy_to_device)(CUdeviceptr, const void*, size_t, CUstream) = nullptr;
  CUresult (*copy_to_host)(void*, CUdeviceptr, size_t, CUstream) = nullptr;
  CUresult (*stream_create)(CUstream*, unsigned int) = nullptr;
  CUresult (*stream_destroy)(CUstream) = nullptr;
  CUresult (*stream_synchronize)(CUstream) = nullptr;
  CUresult (*stream_wait_event)(CUstream, CUevent, unsigned int) = nullptr;
  CUresult (*event_create)(CUevent*, unsigned int) = nullptr;
  CUresult (*event_destroy)(CUevent) = nullptr;
  CUresult (*event_record)(CUevent, CUstream) = nullptr;
  CUresult (*event_synchronize)(CUevent) = nullptr;
};

// Null if the process can load no driver, or one without these functions. The driver must have been
// initialised by the program, which has a context or no memory to copy.
const Driver* driver();

}  // namespace lambent::stage_channel
