#include "emulator/emulated_node/mig.h"

#include <algorithm>
#include <cstdio>

namespace lambent::emulated_node {

namespace {

template <class Instance>
int free_slot(const Instance (&instances)[kMaxInstances]) {
  for (int slot = 0; slot < kMaxInstances; slot++) {
    if (!instances[slot].used) return slot;
  }
  return -1;
}

bool in_range(int slot) { return slot >= 0 && slot < kMaxInstances; }

// Instances are numbered by their place: the whole, its halves from above, quarters, eighths.
uint32_t id_of(const Placement& placement) {
  auto start = static_cast<uint32_t>(placement.start);
  switch (placement.profile->memory_slices) {
    case 8:
      return 0;
    case 4:
      return start == 4 ? 1 : 2;
    case 2:
      return 3 + start / 2;
    default:
      return 7 + start;
  }
}

}  // namespace

std::vector<Placement> layout_of(const MigFamily& family, const MigState& state) {
  std::vector<Placement> layout;
  for (const GpuInstance& instance : state.gpu) {
    const MigProfile* profile = instance.used ? find_profile(family, instance.profile_id) : nullptr;
    if (profile) layout.push_back({profile, instance.start});
  }
  return layout;
}

MigResult create_gpu_instance(const MigFamily& family, MigState& state, int profile_id, int start,
                              int* gpu_slot) {
  if (!state.enabled) return MigResult::kNotSupported;
  const MigProfile* profile = find_profile(family, profile_id);
  if (!profile) return MigResult::kInvalid;
  if (start >= kMemorySlices || (start >= 0 && !(profile->starts & (1u << start)))) {
    return MigResult::kInvalid;
  }
  std::vector<int> starts = free_starts(family, layout_of(family, state), *profile);
  if (start < 0 && !starts.empty()) start = starts.back();
  if (!std::count(starts.begin(), starts.end(), start)) return MigResult::kNoRoom;
  int slot = free_slot(state.gpu);
  if (slot < 0) return MigResult::kNoRoom;
  state.gpu[slot] = {1, id_of({profile, start}), profile_id, start};
  *gpu_slot = slot;
  return MigResult::kDone;
}

MigResult destroy_gpu_instance(MigState& state, int gpu_slot) {
  if (!in_range(gpu_slot) || !state.gpu[gpu_slot].used) return MigResult::kNotFound;
  for (const ComputeInstance& compute : state.compute) {
    if (compute.used && compute.gpu_slot == static_cast<uint32_t>(gpu_slot)) {
      return MigResult::kInUse;
    }
  }
  state.gpu[gpu_slot] = {};
  return MigResult::kDone;
}

bool is_compute_size(int slices) {
  return slices == 1 || slices == 2 || slices == 3 || slices == 4 || slices == 7;
}

std::vector<int> free_compute_starts(const MigFamily& family, const MigState& state, int gpu_slot,
                                     int slices) {
  const MigProfile* profile = find_profile(family, state.gpu[gpu_slot].profile_id);
  std::vector<int> starts;
  uint32_t taken = 0;
  for (const ComputeInstance& compute : state.compute) {
    if (!compute.used || compute.gpu_slot != static_cast<uint32_t>(gpu_slot)) continue;
    taken |= ((1u << (compute.slices & 31)) - 1) << (compute.start & 31);
  }
  for (int start = 0; profile && start + slices <= profile->slices; start++) {
    if (!(taken & (((1u << slices) - 1) << start))) starts.push_back(start);
  }
  return starts;
}

MigResult create_compute_instance(const MigFamily& family, MigState& state, int gpu_slot,
                                  int slices, int start, int* slot) {
  if (!in_range(gpu_slot) || !state.gpu[gpu_slot].used) return MigResult::kNotFound;
  const MigProfile* profile = find_profile(family, state.gpu[gpu_slot].profile_id);
  if (!profile || !is_compute_size(slices)) return MigResult::kInvalid;
  if (slices > profile->slices) return MigResult::kNotSupported;
  std::vector<int> starts = free_compute_starts(family, state, gpu_slot, slices);
  if (start < 0 && !starts.empty()) start = starts.front();
  if (!std::count(starts.begin(), starts.end(), start)) return MigResult::kNoRoom;
  int found = free_slot(state.compute);
  if (found < 0) return MigResult::kNoRoom;
  uint32_t id = 0;
  auto taken = [&] {
    return std::any_of(state.compute, state.compute + kMaxInstances, [&](const auto& other) {
      return other.used && other.gpu_slot == static_cast<uint32_t>(gpu_slot) && other.id == id;
    });
  };
  while (taken()) id++;
  state.compute[found] = {1, id, static_cast<uint32_t>(gpu_slot), slices, start};
  *slot = found;
  return MigResult::kDone;
}

MigResult destroy_compute_instance(MigState& state, int slot) {
  if (!in_range(slot) || !state.compute[slot].used) return MigResult::kNotFound;
  state.compute[slot] = {};
  return MigResult::kDone;
}

int compute_multiprocessors(const MigFamily& family, const MigProfile& profile, int slices) {
  return slices == profile.slices ? profile.multiprocessors
                                  : slices * family.multiprocessors_per_slice;
}

std::string instance_name(const MigProfile& profile, int slices) {
  if (slices == profile.slices) return profile.name;
  return std::to_string(slices) + "c." + profile.name;
}

DeviceSpec instance_spec(const DeviceSpec& whole, const MigFamily& family, const MigState& state,
                         int slot) {
  const ComputeInstance& compute = state.compute[slot];
  const MigProfile* profile =
      find_profile(family, state.gpu[compute.gpu_slot % kMaxInstances].profile_id);
  DeviceSpec spec = whole;
  if (!profile) return spec;
  std::snprintf(spec.name, sizeof spec.name, "%.60s MIG %s", whole.name,
                instance_name(*profile, compute.slices).c_str());
  spec.memory_bytes = uint64_t{1048576} * static_cast<uint64_t>(profile->memory_mib);
  spec.multiprocessors = compute_multiprocessors(family, *profile, compute.slices);
  spec.copy_engines = profile->copy_engines;
  spec.memory_bytes_per_s = whole.memory_bytes_per_s * profile->memory_slices / kMemorySlices;
  spec.memory_bus_bits = whole.memory_bus_bits * profile->memory_slices / kMemorySlices;
  spec.l2_bytes = whole.l2_bytes / kMemorySlices * profile->memory_slices;
  return spec;
}

}  // namespace lambent::emulated_node
