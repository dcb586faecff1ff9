#include "gpu/forward_server/process_memory.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "gpu/forward_server/device_work.h"

namespace lambent::forward_server {
namespace {

// The driver hands out no less, and nothing smaller is counted.
constexpr uint64_t kLeastBytes = 512;
constexpr size_t kMostPendingFrees = 1 << 16;  // with all else that waits

using forward_ring::CallCode;

}  // namespace

CUresult ProcessMemory::begin() {
  const CUresult result = driver_->stream_create(&memory_stream_, CU_STREAM_NON_BLOCKING);
  if (result != CUDA_SUCCESS) return result;
  return driver_->stream_create(&free_stream_, CU_STREAM_NON_BLOCKING);
}

bool ProcessMemory::handle(const Call& call, std::span<const char> data) {
  switch (static_cast<CallCode>(call.code)) {
    case CallCode::kMemoryInfo:
      report(call);
      return true;
    case CallCode::kAllocate:
    case CallCode::kAllocateAsync:
      allocate(call);
      return true;
    case CallCode::kFree:
      free(call);
      return true;
    case CallCode::kFreeAsync:
      answers_.note(free_in_order(call));
      return true;
    case CallCode::kCopyInline:
      answers_.note(copy_inline(call, data));
      return true;
    case CallCode::kCopyRows:
      answers_.note(copy_rows(call));
      return true;
    case CallCode::kFill:
      answers_.note(fill(call));
      return true;
    default:
      return false;
  }
}

void ProcessMemory::report(const Call& call) {
  const uint64_t limit = memory_.limit().count, used = memory_.used().count;
  answers_.answer(call, CUDA_SUCCESS, {limit - std::min(used, limit), limit});
}

// In the order of a stream or not, the memory comes from a pool of the driver's: giving it back
// then waits for no other client's work, as cuMemFree would.
void ProcessMemory::allocate(const Call& call) {
  const bool in_order = static_cast<CallCode>(call.code) == CallCode::kAllocateAsync;
  const uint64_t context = call.arguments[0], bytes = call.arguments[1];
  CUstream stream = memory_stream_;
  if (!streams_.has_context(context)) return answers_.answer(call, CUDA_ERROR_INVALID_CONTEXT);
  if (bytes == 0) return answers_.answer(call, CUDA_ERROR_INVALID_VALUE);
  if (in_order) {
    const CUresult result = streams_.use_for_memory(call.arguments[2], &stream);
    if (result != CUDA_SUCCESS) return answers_.answer(call, result);
  }
  if (bytes > memory_.limit().count) return answers_.answer(call, CUDA_ERROR_OUT_OF_MEMORY);
  const uint64_t counted = (bytes + kLeastBytes - 1) / kLeastBytes * kLeastBytes;
  if (counted > memory_.limit().count - std::min(memory_.used(), memory_.limit()).count &&
      frees_to_come_ > 0) {
    // A stream's own order lets it have what was freed before; the count is behind.
    waiting_allocations_.push_back(call);
    return;
  }
  if (!memory_.take(Bytes(counted))) return answers_.answer(call, CUDA_ERROR_OUT_OF_MEMORY);
  CUdeviceptr address = 0;
  const CUresult result = allocate_zeroed(counted, stream, in_order, &address);
  if (result != CUDA_SUCCESS) {
    memory_.cancel(Bytes(counted));
    return answers_.answer(call, result);
  }
  memory_.keep(Bytes(counted));
  ranges_.add(address, {bytes, counted, context, 0});
  answers_.answer(call, CUDA_SUCCESS, {address});
}

CUresult ProcessMemory::allocate_zeroed(uint64_t bytes, CUstream stream, bool in_order,
                                        CUdeviceptr* address) {
  CUresult result = pool_.allocate(address, bytes, stream);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    // What was freed may not have come back yet: nothing else is on this stream.
    driver_->stream_synchronize(free_stream_);
    result = pool_.allocate(address, bytes, stream);
  }
  if (result != CUDA_SUCCESS) return result;
  result = driver_->memset_d8_async(*address, 0, bytes, stream);
  if (result == CUDA_SUCCESS && !in_order) result = driver_->stream_synchronize(stream);
  if (result != CUDA_SUCCESS) driver_->mem_free_async(*address, stream);
  return result;
}

void ProcessMemory::withdraw_all_of(uint64_t context) {
  const size_t before = withdrawn_.size();
  for (const auto& [address, range] : ranges_.all()) {
    if (range.context == context && range.module == 0) withdrawn_.emplace_back(address, range);
  }
  for (size_t i = before; i < withdrawn_.size(); ++i) ranges_.erase(withdrawn_[i].first);
}

void ProcessMemory::free_all_of(uint64_t context) {
  withdraw_all_of(context);
  std::erase_if(withdrawn_, [&](const auto& each) {
    const auto& [address, range] = each;
    if (range.context != context) return false;
    if (exports_.release(address)) return true;
    answers_.note(driver_->mem_free_async(address, free_stream_));
    pool_.freed();
    memory_.give_back(Bytes(range.counted_bytes));
    return true;
  });
}

void ProcessMemory::release() {
  // Null if the thread could not begin: the driver takes that for the default stream of all.
  if (free_stream_ != nullptr) {
    driver_->stream_synchronize(free_stream_);
    driver_->stream_destroy(free_stream_);
    pool_.trim();
  }
  if (memory_stream_ != nullptr) driver_->stream_destroy(memory_stream_);
}

