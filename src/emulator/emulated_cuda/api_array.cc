// CUDA arrays: made, described, destroyed, and copied in one dimension.
#include <algorithm>

#include "emulator/emulated_cuda/api.h"
#include "emulator/emulated_cuda/arrays.h"

using namespace lambent::emulated_cuda;

namespace {

CUresult make(Process& process, Context& context, const CUDA_ARRAY3D_DESCRIPTOR& descriptor,
              size_t bytes, std::shared_ptr<Array>* out) {
  auto array = std::make_shared<Array>();
  array->descriptor = descriptor;
  if (CUresult result = check_array(descriptor, &array->element_bytes)) {
    if (result == CUDA_ERROR_NOT_SUPPORTED) {
      log_refusal("cuArray3DCreate", "sparse, planar and compressed arrays are not emulated");
    }
    return result;
  }
  CUdeviceptr base = 0;
  if (CUresult result = process.allocate_device(context, std::max(bytes, array->bytes()), &base)) {
    return result;
  }
  array->base = base;
  array->device = context.device;
  array->context = &context;
  *out = std::move(array);
  return CUDA_SUCCESS;
}

std::shared_ptr<Array> find(Process& process, CUarray handle) {
  return handle ? process.arrays.find(handle) : nullptr;
}

// The descriptor of a level: half the size, rounded down, of the one before.
CUDA_ARRAY3D_DESCRIPTOR level_of(CUDA_ARRAY3D_DESCRIPTOR descriptor, unsigned level) {
  auto halve = [level](size_t extent) {
    return extent ? std::max<size_t>(1, extent >> std::min(level, 63u)) : 0;
  };
  descriptor.Width = halve(descriptor.Width);
  descriptor.Height = halve(descriptor.Height);
  bool layered = descriptor.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
  if (!layered) descriptor.Depth = halve(descriptor.Depth);
  return descriptor;
}

// One line of bytes between an array, whose rows count as one after the other, and something else.
struct Line {
  CUarray array = nullptr;
  size_t offset = 0;
  CUmemorytype type = CU_MEMORYTYPE_ARRAY;
  const void* host = nullptr;
  CUdeviceptr device = 0;
};

bool resolve(Process& process, const Line& line, size_t bytes, Side* side) {
  if (line.type == CU_MEMORYTYPE_HOST) {
    *side = resolve_host(process, line.host, bytes);
    return line.host != nullptr;
  }
  if (line.type == CU_MEMORYTYPE_DEVICE) {
    return resolve_device(process, line.device, bytes, side);
  }
  auto array = find(process, line.array);
  if (!array || line.offset > array->bytes() || bytes > array->bytes() - line.offset) return false;
  *side = Side{};
  side->address = array->base + line.offset;
  side->device = side->pinned = true;
  side->device_index = array->device;
  return true;
}

CUresult copy_line(const Line& to, const Line& from, size_t bytes, CUstream handle,
                   bool synchronous) {
  WITH_STREAM(handle);
  for (const Line* line : {&to, &from}) {
    bool array = line->type == CU_MEMORYTYPE_ARRAY;
    if (array && !find(*process, line->array)) return CUDA_ERROR_INVALID_HANDLE;
  }
  if (bytes == 0) return CUDA_SUCCESS;
  Copy copy{};
  copy.shape = {bytes, 1, bytes, bytes};
  if (!resolve(*process, to, bytes, &copy.to) || !resolve(*process, from, bytes, &copy.from)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!copy.permitted()) return CUDA_ERROR_INVALID_VALUE;
  CompletionPtr end;
  if (CUresult result = enqueue(*process, context, stream, copy, &end)) return result;
  if (end && (synchronous || copy.pageable())) end->wait();
  return CUDA_SUCCESS;
}

Line in_array(CUarray array, size_t offset) { return {array, offset}; }
// Kernels and copies under way may use its memory, in the context that is current or in its own.
void wait_for_users(Process& process, Context& current, const Array& array) {
  synchronize(current);
  if (auto owner = process.contexts.find(array.context)) {
    synchronize_with_green(process, owner->root ? *owner->root : *owner);
  }
}

Line on_host(const void* host) { return {nullptr, 0, CU_MEMORYTYPE_HOST, host}; }
Line on_device(CUdeviceptr device) { return {nullptr, 0, CU_MEMORYTYPE_DEVICE, nullptr, device}; }

}  // namespace

CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  WITH_CONTEXT();
  if (!out || !descriptor) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Array> array;
  if (CUresult result = make(*process, *context, *descriptor, 0, &array)) return result;
  *out = reinterpret_cast<CUarray>(process->arrays.insert(std::move(array)));
  return CUDA_SUCCESS;
}

CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* descriptor) {
  if (!descriptor) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR flat{descriptor->Width,  descriptor->Height,      0,
                               descriptor->Format, descriptor->NumChannels, 0};
  return cuArray3DCreate_v2(out, &flat);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* descriptor, CUarray handle) {
  WITH_CONTEXT();
  auto array = find(*process, handle);
  if (!descriptor) return CUDA_ERROR_INVALID_VALUE;
  if (!array) return CUDA_ERROR_INVALID_HANDLE;
  *descriptor = array->descriptor;
  return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* descriptor, CUarray handle) {
  CUDA_ARRAY3D_DESCRIPTOR whole;
  if (!descriptor) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = cuArray3DGetDescriptor_v2(&whole, handle)) return result;
  *descriptor = {whole.Width, whole.Height, whole.Format, whole.NumChannels};
  return CUDA_SUCCESS;
}

