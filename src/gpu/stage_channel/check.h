// What is read from a channel's memory, checked against numbers that the peer cannot change, and
// how large a channel is. Pure functions, any thread.
#pragma once

#include <cstdint>

#include "gpu/stage_channel/layout.h"

namespace lambent::stage_channel {

// Where things lie in a channel's file.
struct Geometry {
  uint32_t slots = 0;
  uint64_t slot_bytes = 0;

  uint64_t slot_header(uint64_t slot) const { return kPageBytes + slot * kSlotHeaderBytes; }
  uint64_t slot_data(uint64_t slot) const {
    return rounded_up(slot_header(slots), kBlockBytes) + slot * rounded_up(slot_bytes, kBlockBytes);
  }
  uint64_t file_bytes() const { return slot_data(slots); }
  uint64_t blocks_per_slot() const { return rounded_up(slot_bytes, kBlockBytes) / kBlockBytes; }
};

// Why there can be no channel of this size; null if there can.
const char* refusal_of(uint32_t slots, uint64_t slot_bytes);

// Reads the numbers at the beginning of a file of that size; why it is no channel, or null.
const char* read_geometry(const Header& header, uint64_t file_bytes, Geometry& geometry);

// What a slot says it holds, copied out of reach of the sender.
struct Arrival {
  uint64_t job = 0;
  uint32_t requests = 0;
  uint32_t entries = 0;
  Entry entry[kMostEntries];
};

// Copies a slot's header out and checks the copy; why it cannot be read, or null. Then: requests
// ascend and are fewer than `requests`, bytes lie in the slot one after the other, and a tensor has
// as many as its shape says.
const char* read_slot(const SlotHeader& slot, uint64_t slot_bytes, Arrival& arrival);

// Why there can be no such entry, wherever it lies; null if there can.
const char* refusal_of(const Entry& entry);

// The bytes of a tensor of this shape; false if they are no number of 64 bits or the datatype is
// unknown.
bool tensor_bytes(const Entry& entry, uint64_t& bytes);

}  // namespace lambent::stage_channel
