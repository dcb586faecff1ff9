// A stage channel as it lies in its file: a header, a row of slot headers, and the slots' bytes.
// Plain numbers only; shared by two processes of one pipeline, neither of which trusts the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lambent::stage_channel {

constexpr uint64_t kMagic = 0x31656761'7473624cULL;  // "Lbstage1"
constexpr uint32_t kLayoutVersion = 1;

constexpr uint32_t kMostSlots = 64;
constexpr uint64_t kMostSlotBytes = uint64_t{64} << 30;
// Of one job: a request has one entry for each of its value's tensors, and may have one for the
// rest of it.
constexpr uint32_t kMostEntries = 1024;
constexpr uint32_t kMostDimensions = 8;
constexpr size_t kMostErrorBytes = 480;

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kEntryAlignment = 256;
// Memory is page-locked, and copied, in blocks of a slot of at most this.
constexpr uint64_t kBlockBytes = uint64_t{4} << 20;

// A thread that is going to sleep sets it, looks once more for what it waits for, and sleeps while
// it is set; the one that brings that clears it (gpu/forward_ring/waiting.h).
using SleepFlag = std::atomic<uint32_t>;

enum class Kind : uint32_t { kTensor = 1, kJson = 2, kError = 3 };

// One tensor or text of one request. The reader checks all of it (check.h).
struct Entry {
  uint32_t request = 0;   // of the job, from 0; ascending
  uint32_t kind = 0;      // a Kind
  uint32_t datatype = 0;  // of a tensor; datatypes.h
  // What the sender's program held it in. Means nothing to the channel.
  uint32_t container = 0;
  uint32_t dimension_count = 0;
  uint32_t reserved = 0;
  uint64_t dimensions[kMostDimensions] = {};
  uint64_t offset = 0;  // in the slot; ascending
  uint64_t bytes = 0;
};

struct SlotHeader {
  uint64_t job;
  uint32_t requests;
  uint32_t entries;
  // So many bytes of the slot, from its beginning, are there to be read.
  alignas(64) std::atomic<uint64_t> ready;
  // The sender gave up half-way; `error` says why.
  std::atomic<uint32_t> failed;
  char error[kMostErrorBytes];
  Entry entry[kMostEntries];
};

struct Header {
  uint64_t magic;
  uint32_t version;
  uint32_t slots;
  uint64_t slot_bytes;
  // Set by the maker of the channel, which only writes to the file and maps nothing.
  alignas(64) std::atomic<uint32_t> ended;

  // Of the sender.
  alignas(64) std::atomic<uint64_t> sent;  // jobs, ever
  std::atomic<uint32_t> sender_came;       // holds its lock, or is gone
  std::atomic<uint32_t> sender_left;
  SleepFlag sender_sleeps;

  // Of the receiver.
  alignas(64) std::atomic<uint64_t> received;  // jobs, ever
  std::atomic<uint32_t> receiver_came;
  std::atomic<uint32_t> receiver_left;
  SleepFlag receiver_sleeps;
};

static_assert(sizeof(Header) <= kPageBytes);
static_assert(sizeof(Entry) == 104);
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

constexpr uint64_t rounded_up(uint64_t bytes, uint64_t step) {
  return (bytes + step - 1) / step * step;
}
constexpr uint64_t kSlotHeaderBytes = rounded_up(sizeof(SlotHeader), kPageBytes);

}  // namespace lambent::stage_channel
