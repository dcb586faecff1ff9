// Device memory of the client, and page-locked host memory, which is the process's own: the
// executor never sees it.
#include <cstdlib>

#include "gpu/forward_client/api.h"
#include "gpu/forward_client/captures.h"

using namespace lambent::forward_client;

namespace {

constexpr size_t kPitchStep = 512;
constexpr size_t kPage = 4096;

CUresult current_number(uint64_t* number) {
  WITH_CONTEXT();
  *number = context->number;
  return CUDA_SUCCESS;
}

// Remembers what the executor gave.
CUresult keep(CUdeviceptr* address, uint64_t given, size_t bytes, uint64_t context) {
  const StateLock lock;
  const Range range = {given, bytes, context, 0, 0, ++state().last_id};
  if (!state().device_ranges.add(range)) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = given;
  return CUDA_SUCCESS;
}

// All work ends that may use memory of the host, whichever context it is of. What fails in it is
// told by the calls that ask for it.
void synchronize_contexts() {
  uint64_t number = 0;
  for (;;) {
    {
      const StateLock lock;
      number = State::next_context(number);
    }
    if (number == 0) return;
    ask(make_call(CallCode::kSynchronizeContext, number));
  }
}

CUresult refuse_if_unsafe() {
  const StateLock lock;
  return refuse_unsafe_call();
}

// No memory is a graph's own: what would be taken or given back in the order of a capture is not.
CUresult refuse_in_capture(uint64_t stream) {
  WITH_CONTEXT();
  return refuse_if_capturing(stream, *context);
}

// Takes the range that begins there out of the accounting.
CUresult take_out(CUdeviceptr address) {
  const StateLock lock;
  const Range* range = state().device_ranges.find(address);
  if (range == nullptr || range->begin != address || range->owner != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (range->flags == kOpenedRange) return CUDA_ERROR_INVALID_VALUE;  // cuIpcCloseMemHandle
  state().device_ranges.erase(address);
  return CUDA_SUCCESS;
}

CUresult host_alloc(void** pointer, size_t bytes, unsigned flags) {
  if (const CUresult result = require_context()) return result;
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (flags > 7) return CUDA_ERROR_INVALID_VALUE;
  void* memory = nullptr;
  if (bytes > SIZE_MAX - kPage || posix_memalign(&memory, kPage, bytes) != 0) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const StateLock lock;
  const Range range = {reinterpret_cast<uint64_t>(memory), bytes, 0, 1, flags, ++state().last_id};
  if (!state().host_ranges.add(range)) {
    std::free(memory);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *pointer = memory;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  if (const CUresult result = require_context()) return result;
  if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t values[2] = {};
  const CUresult result = ask(make_call(CallCode::kMemoryInfo), values, 2);
  *free = values[0];
  *total = values[1];
  return result;
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  uint64_t context = 0, given = 0;
  if (const CUresult result = current_number(&context)) return result;
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = refuse_if_unsafe()) return result;
  const CUresult result = ask(make_call(CallCode::kAllocate, context, bytes), &given, 1);
  return result != CUDA_SUCCESS ? result : keep(address, given, bytes, context);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                            unsigned int element) {
  if (address == nullptr || pitch == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  if (element != 4 && element != 8 && element != 16) return CUDA_ERROR_INVALID_VALUE;
  if (width > SIZE_MAX - kPitchStep) return CUDA_ERROR_INVALID_VALUE;
  const size_t row = (width + kPitchStep - 1) / kPitchStep * kPitchStep;
  size_t bytes = 0;
  if (__builtin_mul_overflow(row, height, &bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = cuMemAlloc_v2(address, bytes);
  if (result == CUDA_SUCCESS) *pitch = row;
  return result;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  if (const CUresult result = connection_state()) return result;
  if (address == 0) return CUDA_SUCCESS;
  if (const CUresult result = refuse_if_unsafe()) return result;
  if (const CUresult result = take_out(address)) return result;
  return ask(make_call(CallCode::kFree, address));
}

CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream) {
  uint64_t context = 0, number = 0, given = 0;
  if (const CUresult result = current_number(&context)) return result;
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  if (const CUresult result = refuse_in_capture(number)) return result;
  const CUresult result =
      ask(make_call(CallCode::kAllocateAsync, context, bytes, number), &given, 1);
  return result != CUDA_SUCCESS ? result : keep(address, given, bytes, context);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  if (const CUresult result = require_context()) return result;
  if (address == 0) return CUDA_SUCCESS;
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  if (const CUresult result = refuse_in_capture(number)) return result;
  if (const CUresult result = take_out(address)) return result;
  return send(make_call(CallCode::kFreeAsync, address, number));
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  WITH_CONTEXT();
  const Range* range = state().device_ranges.find(address);
  if (range == nullptr) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = range->begin;
  if (size != nullptr) *size = range->bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemAllocHost_v2(void** pointer, size_t bytes) { return host_alloc(pointer, bytes, 0); }

CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
  return host_alloc(pointer, bytes, flags);
}

CUresult cuMemFreeHost(void* pointer) {
  if (const CUresult result = connection_state()) return result;
  if (pointer == nullptr) return CUDA_SUCCESS;
  synchronize_contexts();
  {
    const StateLock lock;
    const auto address = reinterpret_cast<uint64_t>(pointer);
    const Range* range = state().host_ranges.find(address);
    if (range == nullptr || range->begin != address || range->owner == 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    state().host_ranges.erase(address);
  }
  std::free(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int* flags, void* pointer) {
  WITH_CONTEXT();
  const Range* range = state().host_ranges.find(reinterpret_cast<uint64_t>(pointer));
  if (flags == nullptr || range == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = range->flags;
  return CUDA_SUCCESS;
}

// There is no way to it from the device, which is another process's.
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr*, void*, unsigned int) {
  if (const CUresult result = require_context()) return result;
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned int flags) {
  WITH_CONTEXT();
  if (pointer == nullptr || bytes == 0 || flags > 15) return CUDA_ERROR_INVALID_VALUE;
  const auto address = reinterpret_cast<uint64_t>(pointer);
  if (bytes > UINT64_MAX - address) return CUDA_ERROR_INVALID_VALUE;
  if (state().host_ranges.overlaps(address, bytes)) {
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  const Range range = {address, bytes, 0, 0, flags, ++state().last_id};
  return state().host_ranges.add(range) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemHostUnregister(void* pointer) {
  if (const CUresult result = require_context()) return result;
  synchronize_contexts();
  WITH_CONTEXT();
  const auto address = reinterpret_cast<uint64_t>(pointer);
  const Range* range = state().host_ranges.find(address);
  if (range == nullptr || range->begin != address || range->owner != 0) {
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  state().host_ranges.erase(address);
  return CUDA_SUCCESS;
}

namespace {

template <typename Value>
CUresult give(void* to, Value value) {
  *static_cast<Value*>(to) = value;
  return CUDA_SUCCESS;
}

CUresult pointer_attribute(void* value, CUpointer_attribute attribute, CUdeviceptr address)
    REQUIRES(state_mutex) {
  const Range* device_range = state().device_ranges.find(address);
  const Range* host_range = state().host_ranges.find(address);
  const Range* range = device_range != nullptr ? device_range : host_range;
  if (range == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool on_device = device_range != nullptr;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: {
      Context* context = nullptr;
      if (const CUresult result = current_context(&context)) return result;
      return give<CUcontext>(value, handle_of(context));
    }
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give<unsigned>(value, on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return on_device ? give<CUdeviceptr>(value, address) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (on_device) return CUDA_ERROR_INVALID_VALUE;
      return give<void*>(value, reinterpret_cast<void*>(address));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return give<int>(value, 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return give<unsigned long long>(value, range->id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give<unsigned>(value, 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give<int>(value, 0);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return give<int>(value, on_device && range->owner == 0 ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give<CUdeviceptr>(value, range->begin);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give<size_t>(value, range->bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give<int>(value, on_device ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return give<unsigned long long>(value, 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return give<unsigned>(value, 3);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return give<void*>(value, nullptr);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  WITH_CONTEXT();
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return pointer_attribute(value, attribute, address);
}

// What is not known of an address is 0, as the driver says it.
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** values,
                                CUdeviceptr address) {
  WITH_CONTEXT();
  if (count == 0 || attributes == nullptr || values == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (pointer_attribute(values[i], attributes[i], address) == CUDA_SUCCESS) continue;
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        give<int>(values[i], -2);
        break;
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      case CU_POINTER_ATTRIBUTE_MAPPED:
        give<unsigned>(values[i], 0);
        break;
      default:
        give<uint64_t>(values[i], 0);
    }
  }
  return CUDA_SUCCESS;
}
