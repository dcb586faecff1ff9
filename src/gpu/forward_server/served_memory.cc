// ServedProcess: memory and what is copied and filled.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "gpu/forward_server/device_work.h"
#include "gpu/forward_server/served_process.h"

namespace lambent::forward_server {
namespace {

// The driver hands out no less, and nothing smaller is counted.
constexpr uint64_t kLeastBytes = 512;
constexpr size_t kMostPendingFrees = 1 << 16;  // with all else that waits

}  // namespace

void ServedProcess::memory_info(const Call& call) {
  const uint64_t limit = memory_->limit().count, used = memory_->used().count;
  answer(call, CUDA_SUCCESS, {limit - std::min(used, limit), limit});
}

// In the order of a stream or not, the memory comes from a pool of the driver's: giving it back
// then waits for nobody else's work, as cuMemFree would. It is zeroed, for the driver zeroes
// nothing that stayed within one process.
void ServedProcess::allocate(const Call& call, bool in_order) {
  const uint64_t context = call.arguments[0], bytes = call.arguments[1];
  CUstream stream = memory_stream_;
  if (contexts_.count(context) == 0) return answer(call, CUDA_ERROR_INVALID_CONTEXT);
  if (bytes == 0) return answer(call, CUDA_ERROR_INVALID_VALUE);
  if (in_order) {
    const CUresult result = streams_.use(call.arguments[2], &stream);
    if (result != CUDA_SUCCESS) return answer(call, result);
  }
  if (bytes > memory_->limit().count) return answer(call, CUDA_ERROR_OUT_OF_MEMORY);
  const uint64_t counted = (bytes + kLeastBytes - 1) / kLeastBytes * kLeastBytes;
  if (counted > memory_->limit().count - std::min(memory_->used(), memory_->limit()).count &&
      frees_to_come_ > 0) {
    // A stream's own order lets it have what was freed before; the count is behind.
    waiting_allocations_.push_back(call);
    return;
  }
  if (!memory_->take(Bytes(counted))) return answer(call, CUDA_ERROR_OUT_OF_MEMORY);
  CUdeviceptr address = 0;
  CUresult result = pool_->allocate(&address, counted, stream);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    // What was freed may not have come back yet: nothing else is on this stream.
    driver_->stream_synchronize(free_stream_);
    result = pool_->allocate(&address, counted, stream);
  }
  if (result == CUDA_SUCCESS) {
    result = driver_->memset_d8_async(address, 0, counted, stream);
    if (result == CUDA_SUCCESS && !in_order) result = driver_->stream_synchronize(stream);
    if (result != CUDA_SUCCESS) driver_->mem_free_async(address, stream);
  }
  if (result != CUDA_SUCCESS) {
    memory_->cancel(Bytes(counted));
    return answer(call, result);
  }
  memory_->keep(Bytes(counted));
  ranges_.add(address, {bytes, counted, context, 0});
  answer(call, CUDA_SUCCESS, {address});
}

void ServedProcess::forget(CUdeviceptr address) {
  if (const AddressRange* range = ranges_.find(address)) {
    memory_->give_back(Bytes(range->counted_bytes));
    ranges_.erase(address);
  }
}

// As the driver's, it comes back when the client's work is over, which might use the memory.
void ServedProcess::free(const Call& call) {
  const CUdeviceptr address = call.arguments[0];
  const AddressRange* range = ranges_.find(address);
  if (range == nullptr || range->module != 0) return answer(call, CUDA_ERROR_INVALID_VALUE);
  const Bytes counted(range->counted_bytes);
  ranges_.erase(address);
  std::vector<CUstream> busy;
  for (CUstream stream : streams_.all()) {
    if (driver_->stream_query(stream) != CUDA_SUCCESS) busy.push_back(stream);
  }
  const auto give_back = [this, call, address, counted](CUresult result) {
    if (result == CUDA_SUCCESS) result = driver_->mem_free_async(address, free_stream_);
    memory_->give_back(counted);
    answer(call, result);
  };
  if (busy.empty()) return give_back(CUDA_SUCCESS);
  completions_->when_all_done(busy, give_back);
}

