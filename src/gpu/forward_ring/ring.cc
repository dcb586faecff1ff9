#include "gpu/forward_ring/ring.h"

#include <cstring>

#include "gpu/forward_ring/waiting.h"

namespace lambent::forward_ring {
namespace {

// Calls begin at multiples of this, so that none wraps within a number.
constexpr uint64_t kStep = 16;
constexpr uint64_t kPublishBytes = kRingBytes / 8;

uint64_t rounded(uint64_t bytes) { return (bytes + kStep - 1) / kStep * kStep; }

size_t first_part(uint64_t at, size_t bytes) {
  const size_t to_end = kRingBytes - at % kRingBytes;
  return bytes < to_end ? bytes : to_end;
}

}  // namespace

bool CallWriter::has_room(size_t data_bytes) const {
  const uint64_t taken = written_ - pages_->control.consumed.load(std::memory_order_acquire);
  const uint64_t wanted = rounded(sizeof(Call) + data_bytes);
  return taken <= kRingBytes && kRingBytes - taken >= wanted;
}

void CallWriter::append(const void* from, size_t bytes, uint64_t at) {
  if (bytes == 0) return;
  const size_t first = first_part(at, bytes);
  std::memcpy(pages_->ring + at % kRingBytes, from, first);
  std::memcpy(pages_->ring, static_cast<const char*>(from) + first, bytes - first);
}

void CallWriter::write(Call call, const void* data, size_t bytes, const void* more,
                       size_t more_bytes) {
  call.bytes = static_cast<uint32_t>(sizeof(Call) + bytes + more_bytes);
  append(&call, sizeof(Call), written_);
  append(data, bytes, written_ + sizeof(Call));
  append(more, more_bytes, written_ + sizeof(Call) + bytes);
  written_ += rounded(call.bytes);
  pages_->control.submitted.store(written_, std::memory_order_release);
  wake(pages_->control.server_sleeps);
}

void CallReader::copy_out(void* to, size_t bytes, uint64_t at) const {
  const size_t first = first_part(at, bytes);
  std::memcpy(to, pages_->ring + at % kRingBytes, first);
  std::memcpy(static_cast<char*>(to) + first, pages_->ring, bytes - first);
}

CallReader::Next CallReader::next(Call& call, char* data) {
  if (submitted_ == consumed_) {
    submitted_ = pages_->control.submitted.load(std::memory_order_acquire);
    if (submitted_ == consumed_) {
      publish();
      return Next::kNothing;
    }
  }
  // Said by the client: everything is checked against it and against the ring, which it cannot
  // change.
  const uint64_t available = submitted_ - consumed_;
  if (available > kRingBytes || available < sizeof(Call)) return Next::kMalformed;
  copy_out(&call, sizeof(Call), consumed_);
  if (!is_well_formed(call)) return Next::kMalformed;
  if (rounded(call.bytes) > available) return Next::kMalformed;
  copy_out(data, call.bytes - sizeof(Call), consumed_ + sizeof(Call));
  consumed_ += rounded(call.bytes);
  if (consumed_ - published_ >= kPublishBytes) publish();
  return Next::kCall;
}

void CallReader::publish() {
  if (published_ == consumed_) return;
  published_ = consumed_;
  pages_->control.consumed.store(consumed_, std::memory_order_release);
  wake(pages_->control.client_waits_for_room);
}

bool CallReader::is_empty() const {
  return consumed_ == submitted_ &&
         pages_->control.submitted.load(std::memory_order_seq_cst) == consumed_;
}

}  // namespace lambent::forward_ring
