#include "gpu/stage_channel/check.h"

#include <cstring>

#include "gpu/stage_channel/datatypes.h"

namespace lambent::stage_channel {
const char* refusal_of(uint32_t slots, uint64_t slot_bytes) {
  if (slots == 0 || slots > kMostSlots) return "a channel has 1 to 64 slots";
  if (slot_bytes == 0 || slot_bytes > kMostSlotBytes) return "a slot has 1 byte to 64 GiB";
  return nullptr;
}

const char* refusal_of(const Entry& entry) {
  uint64_t bytes = 0;
  switch (static_cast<Kind>(entry.kind)) {
    case Kind::kTensor:
      if (!tensor_bytes(entry, bytes)) return "a tensor of no known type or shape";
      return bytes == entry.bytes ? nullptr : "a tensor with another size than its shape's";
    case Kind::kJson:
    case Kind::kError:
      return entry.dimension_count == 0 ? nullptr : "a text with a shape";
  }
  return "an entry of an unknown kind";
}

const char* read_geometry(const Header& header, uint64_t file_bytes, Geometry& geometry) {
  if (header.magic != kMagic) return "it is not a stage channel";
  if (header.version != kLayoutVersion) return "it is a stage channel of another version";
  const Geometry read{header.slots, header.slot_bytes};
  if (const char* why = refusal_of(read.slots, read.slot_bytes)) return why;
  if (read.file_bytes() != file_bytes) return "the file has another size than it says";
  geometry = read;
  return nullptr;
}

bool tensor_bytes(const Entry& entry, uint64_t& bytes) {
  bytes = element_bytes(entry.datatype);
  if (bytes == 0 || entry.dimension_count > kMostDimensions) return false;
  for (uint32_t i = 0; i < entry.dimension_count; ++i) {
    if (__builtin_mul_overflow(bytes, entry.dimensions[i], &bytes)) return false;
  }
  return true;
}

const char* read_slot(const SlotHeader& slot, uint64_t slot_bytes, Arrival& arrival) {
  arrival.job = slot.job;
  arrival.requests = slot.requests;
  arrival.entries = slot.entries;
  // The copies may be torn if the sender writes on; they do not change any more.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (arrival.entries > kMostEntries) return "a job of too many entries";
  if (arrival.requests > kMostEntries) return "a job of too many requests";
  std::memcpy(arrival.entry, slot.entry, arrival.entries * sizeof(Entry));
  uint64_t end = 0;
  uint32_t request = 0;
  for (uint32_t i = 0; i < arrival.entries; ++i) {
    const Entry& entry = arrival.entry[i];
    if (entry.request >= arrival.requests) return "an entry of no request";
    if (entry.request < request) return "entries of requests out of order";
    request = entry.request;
    if (entry.offset < end || entry.offset > slot_bytes) return "an entry in another's place";
    if (entry.bytes > slot_bytes - entry.offset) return "an entry beyond the slot";
    end = entry.offset + entry.bytes;
    if (const char* why = refusal_of(entry)) return why;
  }
  return nullptr;
}

}  // namespace lambent::stage_channel