CUresult cuArrayDestroy(CUarray handle) {
  WITH_CONTEXT();
  auto array = find(*process, handle);
  if (!array) return CUDA_ERROR_INVALID_HANDLE;
  if (array->owner) return CUDA_ERROR_INVALID_VALUE;  // a level goes with its mipmapped array
  wait_for_users(*process, *context, *array);
  if (!process->arrays.remove(handle)) return CUDA_ERROR_INVALID_HANDLE;
  process->free_device_memory(array->base);
  return CUDA_SUCCESS;
}

// Only arrays whose memory is mapped later have requirements to tell, and there are none here; nor
// are there planes, or sparse arrays.
CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* requirements, CUarray handle,
                                      CUdevice device) {
  WITH_PROCESS();
  int index;
  if (CUresult result = process->device_of(device, &index)) return result;
  if (!find(*process, handle)) return CUDA_ERROR_INVALID_HANDLE;
  (void)requirements;
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuArrayGetPlane(CUarray* plane, CUarray handle, unsigned int) {
  WITH_CONTEXT();
  if (!plane) return CUDA_ERROR_INVALID_VALUE;
  return find(*process, handle) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* descriptor,
                                unsigned int levels) {
  WITH_CONTEXT();
  if (!out || !descriptor || levels == 0) return CUDA_ERROR_INVALID_VALUE;
  size_t element_bytes = 0;
  if (CUresult result = check_array(*descriptor, &element_bytes)) return result;
  size_t largest = std::max({descriptor->Width, descriptor->Height, descriptor->Depth});
  unsigned most = 1;
  while (largest >>= 1) most++;
  levels = std::min(levels, most);
  auto mipmapped = std::make_shared<MipmappedArray>();
  size_t total = 0;
  for (unsigned level = 0; level < levels; level++) {
    auto array = std::make_shared<Array>();
    array->descriptor = level_of(*descriptor, level);
    array->element_bytes = element_bytes;
    array->base = total;
    array->device = context->device;
    array->context = context.get();
    total += (array->bytes() + 511) / 512 * 512;
    mipmapped->levels.push_back(std::move(array));
  }
  if (CUresult result = make(*process, *context, *descriptor, total, &mipmapped->whole)) {
    return result;
  }
  for (auto& array : mipmapped->levels) {
    array->base += mipmapped->whole->base;
    array->owner = mipmapped->whole;
    process->arrays.insert(array);
  }
  *out = reinterpret_cast<CUmipmappedArray>(process->mipmapped_arrays.insert(std::move(mipmapped)));
  return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray handle, unsigned int level) {
  WITH_CONTEXT();
  auto mipmapped = process->mipmapped_arrays.find(handle);
  if (!mipmapped) return CUDA_ERROR_INVALID_HANDLE;
  if (!out || level >= mipmapped->levels.size()) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUarray>(mipmapped->levels[level].get());
  return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* requirements,
                                               CUmipmappedArray handle, CUdevice device) {
  WITH_PROCESS();
  int index;
  if (CUresult result = process->device_of(device, &index)) return result;
  if (!process->mipmapped_arrays.find(handle)) return CUDA_ERROR_INVALID_HANDLE;
  (void)requirements;
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle) {
  WITH_CONTEXT();
  auto mipmapped = process->mipmapped_arrays.find(handle);
  if (!mipmapped) return CUDA_ERROR_INVALID_HANDLE;
  wait_for_users(*process, *context, *mipmapped->whole);
  if (!process->mipmapped_arrays.remove(handle)) return CUDA_ERROR_INVALID_HANDLE;
  for (const auto& level : mipmapped->levels) process->arrays.remove(level.get());
  process->free_device_memory(mipmapped->whole->base);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t bytes) {
  return copy_line(in_array(to, offset), on_device(from), bytes, CU_STREAM_LEGACY, false);
}
CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t bytes) {
  return copy_line(on_device(to), in_array(from, offset), bytes, CU_STREAM_LEGACY, false);
}
CUresult cuMemcpyHtoA_v2(CUarray to, size_t offset, const void* from, size_t bytes) {
  return copy_line(in_array(to, offset), on_host(from), bytes, CU_STREAM_LEGACY, true);
}
CUresult cuMemcpyAtoH_v2(void* to, CUarray from, size_t offset, size_t bytes) {
  return copy_line(on_host(to), in_array(from, offset), bytes, CU_STREAM_LEGACY, true);
}
CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset,
                         size_t bytes) {
  return copy_line(in_array(to, to_offset), in_array(from, from_offset), bytes, CU_STREAM_LEGACY,
                   false);
}
CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void* from, size_t bytes,
                              CUstream stream) {
  return copy_line(in_array(to, offset), on_host(from), bytes, stream, false);
}
CUresult cuMemcpyAtoHAsync_v2(void* to, CUarray from, size_t offset, size_t bytes,
                              CUstream stream) {
  return copy_line(on_host(to), in_array(from, offset), bytes, stream, false);
}
