// GpuState: how a device is cut into slices now, as NVML tells it. A value; made by the module
// monitor, read to show and plan it, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/mig/layouts.h"

namespace lambent::mig {

// A GPU instance.
struct InstanceState {
  uint32_t id = 0;
  int profile_id = 0;
  int start = 0;                   // its first memory slice
  std::vector<std::string> uuids;  // of its compute instances: one where it is a slice
};

// What the device offers, whatever it is called.
struct ProfileFacts {
  int id = 0;
  int slices = 0;
  int multiprocessors = 0;
  int memory_mib = 0;
};

struct GpuState {
  uint32_t index = 0;
  std::string uuid;
  std::string name;
  uint64_t memory_mib = 0;
  bool can = false;      // it has MIG at all
  bool enabled = false;  // it is in MIG mode
  bool pending = false;  // it will be, after a reset
  std::vector<ProfileFacts> profiles;
  std::vector<InstanceState> instances;  // ascending by start
  std::vector<uint32_t> processes;       // that use it or instances of it
};

// The family with these profiles: all that both have are alike, memory within a tenth. Null: it is
// none that Lambent knows.
const MigFamily* family_of(const std::vector<ProfileFacts>& profiles);

// Its instances as a layout of that family; those with profiles that it does not have are left out.
std::vector<Placement> layout_of(const MigFamily& family, const GpuState& gpu);

}  // namespace lambent::mig
