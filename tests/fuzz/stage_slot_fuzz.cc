// A stage process reads what another process wrote into a channel's header and slots: whatever lies
// there, what is taken for a job keeps the promises of check.h, and stays within its slot.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "gpu/stage_channel/check.h"

using namespace lambent::stage_channel;

namespace {

void check_slot(const uint8_t* data, size_t size, uint64_t slot_bytes) {
  static const auto slot = std::make_unique<SlotHeader>();
  static const auto arrival = std::make_unique<Arrival>();
  std::memset(static_cast<void*>(slot.get()), 0, sizeof(SlotHeader));
  // The counters stand in the way: the file's beginning fills what is before the entries.
  if (size > 0) {
    std::memcpy(static_cast<void*>(slot.get()), data,
                size < sizeof(SlotHeader) ? size : sizeof(SlotHeader));
  }
  if (read_slot(*slot, slot_bytes, *arrival) != nullptr) return;
  if (arrival->entries > kMostEntries || arrival->requests > kMostEntries) abort();
  uint64_t end = 0;
  uint32_t request = 0;
  for (uint32_t i = 0; i < arrival->entries; ++i) {
    const Entry& entry = arrival->entry[i];
    if (entry.request >= arrival->requests || entry.request < request) abort();
    request = entry.request;
    if (entry.offset < end || entry.offset > slot_bytes) abort();
    if (entry.bytes > slot_bytes - entry.offset) abort();
    end = entry.offset + entry.bytes;
    if (entry.dimension_count > kMostDimensions) abort();
    if (entry.kind != static_cast<uint32_t>(Kind::kTensor)) continue;
    uint64_t bytes = 0;
    if (!tensor_bytes(entry, bytes) || bytes != entry.bytes) abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint64_t slot_bytes = 0;
  std::memcpy(&slot_bytes, data, size < sizeof(slot_bytes) ? size : sizeof(slot_bytes));
  const size_t begin = size < sizeof(slot_bytes) ? size : sizeof(slot_bytes);
  check_slot(data + begin, size - begin, slot_bytes % (kMostSlotBytes + 1));

  static const auto header = std::make_unique<Header>();
  std::memset(static_cast<void*>(header.get()), 0, sizeof(Header));
  if (size > 0)
    std::memcpy(static_cast<void*>(header.get()), data,
                size < sizeof(Header) ? size : sizeof(Header));
  Geometry geometry;
  if (read_geometry(*header, geometry.file_bytes(), geometry) == nullptr) abort();
  // Of the size that it would have: the file's size is all that may be believed.
  const Geometry said{header->slots % (kMostSlots + 1), header->slot_bytes % (kMostSlotBytes + 1)};
  if (read_geometry(*header, said.file_bytes(), geometry) != nullptr) return 0;
  if (refusal_of(geometry.slots, geometry.slot_bytes) != nullptr) abort();
  if (geometry.slot_data(geometry.slots - 1) + geometry.slot_bytes > said.file_bytes()) abort();
  if (geometry.slot_header(geometry.slots) > geometry.slot_data(0)) abort();
  return 0;
}
