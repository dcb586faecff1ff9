// Memory and events of other processes.
#include "emulator/emulated_runtime/api.h"

using namespace lambent::emulated_runtime;

FORWARD(cudaIpcGetMemHandle, ipc_get_mem_handle, (CUipcMemHandle * handle, void* pointer),
        (handle, reinterpret_cast<CUdeviceptr>(pointer)))
FORWARD(cudaIpcCloseMemHandle, ipc_close_mem_handle, (void* pointer),
        (reinterpret_cast<CUdeviceptr>(pointer)))

RUNTIME_API cudaIpcOpenMemHandle(void** pointer, CUipcMemHandle handle, unsigned int flags) {
  WITH_CONTEXT();
  if (!pointer) return record(cudaErrorInvalidValue);
  CUdeviceptr address = 0;
  RETURN_IF_ERROR(cu.ipc_open_mem_handle(&address, handle, flags));
  *pointer = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

FORWARD(cudaIpcGetEventHandle, ipc_get_event_handle, (CUipcEventHandle * handle, cudaEvent_t event),
        (handle, event))
FORWARD(cudaIpcOpenEventHandle, ipc_open_event_handle,
        (cudaEvent_t * event, CUipcEventHandle handle), (event, handle))
