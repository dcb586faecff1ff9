// Copies and fills. What comes from the host is taken when the call returns, inline if it is small,
// else in chunks of the shared memory; what goes to the host is there when the call returns. So is
// what comes from the host, if the call is not an Async one.
#include <cstring>

#include "gpu/forward_client/api.h"
#include "gpu/forward_client/captures.h"
#include "gpu/forward_client/copies.h"
#include "gpu/forward_client/graph_parameters.h"

using namespace lambent::forward_client;

namespace {

using lambent::forward_ring::kChunkBytes;

// Up to here a copy through the ring costs less than a chunk and its completion.
constexpr size_t kInlineCopy = 16 << 10;
static_assert(kInlineCopy <= lambent::forward_ring::kMostInlineBytes);

// When a call that copies from the host returns. Copies within the device, and fills, never wait.
enum class Returns { kWhenQueued, kWhenDone };

bool on_device(CUdeviceptr address, size_t bytes) {
  const StateLock lock;
  return state().device_ranges.contains(address, bytes);
}

bool begins_on_device(CUdeviceptr address) {
  const StateLock lock;
  return state().device_ranges.find(address) != nullptr;
}

CUresult to_device(CUdeviceptr to, const char* from, size_t bytes, uint64_t stream) {
  if (bytes <= kInlineCopy) {
    return send(make_call(CallCode::kCopyInline, stream, to), {from, bytes});
  }
  for (size_t at = 0; at < bytes;) {
    const size_t part = bytes - at < kChunkBytes ? bytes - at : kChunkBytes;
    Chunk chunk;
    if (const CUresult result = take_chunk(&chunk)) return result;
    std::memcpy(chunk.bytes, from + at, part);
    const Call call = make_call(CallCode::kCopyIn, stream, to + at, chunk.number, part);
    if (const CUresult result = send_with_chunk(call, chunk)) return result;
    at += part;
  }
  return CUDA_SUCCESS;
}

CUresult to_host(char* to, CUdeviceptr from, size_t bytes, uint64_t stream) {
  for (size_t at = 0; at < bytes;) {
    const size_t part = bytes - at < kChunkBytes ? bytes - at : kChunkBytes;
    Chunk chunk;
    if (const CUresult result = take_chunk(&chunk)) return result;
    const Call call = make_call(CallCode::kCopyOut, stream, from + at, chunk.number, part);
    const CUresult result = ask_with_chunk(call, chunk);
    if (result == CUDA_SUCCESS) std::memcpy(to + at, chunk.bytes, part);
    give_back(chunk);
    if (result != CUDA_SUCCESS) return result;
    at += part;
  }
  return CUDA_SUCCESS;
}

// If the stream captures, the copy becomes a node instead.
CUresult capture_copy(uint64_t stream, const CUDA_MEMCPY3D& request, Returns returns,
                      bool* captured) {
  *captured = false;
  if (!captures_are_open()) return CUDA_SUCCESS;
  WITH_CONTEXT();
  CapturePoint* point = nullptr;
  if (const CUresult result = find_point(stream, *context, &point)) return result;
  if (point == nullptr) return CUDA_SUCCESS;
  *captured = true;
  if (returns == Returns::kWhenDone) {
    return invalidate(*point, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  return capture_node(*point, as_node(request));
}

#define OR_CAPTURE(stream, request, returns)                                           \
  {                                                                                    \
    bool captured_ = false;                                                            \
    const CUresult result_ = capture_copy((stream), (request), (returns), &captured_); \
    if (result_ != CUDA_SUCCESS || captured_) return result_;                          \
  }

// Other streams may read what was copied as soon as a call that waits has returned.
CUresult wait_until(Returns returns, uint64_t stream) {
  if (returns == Returns::kWhenQueued) return CUDA_SUCCESS;
  return ask(make_call(CallCode::kSynchronizeStream, stream));
}

CUresult copy_in(CUdeviceptr to, const void* from, size_t bytes, CUstream stream, Returns returns) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  if (bytes == 0) return CUDA_SUCCESS;
  if (from == nullptr || !on_device(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  OR_CAPTURE(number, line(nullptr, to, from, 0, bytes), returns);
  const CUresult result = to_device(to, static_cast<const char*>(from), bytes, number);
  return result == CUDA_SUCCESS ? wait_until(returns, number) : result;
}

CUresult copy_out(void* to, CUdeviceptr from, size_t bytes, CUstream stream, Returns returns) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  if (bytes == 0) return CUDA_SUCCESS;
  if (to == nullptr || !on_device(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  OR_CAPTURE(number, line(to, 0, nullptr, from, bytes), returns);
  return to_host(static_cast<char*>(to), from, bytes, number);
}

CUresult copy_within(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream,
                     Returns returns) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  if (bytes == 0) return CUDA_SUCCESS;
  if (!on_device(to, bytes) || !on_device(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  OR_CAPTURE(number, line(nullptr, to, nullptr, from, bytes), returns);
  return send(make_call(CallCode::kCopyRows, number, to, bytes, from, bytes, bytes, 1));
}

// From anywhere to anywhere; host memory that we do not know is the program's.
CUresult copy_any(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream,
                  Returns returns) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  if (bytes == 0) return CUDA_SUCCESS;
  const bool to_is_device = begins_on_device(to), from_is_device = begins_on_device(from);
  if (to_is_device && from_is_device) return copy_within(to, from, bytes, stream, returns);
  if (to_is_device) {
    return copy_in(to, reinterpret_cast<const void*>(from), bytes, stream, returns);
  }
  if (from_is_device) return copy_out(reinterpret_cast<void*>(to), from, bytes, stream, returns);
  if (to == 0 || from == 0) return CUDA_ERROR_INVALID_VALUE;
  OR_CAPTURE(number,
             line(reinterpret_cast<void*>(to), 0, reinterpret_cast<const void*>(from), 0, bytes),
             returns);
  // Between host and host, in the order of the stream.
  if (const CUresult result = ask(make_call(CallCode::kSynchronizeStream, number))) return result;
  std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return CUDA_SUCCESS;
}

// One side of a two-dimensional copy.
struct Side {
  bool device = false;
  CUdeviceptr address = 0;
  size_t pitch = 0;
};

CUresult find_side(CUmemorytype type, const void* host, CUdeviceptr address, size_t x, size_t y,
                   size_t pitch, size_t width, size_t height, Side* side) {
  if (type == CU_MEMORYTYPE_ARRAY) return CUDA_ERROR_NOT_SUPPORTED;
  const bool is_host = type == CU_MEMORYTYPE_HOST;
  if (!is_host && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  side->address = is_host ? reinterpret_cast<CUdeviceptr>(host) : address;
  side->pitch = pitch == 0 ? width + x : pitch;
  if (side->address == 0) return CUDA_ERROR_INVALID_VALUE;
  if (height > 1 && side->pitch < x + width) return CUDA_ERROR_INVALID_VALUE;
  side->device = type == CU_MEMORYTYPE_DEVICE ||
                 (type == CU_MEMORYTYPE_UNIFIED && begins_on_device(side->address));
  size_t offset = 0, rows = 0;
  if (__builtin_mul_overflow(y, side->pitch, &offset)) return CUDA_ERROR_INVALID_VALUE;
  side->address += offset + x;
  if (__builtin_mul_overflow(height - 1, side->pitch, &rows)) return CUDA_ERROR_INVALID_VALUE;
  if (side->device && !on_device(side->address, rows + width)) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult copy_rows(const CUDA_MEMCPY2D* request, CUstream stream, Returns returns) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  if (request == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMCPY2D& r = *request;
  if (r.WidthInBytes == 0 || r.Height == 0) return CUDA_SUCCESS;
  OR_CAPTURE(number, deepened(r), returns);
  Side from, to;
  if (const CUresult result = find_side(r.srcMemoryType, r.srcHost, r.srcDevice, r.srcXInBytes,
                                        r.srcY, r.srcPitch, r.WidthInBytes, r.Height, &from)) {
    return result;
  }
  if (const CUresult result = find_side(r.dstMemoryType, r.dstHost, r.dstDevice, r.dstXInBytes,
                                        r.dstY, r.dstPitch, r.WidthInBytes, r.Height, &to)) {
    return result;
  }
  if (to.device && from.device) {
    return send(make_call(CallCode::kCopyRows, number, to.address, to.pitch, from.address,
                          from.pitch, r.WidthInBytes, r.Height));
  }
  if (!to.device && !from.device) {
    if (const CUresult result = ask(make_call(CallCode::kSynchronizeStream, number))) {
      return result;
    }
  }
  for (size_t row = 0; row < r.Height; ++row) {
    const CUdeviceptr row_to = to.address + row * to.pitch;
    const CUdeviceptr row_from = from.address + row * from.pitch;
    CUresult result = CUDA_SUCCESS;
    if (to.device) {
      result = to_device(row_to, reinterpret_cast<const char*>(row_from), r.WidthInBytes, number);
    } else if (from.device) {
      result = to_host(reinterpret_cast<char*>(row_to), row_from, r.WidthInBytes, number);
    } else {
      std::memmove(reinterpret_cast<void*>(row_to), reinterpret_cast<const void*>(row_from),
                   r.WidthInBytes);
    }
    if (result != CUDA_SUCCESS) return result;
  }
  return to.device ? wait_until(returns, number) : CUDA_SUCCESS;
}

CUresult fill(CUdeviceptr to, size_t pitch, uint64_t value, size_t element, size_t width,
              size_t height, CUstream stream) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  size_t row = 0, all = 0;
  if (__builtin_mul_overflow(width, element, &row)) return CUDA_ERROR_INVALID_VALUE;
  if (__builtin_mul_overflow(pitch, height - 1, &all)) return CUDA_ERROR_INVALID_VALUE;
  if (height > 1 && pitch < row) return CUDA_ERROR_INVALID_VALUE;
  if (to % element != 0 || (height > 1 && pitch % element != 0)) return CUDA_ERROR_INVALID_VALUE;
  if (!on_device(to, all + row)) return CUDA_ERROR_INVALID_VALUE;
  if (captures_are_open()) {
    WITH_CONTEXT();
    CapturePoint* point = nullptr;
    if (const CUresult result = find_point(number, *context, &point)) return result;
    CUgraphNodeParams what{};
    what.type = CU_GRAPH_NODE_TYPE_MEMSET;
    what.memset = {
        to,     pitch,  static_cast<unsigned>(value), static_cast<unsigned>(element), width,
        height, nullptr};
    if (point != nullptr) return capture_node(*point, what);
  }
  return send(make_call(CallCode::kFill, number, to, pitch, value, element, width, height));
}

}  // namespace

namespace lambent::forward_client {

CUresult copy_now(const RowCopy& copy, uint64_t stream) {
  for (uint64_t row = 0; row < copy.height; ++row) {
    const uint64_t to = copy.to + row * copy.to_pitch, from = copy.from + row * copy.from_pitch;
    CUresult result = CUDA_SUCCESS;
    if (copy.to_device) {
      result = to_device(to, reinterpret_cast<const char*>(from), copy.width, stream);
    } else if (copy.from_device) {
      result = to_host(reinterpret_cast<char*>(to), from, copy.width, stream);
    } else {
      std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), copy.width);
    }
    if (result != CUDA_SUCCESS) return result;
  }
  return copy.to_device ? ask(make_call(CallCode::kSynchronizeStream, stream)) : CUDA_SUCCESS;
}

}  // namespace lambent::forward_client

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_any(to, from, bytes, nullptr, Returns::kWhenDone);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_any(to, from, bytes, stream, Returns::kWhenQueued);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return copy_in(to, from, bytes, nullptr, Returns::kWhenDone);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return copy_in(to, from, bytes, stream, Returns::kWhenQueued);
}
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return copy_out(to, from, bytes, nullptr, Returns::kWhenDone);
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_out(to, from, bytes, stream, Returns::kWhenQueued);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_within(to, from, bytes, nullptr, Returns::kWhenDone);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_within(to, from, bytes, stream, Returns::kWhenQueued);
}
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes) {
  return copy_within(to, from, bytes, nullptr, Returns::kWhenDone);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes,
                           CUstream stream) {
  return copy_within(to, from, bytes, stream, Returns::kWhenQueued);
}
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* request) {
  return copy_rows(request, nullptr, Returns::kWhenDone);
}
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* request) {
  return copy_rows(request, nullptr, Returns::kWhenDone);
}
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* request, CUstream stream) {
  return copy_rows(request, stream, Returns::kWhenQueued);
}

