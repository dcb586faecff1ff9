// The roads that bytes take: each device has engines towards the host and towards other devices,
// each a first-come-first-served queue. Plain values, without clock or lock; the holder of the
// node's lock calls these functions.
#pragma once

#include <cstdint>

#include "emulator/emulated_node/machine.h"

namespace lambent::emulated_node {

constexpr uint32_t kNoProcess = 0xFFFFFFFF;

enum class Direction { kHostToDevice = 0, kDeviceToHost = 1 };

// One engine, kept as the instant at which it drains.
struct LinkClock {
  int64_t free_ns;
  int64_t before_last_ns;  // what free_ns was before the last transfer, given back if it dies
  uint32_t last_process;
  uint64_t bytes;
};

// All engines of one device: by Direction over PCIe, and outwards and inwards over NVLink.
struct Links {
  LinkClock host[2];
  LinkClock peer[2];
};

void initialise(Links& links);

// Takes an engine, and a second one at the same time if there is one, for a transfer that may begin
// at `begin_ns`; returns when the bytes are through.
int64_t occupy(LinkClock& first, LinkClock* second, uint64_t bytes, double bytes_per_s,
               int64_t begin_ns, uint32_t process);
// The process died: what its last transfers still held is free again.
void give_up(Links& links, uint32_t process, int64_t now_ns);

// How one device reaches another's memory.
enum class Way { kStaged, kPcie, kNvlink };
Way way_between(const NodeSpec& spec, int device, int peer);

}  // namespace lambent::emulated_node
