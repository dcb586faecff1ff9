#include "gpu/forward_server/chunk_copies.h"

#include <memory>
#include <utility>

namespace lambent::forward_server {
namespace {

using forward_ring::CallCode;

// Smaller ones do not take turns: they cost the link little, and a turn may cost them much.
constexpr uint64_t kLeastInTurn = uint64_t{64} << 10;

}  // namespace

bool ChunkCopies::handle(const Call& call) {
  switch (static_cast<CallCode>(call.code)) {
    case CallCode::kCopyIn:
      copy(call, true);
      return true;
    case CallCode::kCopyOut:
      copy(call, false);
      return true;
    default:
      return false;
  }
}

void ChunkCopies::release() {
  if (pages_locked_) driver_->mem_host_unregister(pages_.chunk_bytes);
}

void ChunkCopies::lock_pages() {
  if (std::exchange(tried_to_lock_, true)) return;
  // Without it, copies are right but wait. That is no reason to fail.
  pages_locked_ =
      driver_->mem_host_register(pages_.chunk_bytes, sizeof(pages_.chunk_bytes), 0) == CUDA_SUCCESS;
}

void ChunkCopies::fail(const Copy& copy, CUresult result) {
  if (copy.to_device) answers_.note(result);
  answers_.release_chunk(copy.chunk, result);
}

void ChunkCopies::copy(const Call& call, bool to_device) {
  const uint64_t number = call.arguments[0];
  Copy copy{.to_device = to_device,
            .chunk = static_cast<uint32_t>(call.arguments[2]),
            .address = call.arguments[1],
            .bytes = call.arguments[3]};
  if (copy.bytes > forward_ring::kChunkBytes) return fail(copy, CUDA_ERROR_INVALID_VALUE);
  if (!ranges_.contains(copy.address, copy.bytes)) return fail(copy, CUDA_ERROR_INVALID_VALUE);
  const uint64_t work = streams_.work_of(number);
  const bool follows = number == last_stream_ && work == last_work_;
  if (const CUresult result = streams_.use_for_memory(number, &copy.stream))
    return fail(copy, result);
  lock_pages();
  CopyTurns* turns = to_device ? turns_.links.to_device : turns_.links.to_host;
  if (turns == nullptr || copy.bytes < kLeastInTurn) return copy_at_once(copy);
  const bool in_line = follows || driver_->stream_query(copy.stream) == CUDA_SUCCESS;
  last_stream_ = in_line ? number : 0;
  last_work_ = work + 1;
  // A copy that comes when this one can begin finds at most this much on the link.
  if (!in_line && turns->is_quiet()) return copy_at_once(copy);
  copy_in_turn(copy, *turns, in_line);
}

CUresult ChunkCopies::queue(const Copy& copy) {
  char* host = pages_.chunk_bytes[copy.chunk];
  return copy.to_device ? driver_->memcpy_h_to_d_async(copy.address, host, copy.bytes, copy.stream)
                        : driver_->memcpy_d_to_h_async(host, copy.address, copy.bytes, copy.stream);
}

void ChunkCopies::copy_at_once(const Copy& copy) {
  const CUresult result = queue(copy);
  if (result != CUDA_SUCCESS) return fail(copy, result);
  completions_.when_done(copy.stream, [this, chunk = copy.chunk](CUresult done) {
    answers_.release_chunk(chunk, done);
  });
}

CopyTurns::Turn ChunkCopies::ask(Waiting& waiting, uint64_t bytes) {
  const auto turn = waiting.turns.begin(
      turns_.client, Bytes(bytes),
      [this, gate = waiting.gate, turn = waiting.turn] { gates_.open(gate, turn); });
  waiting.copy = turn.copy;
  return turn;
}

// Others wait: the turn ends when the device has come so far, on a thread of the driver's. The
// process's own thread may see it late.
void ChunkCopies::end_on_device(CUstream stream, const std::shared_ptr<Waiting>& waiting) {
  auto held = std::make_unique<std::shared_ptr<Waiting>>(waiting);
  const auto end = [](void* data) {
    const std::unique_ptr<std::shared_ptr<Waiting>> its(
        static_cast<std::shared_ptr<Waiting>*>(data));
    const uint64_t copy = (*its)->copy;
    if (copy != 0) (*its)->turns.end(copy);
  };
  if (driver_->launch_host_func(stream, end, held.get()) == CUDA_SUCCESS) (void)held.release();
}

// The stream stops at a gate in front of the copy until it is the client's turn. A copy asks for
// its turn when the stream has come to the gate, for a turn that waits for a kernel would keep the
// link from the others. The end of the process opens all gates: then the turn is given up.
void ChunkCopies::copy_in_turn(const Copy& copy, CopyTurns& turns, bool in_line) {
  const auto waiting = std::make_shared<Waiting>(turns);
  if (gates_.take(&waiting->gate) != CUDA_SUCCESS) return copy_at_once(copy);
  waiting->turn = gates_.shut(waiting->gate);
  bool may_go = false;
  if (in_line) {
    may_go = ask(*waiting, copy.bytes).may_go;
  } else {
    completions_.when_done(copy.stream, [this, waiting, bytes = copy.bytes](CUresult) {
      if (ask(*waiting, bytes).may_go) gates_.open(waiting->gate, waiting->turn);
    });
  }
  if (!may_go) {
    // A device that cannot wait so copies out of turn.
    driver_->stream_wait_value_32(copy.stream, gates_.address(waiting->gate), waiting->turn,
                                  CU_STREAM_WAIT_VALUE_GEQ);
  }
  const CUresult result = queue(copy);
  if (!may_go && result == CUDA_SUCCESS) end_on_device(copy.stream, waiting);
  completions_.when_done(copy.stream, [this, waiting, chunk = copy.chunk, result](CUresult done) {
    if (waiting->copy != 0) waiting->turns.end(waiting->copy);
    gates_.give_back(waiting->gate);
    if (result == CUDA_SUCCESS) answers_.release_chunk(chunk, done);
  });
  if (result != CUDA_SUCCESS) fail(copy, result);
}

}  // namespace lambent::forward_server