VARIANT cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_any(to, from, bytes, CU_STREAM_PER_THREAD, Returns::kWhenDone);
}
VARIANT cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void* from, size_t bytes) {
  return copy_in(to, from, bytes, CU_STREAM_PER_THREAD, Returns::kWhenDone);
}
VARIANT cuMemcpyDtoH_v2_ptds(void* to, CUdeviceptr from, size_t bytes) {
  return copy_out(to, from, bytes, CU_STREAM_PER_THREAD, Returns::kWhenDone);
}
VARIANT cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_within(to, from, bytes, CU_STREAM_PER_THREAD, Returns::kWhenDone);
}
VARIANT cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes) {
  return copy_within(to, from, bytes, CU_STREAM_PER_THREAD, Returns::kWhenDone);
}
VARIANT cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D* request) {
  return copy_rows(request, CU_STREAM_PER_THREAD, Returns::kWhenDone);
}
VARIANT cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D* request) {
  return copy_rows(request, CU_STREAM_PER_THREAD, Returns::kWhenDone);
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return fill(to, 0, value, 1, count, 1, nullptr);
}
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  return fill(to, 0, value, 2, count, 1, nullptr);
}
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count) {
  return fill(to, 0, value, 4, count, 1, nullptr);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return fill(to, 0, value, 1, count, 1, stream);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return fill(to, 0, value, 2, count, 1, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
  return fill(to, 0, value, 4, count, 1, stream);
}
CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                         size_t height) {
  return fill(to, pitch, value, 1, width, height, nullptr);
}
CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                          size_t height) {
  return fill(to, pitch, value, 2, width, height, nullptr);
}
CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                          size_t height) {
  return fill(to, pitch, value, 4, width, height, nullptr);
}
CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                           size_t height, CUstream stream) {
  return fill(to, pitch, value, 1, width, height, stream);
}
CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                            size_t height, CUstream stream) {
  return fill(to, pitch, value, 2, width, height, stream);
}
CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                            size_t height, CUstream stream) {
  return fill(to, pitch, value, 4, width, height, stream);
}
