// What is said over the socket before the ring is used: Hello by the process, Welcome by the
// executor, which brings the descriptor of the shared memory and all that the process may know of
// the device. Plain numbers; one packet each.
#pragma once

#include <cstdint>

#include "gpu/forward_ring/layout.h"

namespace lambent::forward_ring {

constexpr uint64_t kHelloMagic = 0x315244574b544d4cULL;  // "LMTKWDR1"
constexpr uint32_t kMostAttributes = 160;
constexpr uint32_t kMostLimits = 16;
// That an executor serves at a time, those of all its clients together; each has a thread there.
constexpr uint32_t kMostServedProcesses = 512;
constexpr int32_t kNoAttribute = INT32_MIN;  // one that the device does not have

struct Hello {
  uint64_t magic = kHelloMagic;
  uint32_t version = kForwardVersion;
  uint32_t process_id = 0;  // as the process sees itself; for people only
};

struct Welcome {
  uint64_t magic = kHelloMagic;
  uint32_t version = kForwardVersion;
  // Set if the process cannot be served; the rest is 0 then.
  uint32_t refused = 0;  // a CUresult
  int32_t driver_version = 0;
  uint32_t attribute_count = 0;
  int32_t attributes[kMostAttributes] = {};
  char name[256] = {};
  char uuid[16] = {};
  char bus_id[32] = {};
  uint64_t memory_bytes = 0;  // the client's limit
  int32_t least_priority = 0, greatest_priority = 0;
  uint64_t limits[kMostLimits] = {};  // by CUlimit
};

}  // namespace lambent::forward_ring
