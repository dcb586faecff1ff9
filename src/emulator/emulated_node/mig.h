// The MIG state of one device: its GPU instances and, inside them, compute instances. Plain values
// in the shared node file; the holder of the node's lock calls these functions.
#pragma once

#include <string>
#include <vector>

#include "emulator/emulated_node/machine.h"
#include "gpu/mig/layouts.h"

namespace lambent::emulated_node {

using mig::find_mig_family;
using mig::kComputeSlices;
using mig::kMaxInstances;
using mig::kMemorySlices;
using mig::kMigProfiles;
using mig::MigFamily;
using mig::MigProfile;
using mig::Placement;

// A part of a node on which contexts run and memory is counted: a whole device, whose index it has,
// or a MIG device, which is a compute instance in a slot of its device.
constexpr int kMaxPartitions = kMaxDevices * (1 + kMaxInstances);
constexpr int device_of_partition(int partition) {
  return partition < kMaxDevices ? partition : (partition - kMaxDevices) / kMaxInstances;
}
constexpr int slot_of_partition(int partition) {
  return partition < kMaxDevices ? -1 : (partition - kMaxDevices) % kMaxInstances;
}
constexpr int partition_of(int device, int slot) {
  return kMaxDevices + device * kMaxInstances + slot;
}

struct GpuInstance {
  uint32_t used;
  uint32_t id;
  int32_t profile_id;
  int32_t start;  // first memory slice
};

struct ComputeInstance {
  uint32_t used;
  uint32_t id;  // within its GPU instance
  uint32_t gpu_slot;
  int32_t slices, start;
};

struct MigState {
  uint32_t enabled;
  GpuInstance gpu[kMaxInstances];
  ComputeInstance compute[kMaxInstances];
};

enum class MigResult { kDone, kNotSupported, kInvalid, kNotFound, kNoRoom, kInUse };

std::vector<Placement> layout_of(const MigFamily& family, const MigState& state);

// A start of -1 takes the highest that is free, as the real driver does. Tells the slot.
MigResult create_gpu_instance(const MigFamily& family, MigState& state, int profile_id, int start,
                              int* gpu_slot);
MigResult destroy_gpu_instance(MigState& state, int gpu_slot);

// A compute instance of 1, 2, 3, 4 or 7 slices of the GPU instance.
MigResult create_compute_instance(const MigFamily& family, MigState& state, int gpu_slot,
                                  int slices, int start, int* slot);
MigResult destroy_compute_instance(MigState& state, int slot);
std::vector<int> free_compute_starts(const MigFamily& family, const MigState& state, int gpu_slot,
                                     int slices);
bool is_compute_size(int slices);

// What the device looks like through the compute instance in `slot`.
DeviceSpec instance_spec(const DeviceSpec& whole, const MigFamily& family, const MigState& state,
                         int slot);
int compute_multiprocessors(const MigFamily& family, const MigProfile& profile, int slices);

// "1c.3g.40gb", or "3g.40gb" for all of it.
std::string instance_name(const MigProfile& profile, int slices);

}  // namespace lambent::emulated_node
