#include "gpu/stage_channel/sender.h"

#include <algorithm>
#include <cstring>

namespace lambent::stage_channel {

Status Sender::wait_for_slot(int64_t timeout_ms) {
  Header& header = file_.header();
  const uint64_t slots = file_.geometry().slots;
  // The receiver's count is only ever believed where it leaves no more than all slots in use.
  const auto has_room = [&] {
    return sent_ - header.received.load(std::memory_order_acquire) < slots;
  };
  if (file_.has_ended()) {
    error_.set("the channel has ended");
    return Status::kEnded;
  }
  // Even where there is room: else its end would show only once all slots are full.
  if (file_.peer_is_gone()) {
    error_.set("the receiver is gone");
    return Status::kPeerGone;
  }
  const Status status =
      wait_for(file_, header.sender_sleeps, budget_, Deadline(timeout_ms), has_room);
  if (status == Status::kTimedOut) error_.set("no slot became free in %ld ms", long{timeout_ms});
  if (status == Status::kEnded) error_.set("the channel has ended");
  if (status == Status::kPeerGone) error_.set("the receiver is gone");
  return status;
}

// Where the entry after one that ends there begins.
uint64_t Sender::place(uint64_t end) { return rounded_up(end, kEntryAlignment); }

Status Sender::check(uint64_t job, uint32_t requests, const Outgoing* outgoing, uint32_t count,
                     uint64_t& total) {
  if (count > kMostEntries || requests > kMostEntries) {
    error_.set("a job has at most %u requests and %u entries", kMostEntries, kMostEntries);
    return Status::kInvalid;
  }
  total = 0;
  uint32_t request = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const Entry& entry = outgoing[i].entry;
    const char* why = refusal_of(entry);
    if (why == nullptr && entry.request >= requests) why = "an entry of no request";
    if (why == nullptr && entry.request < request) why = "entries of requests out of order";
    if (why != nullptr) {
      error_.set("entry %u of job %lu cannot be sent: %s", i, job, why);
      return Status::kInvalid;
    }
    request = entry.request;
    // The sum of those before is in the slot: nothing overflows.
    total = place(total);
    if (entry.bytes > slot_bytes() || total > slot_bytes() - entry.bytes) {
      error_.set("job %lu does not fit in a slot of %lu bytes", job, slot_bytes());
      return Status::kTooLarge;
    }
    total += entry.bytes;
  }
  return Status::kDone;
}

void Sender::write_header(SlotHeader& slot, uint64_t job, uint32_t requests,
                          const Outgoing* outgoing, uint32_t count) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < count; ++i) {
    Entry entry = outgoing[i].entry;
    entry.offset = place(end);
    entry.reserved = 0;
    slot.entry[i] = entry;
    end = entry.offset + entry.bytes;
  }
  slot.job = job;
  slot.requests = requests;
  slot.entries = count;
  slot.failed.store(0, std::memory_order_relaxed);
  slot.ready.store(0, std::memory_order_relaxed);
}

Status Sender::send(uint64_t job, uint32_t requests, const Outgoing* outgoing, uint32_t count,
                    uint64_t stream, int64_t timeout_ms) {
  uint64_t total = 0;
  Status checked = check(job, requests, outgoing, count, total);
  if (checked != Status::kDone) return checked;
  if (Status status = wait_for_slot(timeout_ms); status != Status::kDone) return status;
  Header& header = file_.header();
  SlotHeader& slot = file_.slot(sent_ % file_.geometry().slots);
  write_header(slot, job, requests, outgoing, count);
  header.sent.store(sent_ + 1, std::memory_order_release);
  forward_ring::wake(header.receiver_sleeps);
  const Status status = copy(slot, outgoing, count, stream);
  if (status == Status::kDone) {
    publish(slot, total);
  } else {
    copier_.abandon();
    ends_done_ = ends_begun_;
    const size_t bytes = std::min(std::strlen(error_.text), kMostErrorBytes - 1);
    std::memcpy(slot.error, error_.text, bytes);
    slot.error[bytes] = 0;
    slot.failed.store(1, std::memory_order_release);
    forward_ring::wake(header.receiver_sleeps);
  }
  ++sent_;
  return status;
}

Status Sender::copy(SlotHeader& slot, const Outgoing* outgoing, uint32_t count, uint64_t stream) {
  const uint64_t index = sent_ % file_.geometry().slots;
  bool follows = false;
  uint64_t end = 0;
  for (uint32_t i = 0; i < count; ++i) {
    // Not from the slot, where the receiver could write.
    Entry entry = outgoing[i].entry;
    entry.offset = place(end);
    end = entry.offset + entry.bytes;
    const uint64_t piece = piece_bytes(entry.bytes);
    if (outgoing[i].on_device && entry.bytes > 0) {
      if (!follows) {
        if (Status status = copier_.follow(stream, error_); status != Status::kDone) return status;
      }
      follows = true;
      Status status = copy_from_device(slot, entry, outgoing[i].address, piece);
      if (status != Status::kDone) return status;
      continue;
    }
    if (Status status = drain(slot); status != Status::kDone) return status;
    const auto* from = reinterpret_cast<const char*>(outgoing[i].address);
    for (uint64_t at = 0; at < entry.bytes;) {
      const uint64_t bytes = next_piece(entry.offset + at, entry.bytes - at, piece);
      std::memcpy(file_.data(index) + entry.offset + at, from + at, bytes);
      at += bytes;
      publish(slot, entry.offset + at);
    }
  }
  return drain(slot);
}

Status Sender::copy_from_device(SlotHeader& slot, const Entry& entry, uint64_t address,
                                uint64_t piece) {
  const uint64_t index = sent_ % file_.geometry().slots;
  for (uint64_t at = 0; at < entry.bytes;) {
    if (copier_.is_full()) {
      if (Status status = publish_oldest(slot); status != Status::kDone) return status;
    }
    const uint64_t offset = entry.offset + at;
    const uint64_t bytes = next_piece(offset, entry.bytes - at, piece);
    Status status = copier_.begin_to_host(index, offset, address + at, bytes, error_);
    if (status != Status::kDone) return status;
    at += bytes;
    ends_[ends_begun_++ % DeviceCopier::kMostUnderWay] = entry.offset + at;
  }
  return Status::kDone;
}

Status Sender::publish_oldest(SlotHeader& slot) {
  if (Status status = copier_.wait_for_oldest(error_); status != Status::kDone) return status;
  publish(slot, ends_[ends_done_++ % DeviceCopier::kMostUnderWay]);
  return Status::kDone;
}

Status Sender::drain(SlotHeader& slot) {
  while (!copier_.is_idle()) {
    if (Status status = publish_oldest(slot); status != Status::kDone) return status;
  }
  return Status::kDone;
}

void Sender::publish(SlotHeader& slot, uint64_t ready) {
  slot.ready.store(ready, std::memory_order_release);
  forward_ring::wake(file_.header().receiver_sleeps);
}

}  // namespace lambent::stage_channel
