#include "gpu/stage_channel/receiver.h"

#include <cstring>

namespace lambent::stage_channel {

Status Receiver::receive(int64_t timeout_ms) {
  if (is_malformed_) return Status::kMalformed;
  if (has_arrival_) return Status::kDone;
  Header& header = file_.header();
  const auto has_sent = [&] { return header.sent.load(std::memory_order_acquire) != received_; };
  const Status status =
      wait_for(file_, header.receiver_sleeps, budget_, Deadline(timeout_ms), has_sent);
  if (status == Status::kTimedOut) error_.set("nothing was sent in %ld ms", long{timeout_ms});
  if (status == Status::kEnded) error_.set("the channel has ended");
  if (status == Status::kPeerGone) error_.set("the sender is gone");
  if (status != Status::kDone) return status;
  const char* why = nullptr;
  if (header.sent.load(std::memory_order_acquire) - received_ > file_.geometry().slots) {
    why = "more was sent than there are slots";
  } else {
    why = read_slot(file_.slot(slot_index()), slot_bytes(), arrival_);
  }
  if (why != nullptr) {
    is_malformed_ = true;
    error_.set("what lies in the channel makes no sense: %s", why);
    return Status::kMalformed;
  }
  has_arrival_ = true;
  return Status::kDone;
}

Status Receiver::wait_for_bytes(SlotHeader& slot, uint64_t end, const Deadline& deadline) {
  const auto is_ready = [&] {
    return slot.ready.load(std::memory_order_acquire) >= end ||
           slot.failed.load(std::memory_order_acquire) != 0;
  };
  Status status = wait_for(file_, file_.header().receiver_sleeps, budget_, deadline, is_ready);
  if (status == Status::kTimedOut) error_.set("the rest of the value did not come in time");
  if (status == Status::kEnded) error_.set("the channel has ended");
  if (status == Status::kPeerGone) error_.set("the sender is gone, half-way through a value");
  if (status == Status::kDone && slot.failed.load(std::memory_order_acquire) != 0) {
    char reason[kMostErrorBytes];
    std::memcpy(reason, slot.error, sizeof(reason));
    reason[sizeof(reason) - 1] = 0;
    error_.set("the sender failed: %s", reason);
    status = Status::kFailed;
  }
  return status;
}

Status Receiver::take(uint32_t index, uint64_t address, bool on_device, uint64_t stream,
                      int64_t timeout_ms) {
  if (!has_arrival_ || index >= arrival_.entries) {
    error_.set("there is no entry %u", index);
    return Status::kInvalid;
  }
  const Entry& entry = arrival_.entry[index];
  const Deadline deadline(timeout_ms);
  SlotHeader& slot = file_.slot(slot_index());
  if (on_device && entry.bytes > 0) return copy_to_device(slot, entry, address, stream, deadline);
  auto* to = reinterpret_cast<char*>(address);
  const uint64_t piece = piece_bytes(entry.bytes);
  for (uint64_t at = 0; at < entry.bytes;) {
    const uint64_t offset = entry.offset + at;
    const uint64_t bytes = next_piece(offset, entry.bytes - at, piece);
    Status status = wait_for_bytes(slot, offset + bytes, deadline);
    if (status != Status::kDone) return status;
    std::memcpy(to + at, file_.data(slot_index()) + offset, bytes);
    at += bytes;
  }
  return Status::kDone;
}

Status Receiver::copy_to_device(SlotHeader& slot, const Entry& entry, uint64_t address,
                                uint64_t stream, const Deadline& deadline) {
  Status status = copier_.follow(stream, error_);
  const uint64_t piece = piece_bytes(entry.bytes);
  for (uint64_t at = 0; status == Status::kDone && at < entry.bytes;) {
    const uint64_t offset = entry.offset + at;
    const uint64_t bytes = next_piece(offset, entry.bytes - at, piece);
    status = wait_for_bytes(slot, offset + bytes, deadline);
    if (status == Status::kDone && copier_.is_full()) status = copier_.wait_for_oldest(error_);
    if (status != Status::kDone) break;
    status = copier_.begin_to_device(slot_index(), offset, address + at, bytes, error_);
    at += bytes;
  }
  while (status == Status::kDone && !copier_.is_idle()) status = copier_.wait_for_oldest(error_);
  // Nothing may still read the slot, nor write to memory that the caller frees.
  if (status != Status::kDone) copier_.abandon();
  return status;
}

Status Receiver::release() {
  if (!has_arrival_) {
    error_.set("there is nothing to give back");
    return Status::kInvalid;
  }
  has_arrival_ = false;
  ++received_;
  file_.header().received.store(received_, std::memory_order_release);
  forward_ring::wake(file_.header().sender_sleeps);
  return Status::kDone;
}

}  // namespace lambent::stage_channel
