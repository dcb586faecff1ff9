// User objects, and the memory that graphs keep on a device.
#include <climits>

#include "emulator/emulated_cuda/api.h"

using namespace lambent::emulated_cuda;

namespace {

std::shared_ptr<UserObject> find_object(Process& process, CUuserObject handle)
    REQUIRES(process.graphs.mutex) {
  auto it = process.user_objects.find(handle);
  return it == process.user_objects.end() ? nullptr : it->second.lock();
}

bool valid_count(unsigned count) { return count > 0 && count <= INT_MAX; }

}  // namespace

CUresult cuUserObjectCreate(CUuserObject* out, void* object, CUhostFn destroy, unsigned int count,
                            unsigned int flags) {
  WITH_PROCESS();
  if (!out || !destroy || !valid_count(count) || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const lambent::MutexLock lock(process->graphs.mutex);
  std::erase_if(process->user_objects, [](const auto& known) { return known.second.expired(); });
  auto made = std::make_shared<UserObject>(destroy, object);
  process->user_objects[made.get()] = made;
  process->user_references.retain(made, count);
  *out = reinterpret_cast<CUuserObject>(made.get());
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  auto object = find_object(*process, handle);
  if (!object || !valid_count(count)) return CUDA_ERROR_INVALID_VALUE;
  process->user_references.retain(object, count);
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  auto object = find_object(*process, handle);
  if (!object || !valid_count(count)) return CUDA_ERROR_INVALID_VALUE;
  return process->user_references.release(object.get(), count) ? CUDA_SUCCESS
                                                               : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphRetainUserObject(CUgraph graph_handle, CUuserObject handle, unsigned int count,
                                 unsigned int flags) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  Graph* graph = process->graphs.graph(graph_handle);
  auto object = find_object(*process, handle);
  if (!graph || !object || !valid_count(count) || flags > CU_GRAPH_USER_OBJECT_MOVE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  bool moves = flags & CU_GRAPH_USER_OBJECT_MOVE;
  if (moves && !process->user_references.release(object.get(), count)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  graph->user_references.retain(object, count);
  return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph_handle, CUuserObject handle, unsigned int count) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  Graph* graph = process->graphs.graph(graph_handle);
  auto object = find_object(*process, handle);
  if (!graph || !object || !valid_count(count)) return CUDA_ERROR_INVALID_VALUE;
  return graph->user_references.release(object.get(), count) ? CUDA_SUCCESS
                                                             : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGraphMemTrim(CUdevice ordinal) {
  WITH_PROCESS();
  int device;
  if (CUresult result = process->device_of(ordinal, &device)) return result;
  process->graph_memory.trim(device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice ordinal, CUgraphMem_attribute attribute,
                                      void* value) {
  WITH_PROCESS();
  int device;
  if (CUresult result = process->device_of(ordinal, &device)) return result;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  return process->graph_memory.get(device, attribute, static_cast<uint64_t*>(value));
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice ordinal, CUgraphMem_attribute attribute,
                                      void* value) {
  WITH_PROCESS();
  int device;
  if (CUresult result = process->device_of(ordinal, &device)) return result;
  // Only high watermarks can be set, and only to zero.
  if (!value || *static_cast<uint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
  return process->graph_memory.reset_high(device, attribute);
}
