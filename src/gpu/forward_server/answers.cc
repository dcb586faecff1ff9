#include "gpu/forward_server/answers.h"

#include <algorithm>
#include <utility>

#include "gpu/cuda_abi/context_errors.h"
#include "gpu/forward_ring/waiting.h"

namespace lambent::forward_server {

using forward_ring::Answered;
using forward_ring::CallCode;

bool Answers::expect(const Call& call) {
  const auto code = static_cast<CallCode>(call.code);
  const Answered answered = forward_ring::answered_how(code);
  bool is_free = true;
  if (call.slot != forward_ring::kNoSlot) is_free &= !std::exchange(slot_busy_[call.slot], true);
  if (answered == Answered::kChunk || answered == Answered::kSlotChunk) {
    const uint64_t chunk = call.arguments[forward_ring::chunk_argument(code)];
    is_free &= !std::exchange(chunk_busy_[chunk], true);
  }
  return is_free;
}

void Answers::answer(const Call& call, CUresult result, std::span<const uint64_t> values) {
  // In a broken context the executor says so to all, when the worker knows of it.
  if (check(result); broken_ != CUDA_SUCCESS) return;
  forward_ring::AnswerSlot& slot = pages_.slots[call.slot];
  slot.result = result;
  std::copy(values.begin(), values.end(), slot.values);
  slot_busy_[call.slot] = false;
  slot.answered.store(++answered_[call.slot], std::memory_order_release);
  forward_ring::wake(slot.client_sleeps);
}

void Answers::answer_with_earlier(const Call& call, CUresult result) {
  if (earlier_ != CUDA_SUCCESS && result == CUDA_SUCCESS) {
    result = std::exchange(earlier_, CUDA_SUCCESS);
  }
  answer(call, result);
}

void Answers::release_chunk(uint32_t chunk, CUresult result) {
  if (check(result); broken_ != CUDA_SUCCESS) return;
  forward_ring::ChunkState& state = pages_.chunks[chunk];
  state.result.store(result, std::memory_order_relaxed);
  chunk_busy_[chunk] = false;
  state.done.store(++done_[chunk], std::memory_order_release);
  forward_ring::wake(state.client_sleeps);
}

void Answers::note(CUresult result) {
  if (check(result) != CUDA_SUCCESS && earlier_ == CUDA_SUCCESS) earlier_ = result;
}

CUresult Answers::check(CUresult result) {
  if (broken_ != CUDA_SUCCESS || !may_tell_of_broken_context(result)) return result;
  // Some calls answer so to odd requests too; a broken context does to every call.
  const CUresult state = driver_->stream_query(nullptr);
  if (state != CUDA_SUCCESS && state != CUDA_ERROR_NOT_READY) broken_ = result;
  return result;
}

}  // namespace lambent::forward_server