// As the driver's, it comes back when the client's work is over, which might use the memory.
void ProcessMemory::free(const Call& call) {
  const CUdeviceptr address = call.arguments[0];
  const AddressRange* range = ranges_.find(address);
  if (range == nullptr || range->module != 0) {
    return answers_.answer(call, CUDA_ERROR_INVALID_VALUE);
  }
  const Bytes counted(range->counted_bytes);
  ranges_.erase(address);
  std::vector<CUstream> busy;
  for (CUstream stream : streams_.all()) {
    if (driver_->stream_query(stream) != CUDA_SUCCESS) busy.push_back(stream);
  }
  const auto give_back = [this, call, address, counted](CUresult result) {
    if (exports_.release(address)) return answers_.answer(call, result);
    if (result == CUDA_SUCCESS) result = driver_->mem_free_async(address, free_stream_);
    pool_.freed();
    memory_.give_back(counted);
    answers_.answer(call, result);
  };
  if (busy.empty()) return give_back(CUDA_SUCCESS);
  completions_.when_all_done(busy, give_back);
}

CUresult ProcessMemory::free_in_order(const Call& call) {
  // All else that waits is bounded by itself: by slots, by chunks, by words that hold streams.
  if (completions_.size() >= kMostPendingFrees) return CUDA_ERROR_OUT_OF_MEMORY;
  const AddressRange* range = ranges_.find(call.arguments[0]);
  if (range == nullptr || range->module != 0) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = nullptr;
  const CUdeviceptr address = call.arguments[0];
  const bool shared = exports_.has(address);
  const Bytes counted(range->counted_bytes);
  CUresult result = streams_.use(call.arguments[1], &stream);
  if (result != CUDA_SUCCESS) return result;
  const std::vector<CUstream> users = streams_.using_memory(stream);
  if (!users.empty()) {
    // What they have queued may be about this memory: to free it in the order of one of them would
    // have it touched when it is others', or nowhere.
    free_behind(stream, users, address, shared);
    return CUDA_SUCCESS;
  }
  if (!shared) result = driver_->mem_free_async(address, stream);
  if (result != CUDA_SUCCESS) return result;
  // The memory is the client's until the stream has come so far.
  ranges_.erase(address);
  ++frees_to_come_;
  completions_.when_done(stream, [this, address, shared, counted](CUresult) {
    if (shared) exports_.release(address);
    freed_in_order(shared ? Bytes(0) : counted);
  });
  return CUDA_SUCCESS;
}

// A free that comes later in the order of this stream has nothing less to wait for: of others those
// that are not done are still marked. So all of them can wait on one stream.
void ProcessMemory::free_behind(CUstream stream, const std::vector<CUstream>& others,
                                CUdeviceptr address, bool shared) {
  const AddressRange range = *ranges_.find(address);
  ranges_.erase(address);
  ++frees_to_come_;
  const auto free_it = [this, address, shared, range](CUresult result) {
    if (shared) exports_.release(address);
    if (!shared && result != CUDA_SUCCESS) {
      // It cannot be told when they are done with it: it is the client's until its context ends.
      withdrawn_.emplace_back(address, range);
      return free_is_over();
    }
    if (!shared) driver_->mem_free_async(address, free_stream_);
    freed_in_order(Bytes(shared ? 0 : range.counted_bytes));
  };
  completions_.when_all_done_in_order(stream, others, free_it);
}

void ProcessMemory::freed_in_order(Bytes counted) {
  pool_.freed();
  memory_.give_back(counted);
  free_is_over();
}

void ProcessMemory::free_is_over() {
  --frees_to_come_;
  for (const Call& call : std::exchange(waiting_allocations_, {})) allocate(call);
}

CUresult ProcessMemory::copy_inline(const Call& call, std::span<const char> data) {
  if (!ranges_.contains(call.arguments[1], data.size())) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = nullptr;
  if (const CUresult result = streams_.use_for_memory(call.arguments[0], &stream)) return result;
  // So small a source may change as soon as the driver has returned: it is not page-locked.
  return driver_->memcpy_h_to_d_async(call.arguments[1], data.data(), data.size(), stream);
}

CUresult ProcessMemory::copy_rows(const Call& call) {
  const auto& [stream_number, to, to_pitch, from, from_pitch, width, height] = call.arguments;
  if (!ranges_.contains_rows(to, to_pitch, width, height)) return CUDA_ERROR_INVALID_VALUE;
  if (!ranges_.contains_rows(from, from_pitch, width, height)) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = nullptr;
  if (const CUresult result = streams_.use_for_memory(stream_number, &stream)) return result;
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  return queue_copy(driver_, stream, std::span(call.arguments).subspan(1));
}

CUresult ProcessMemory::fill(const Call& call) {
  const auto& [stream_number, to, pitch, value, element, width, height] = call.arguments;
  if (element != 1 && element != 2 && element != 4) return CUDA_ERROR_INVALID_VALUE;
  uint64_t row = 0;
  if (__builtin_mul_overflow(width, element, &row)) return CUDA_ERROR_INVALID_VALUE;
  if (to % element != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!ranges_.contains_rows(to, pitch, row, height)) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = nullptr;
  if (const CUresult result = streams_.use_for_memory(stream_number, &stream)) return result;
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  return queue_fill(driver_, stream, std::span(call.arguments).subspan(1));
}

}  // namespace lambent::forward_server
