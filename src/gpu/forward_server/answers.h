// Answers: how the calls of one process get their results: in a slot, by the release of a chunk, or
// with the next call that is answered. Also decides whether a result means that the context is
// broken. A resource of the process's thread.
#pragma once

#include <array>
#include <initializer_list>
#include <span>

#include "gpu/cuda/driver.h"
#include "gpu/forward_ring/calls.h"
#include "gpu/forward_ring/layout.h"

namespace lambent::forward_server {

class Answers {
 public:
  using Call = forward_ring::Call;

  // Both outlive it.
  Answers(const cuda::Driver& driver, forward_ring::SharedPages& pages)
      : driver_(driver), pages_(pages) {}
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  // A call was read. False if it names a slot or a chunk that an earlier call still waits for.
  bool expect(const Call& call);

  // Once for each call that has a slot; not in a broken context.
  void answer(const Call& call, CUresult result, std::initializer_list<uint64_t> values = {}) {
    answer(call, result, std::span<const uint64_t>(values.begin(), values.size()));
  }
  void answer(const Call& call, CUresult result, std::span<const uint64_t> values);
  // The same, but a success becomes the first failure that was noted and not answered yet.
  void answer_with_earlier(const Call& call, CUresult result);
  // Once for each call that has a chunk, which the process may use again; not in a broken context.
  void release_chunk(uint32_t chunk, CUresult result);
  // The result of a call that has neither.
  void note(CUresult result);
  void forget_noted() { earlier_ = CUDA_SUCCESS; }

  // Gives the result back, after a look whether it means that the context is broken.
  CUresult check(CUresult result);
  // The result that showed that the context is broken; CUDA_SUCCESS while it is not.
  CUresult broken() const { return broken_; }

 private:
  const cuda::Driver& driver_;
  forward_ring::SharedPages& pages_;
  std::array<uint32_t, forward_ring::kAnswerSlots> answered_{};
  std::array<bool, forward_ring::kAnswerSlots> slot_busy_{};
  std::array<uint32_t, forward_ring::kChunks> done_{};
  std::array<bool, forward_ring::kChunks> chunk_busy_{};
  CUresult broken_ = CUDA_SUCCESS;
  CUresult earlier_ = CUDA_SUCCESS;  // the first that was noted and not answered
};

}  // namespace lambent::forward_server
