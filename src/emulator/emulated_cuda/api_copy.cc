// Copies and fills: checked when they are submitted, done and timed on a stream.
#include <algorithm>

#include "emulator/emulated_cuda/api.h"
#include "emulator/emulated_cuda/gates.h"

using namespace lambent::emulated_cuda;

namespace {

// What the driver buffers at once; beyond that the caller waits until the copy is done.
constexpr size_t kMostStaged_bytes = 64 << 10;

// A small copy from pageable memory: its source may be changed once the call returns.
bool is_staged(const Copy& copy, const Stream& stream) {
  return !copy.from.pinned && copy.to.pinned && copy.shape.from_bytes() <= kMostStaged_bytes &&
         !stream.capturing;
}

CUresult copy(Process& process, const std::shared_ptr<Context>& context,
              const std::shared_ptr<Stream>& stream, const Copy& copy, bool synchronous) {
  if (!copy.permitted()) return CUDA_ERROR_INVALID_VALUE;
  if (synchronous) {
    if (CUresult result = refuse_if_capturing(process, *context, *stream)) return result;
  }
  if (!synchronous && is_staged(copy, *stream)) {
    CopyBatch staged{{copy}, {}};
    if (auto kept = offload(staged.copies[0])) {
      staged.kept.push_back(std::move(kept));
      return enqueue(process, context, stream, std::move(staged));
    }
  }
  CompletionPtr end;
  if (CUresult result = enqueue(process, context, stream, copy, &end)) return result;
  if (!end || (!synchronous && !copy.pageable())) return CUDA_SUCCESS;
  end->wait();
  return process.health_of(*context);
}

Shape line(size_t bytes) { return {bytes, 1, bytes, bytes}; }

CUresult host_to_device(CUdeviceptr to, const void* from, size_t bytes, CUstream handle,
                        bool synchronous) {
  WITH_STREAM(handle);
  if (bytes == 0) return CUDA_SUCCESS;
  Side target;
  if (!from || !resolve_device(*process, to, bytes, &target)) return CUDA_ERROR_INVALID_VALUE;
  return copy(*process, context, stream, {target, resolve_host(*process, from, bytes), line(bytes)},
              synchronous);
}

CUresult device_to_host(void* to, CUdeviceptr from, size_t bytes, CUstream handle,
                        bool synchronous) {
  WITH_STREAM(handle);
  if (bytes == 0) return CUDA_SUCCESS;
  Side source;
  if (!to || !resolve_device(*process, from, bytes, &source)) return CUDA_ERROR_INVALID_VALUE;
  return copy(*process, context, stream, {resolve_host(*process, to, bytes), source, line(bytes)},
              synchronous);
}

CUresult device_to_device(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle,
                          bool synchronous, bool peer = false) {
  WITH_STREAM(handle);
  if (bytes == 0) return CUDA_SUCCESS;
  Side source, target;
  if (!resolve_device(*process, to, bytes, &target)) return CUDA_ERROR_INVALID_VALUE;
  if (!resolve_device(*process, from, bytes, &source)) return CUDA_ERROR_INVALID_VALUE;
  return copy(*process, context, stream, {target, source, line(bytes), peer}, synchronous);
}

// The program names both contexts: the copy may go straight from device to device.
CUresult between_contexts(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                          CUcontext from_context, size_t bytes, CUstream stream) {
  WITH_PROCESS();
  if (!process->contexts.find(to_context) || !process->contexts.find(from_context)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  return device_to_device(to, from, bytes, stream, false, true);
}

// The same in the order of everything that the three contexts do.
CUresult between_contexts_in_order(CUdeviceptr to, CUcontext to_handle, CUdeviceptr from,
                                   CUcontext from_handle, size_t bytes) {
  WITH_CONTEXT();
  const auto target = process->contexts.find(to_handle);
  const auto source = process->contexts.find(from_handle);
  if (!target || !source) return CUDA_ERROR_INVALID_CONTEXT;
  const auto copy = [&] {
    return between_contexts(to, to_handle, from, from_handle, bytes, CU_STREAM_LEGACY);
  };
  return bytes == 0 ? copy() : submit_between(*process, *context, {target, source}, copy);
}

// Unified addressing: what an address is follows from the address. One that the driver does not
// know is pageable host memory.
CUresult unified(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle,
                 bool synchronous) {
  WITH_STREAM(handle);
  if (bytes == 0) return CUDA_SUCCESS;
  if (!to || !from) return CUDA_ERROR_INVALID_VALUE;
  auto side_of = [&](CUdeviceptr address, Side* side) {
    if (resolve_device(*process, address, bytes, side)) return true;
    if (process->memory.find(address, 1)) return false;  // runs over the end
    *side = resolve_host(*process, reinterpret_cast<void*>(address), bytes);
    return true;
  };
  Side source, target;
  if (!side_of(to, &target) || !side_of(from, &source)) return CUDA_ERROR_INVALID_VALUE;
  return copy(*process, context, stream, {target, source, line(bytes)}, synchronous);
}

CUresult copy_2d(const CUDA_MEMCPY2D* request, CUstream handle, bool synchronous) {
  WITH_STREAM(handle);
  if (!request) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMCPY2D& r = *request;
  CUDA_MEMCPY3D box{};
  box.srcXInBytes = r.srcXInBytes;
  box.srcY = r.srcY;
  box.srcMemoryType = r.srcMemoryType;
  box.srcHost = r.srcHost;
  box.srcDevice = r.srcDevice;
  box.srcArray = r.srcArray;
  box.srcPitch = r.srcPitch;
  box.dstXInBytes = r.dstXInBytes;
  box.dstY = r.dstY;
  box.dstMemoryType = r.dstMemoryType;
  box.dstHost = r.dstHost;
  box.dstDevice = r.dstDevice;
  box.dstArray = r.dstArray;
  box.dstPitch = r.dstPitch;
  box.WidthInBytes = r.WidthInBytes;
  box.Height = r.Height;
  box.Depth = 1;
  Copy made{};
  if (CUresult result = make_copy(*process, box, &made)) return result;
  if (made.shape.width == 0) return CUDA_SUCCESS;
  return copy(*process, context, stream, made, synchronous);
}

template <class Element>
CUresult fill(CUdeviceptr to, size_t pitch, Element value, size_t width, size_t height,
              CUstream handle, bool synchronous) {
  WITH_STREAM(handle);
  if (to % sizeof(Element)) return CUDA_ERROR_INVALID_VALUE;
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  size_t row_bytes = width * sizeof(Element);
  if (height > 1 && (pitch < row_bytes || pitch % sizeof(Element))) return CUDA_ERROR_INVALID_VALUE;
  Side target;
  size_t reach;
  bool absurd = width > SIZE_MAX / sizeof(Element) ||
                __builtin_mul_overflow(height - 1, pitch, &reach) ||
                __builtin_add_overflow(reach, row_bytes, &reach);
  if (absurd || !resolve_device(*process, to, reach, &target)) return CUDA_ERROR_INVALID_VALUE;
  if (target.access != Access::kReadWrite) return CUDA_ERROR_INVALID_VALUE;
  Fill fill{target, pitch, value, sizeof(Element), width, height};
  CompletionPtr end;
  if (CUresult result = enqueue(*process, context, stream, fill, &end)) return result;
  if (synchronous && end) end->wait();
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return host_to_device(to, from, bytes, CU_STREAM_LEGACY, true);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return host_to_device(to, from, bytes, stream, false);
}
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return device_to_host(to, from, bytes, CU_STREAM_LEGACY, true);
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return device_to_host(to, from, bytes, stream, false);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return device_to_device(to, from, bytes, CU_STREAM_LEGACY, false);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return device_to_device(to, from, bytes, stream, false);
}
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return unified(to, from, bytes, CU_STREAM_LEGACY, true);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return unified(to, from, bytes, stream, false);
}
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, size_t bytes) {
  return between_contexts_in_order(to, to_context, from, from_context, bytes);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t bytes, CUstream stream) {
  return between_contexts(to, to_context, from, from_context, bytes, stream);
}
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* request) {
  return copy_2d(request, CU_STREAM_LEGACY, true);
}
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* request) {
  return copy_2d(request, CU_STREAM_LEGACY, true);
}
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* request, CUstream stream) {
  return copy_2d(request, stream, false);
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return fill<unsigned char>(to, 0, value, count, 1, CU_STREAM_LEGACY, false);
}
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  return fill<unsigned short>(to, 0, value, count, 1, CU_STREAM_LEGACY, false);
}
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count) {
  return fill<unsigned int>(to, 0, value, count, 1, CU_STREAM_LEGACY, false);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return fill<unsigned char>(to, 0, value, count, 1, stream, false);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return fill<unsigned short>(to, 0, value, count, 1, stream, false);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
  return fill<unsigned int>(to, 0, value, count, 1, stream, false);
}
CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                         size_t height) {
  return fill<unsigned char>(to, pitch, value, width, height, CU_STREAM_LEGACY, false);
}
CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                          size_t height) {
  return fill<unsigned short>(to, pitch, value, width, height, CU_STREAM_LEGACY, false);
}
CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                          size_t height) {
  return fill<unsigned int>(to, pitch, value, width, height, CU_STREAM_LEGACY, false);
}
CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                           size_t height, CUstream stream) {
  return fill<unsigned char>(to, pitch, value, width, height, stream, false);
}
CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                            size_t height, CUstream stream) {
  return fill<unsigned short>(to, pitch, value, width, height, stream, false);
}
CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                            size_t height, CUstream stream) {
  return fill<unsigned int>(to, pitch, value, width, height, stream, false);
}