CUresult ServedProcess::free_in_order(const Call& call) {
  // All else that waits is bounded by itself: by slots, by chunks, by words that hold streams.
  if (completions_->size() >= kMostPendingFrees) return CUDA_ERROR_OUT_OF_MEMORY;
  const AddressRange* range = ranges_.find(call.arguments[0]);
  if (range == nullptr || range->module != 0) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = nullptr;
  CUresult result = streams_.use(call.arguments[1], &stream);
  if (result == CUDA_SUCCESS) result = driver_->mem_free_async(call.arguments[0], stream);
  if (result != CUDA_SUCCESS) return result;
  // The memory is the client's until the stream has come so far.
  const Bytes counted(range->counted_bytes);
  ranges_.erase(call.arguments[0]);
  ++frees_to_come_;
  completions_->when_done(stream, [this, counted](CUresult) { freed_in_order(counted); });
  return CUDA_SUCCESS;
}

void ServedProcess::freed_in_order(Bytes counted) {
  memory_->give_back(counted);
  --frees_to_come_;
  for (const Call& call : std::exchange(waiting_allocations_, {})) {
    allocate(call, static_cast<forward_ring::CallCode>(call.code) ==
                       forward_ring::CallCode::kAllocateAsync);
  }
}

CUresult ServedProcess::copy_inline(const Call& call) {
  const size_t bytes = data_bytes(call);
  if (!ranges_.contains(call.arguments[1], bytes)) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = nullptr;
  if (const CUresult result = streams_.use(call.arguments[0], &stream)) return result;
  // So small a source may change as soon as the driver has returned: it is not page-locked.
  return driver_->memcpy_h_to_d_async(call.arguments[1], data(), bytes, stream);
}

CUresult ServedProcess::lock_pages() {
  if (tried_to_lock_) return CUDA_SUCCESS;
  tried_to_lock_ = true;
  // Without it, copies are right but wait. That is no reason to fail.
  pages_locked_ =
      driver_->mem_host_register(pages_.chunk_bytes, sizeof(pages_.chunk_bytes), 0) == CUDA_SUCCESS;
  return CUDA_SUCCESS;
}

void ServedProcess::copy_chunk(const Call& call, bool to_device) {
  const auto chunk = static_cast<uint32_t>(call.arguments[2]);
  const CUdeviceptr address = call.arguments[1];
  const uint64_t bytes = call.arguments[3];
  const auto fail = [&](CUresult result) {
    if (to_device) note(result);
    let_chunk_go(chunk, result);
  };
  if (bytes > forward_ring::kChunkBytes) return fail(CUDA_ERROR_INVALID_VALUE);
  if (!ranges_.contains(address, bytes)) return fail(CUDA_ERROR_INVALID_VALUE);
  CUstream stream = nullptr;
  if (const CUresult result = streams_.use(call.arguments[0], &stream)) return fail(result);
  lock_pages();
  char* host = pages_.chunk_bytes[chunk];
  const CUresult result = to_device ? driver_->memcpy_h_to_d_async(address, host, bytes, stream)
                                    : driver_->memcpy_d_to_h_async(host, address, bytes, stream);
  if (result != CUDA_SUCCESS) return fail(result);
  completions_->when_done(stream, [this, chunk](CUresult done) { let_chunk_go(chunk, done); });
}

CUresult ServedProcess::copy_rows(const Call& call) {
  const auto& [stream_number, to, to_pitch, from, from_pitch, width, height] = call.arguments;
  if (!ranges_.contains_rows(to, to_pitch, width, height)) return CUDA_ERROR_INVALID_VALUE;
  if (!ranges_.contains_rows(from, from_pitch, width, height)) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = nullptr;
  if (const CUresult result = streams_.use(stream_number, &stream)) return result;
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  return queue_copy(driver_, stream, std::span(call.arguments).subspan(1));
}

CUresult ServedProcess::fill(const Call& call) {
  const auto& [stream_number, to, pitch, value, element, width, height] = call.arguments;
  if (element != 1 && element != 2 && element != 4) return CUDA_ERROR_INVALID_VALUE;
  uint64_t row = 0;
  if (__builtin_mul_overflow(width, element, &row)) return CUDA_ERROR_INVALID_VALUE;
  if (to % element != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!ranges_.contains_rows(to, pitch, row, height)) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = nullptr;
  if (const CUresult result = streams_.use(stream_number, &stream)) return result;
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  return queue_fill(driver_, stream, std::span(call.arguments).subspan(1));
}

}  // namespace lambent::forward_server
