// NVML's functions for the compute instances of MIG. Every call is for any thread.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "emulator/emulated_node/nvml_mig_handles.h"

using namespace lambent::emulated_node;

namespace {

constexpr int kComputeSizes[] = {1, 2, 3, 4, 7};  // by profile id

unsigned compute_profile_of(int slices) {
  return static_cast<unsigned>(
      std::find(std::begin(kComputeSizes), std::end(kComputeSizes), slices) -
      std::begin(kComputeSizes));
}

nvmlReturn_t create_compute(nvmlGpuInstance_t gpu, unsigned profile_id, int start,
                            nvmlComputeInstance_t* out) {
  Found found;
  if (!out || profile_id >= std::size(kComputeSizes)) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t result = lock_gpu(gpu, &found)) return result;
  int slot = -1;
  MigResult result = found.guard->add_compute_instance(found.device, found.slot,
                                                       kComputeSizes[profile_id], start, &slot);
  if (result == MigResult::kDone) *out = compute_handle(found.device, slot);
  return as_nvml(result);
}

}  // namespace

#pragma GCC visibility push(default)

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t instance,
                                                          unsigned int kind, unsigned int engine,
                                                          nvmlComputeInstanceProfileInfo_t* info) {
  Found found;
  bool known = kind < NVML_COMPUTE_INSTANCE_PROFILE_COUNT &&
               engine == NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED;
  if (!info || !known) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t result = lock_gpu(instance, &found)) return result;
  const MigProfile* profile = find_profile(*found.family, found.gpu().profile_id);
  if (kind >= std::size(kComputeSizes) || kComputeSizes[kind] > profile->slices) {
    return NVML_ERROR_NOT_SUPPORTED;
  }
  int slices = kComputeSizes[kind];
  *info = {kind,
           static_cast<unsigned>(slices),
           static_cast<unsigned>(profile->slices / slices),
           static_cast<unsigned>(compute_multiprocessors(*found.family, *profile, slices)),
           static_cast<unsigned>(profile->copy_engines),
           static_cast<unsigned>(profile->decoders),
           static_cast<unsigned>(profile->encoders),
           static_cast<unsigned>(profile->jpeg),
           static_cast<unsigned>(profile->ofa)};
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(
    nvmlGpuInstance_t instance, unsigned int profile_id, nvmlComputeInstancePlacement_t* placements,
    unsigned int* count) {
  Found found;
  if (profile_id >= std::size(kComputeSizes)) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t result = lock_gpu(instance, &found)) return result;
  int slices = kComputeSizes[profile_id];
  std::vector<nvmlComputeInstancePlacement_t> list;
  for (int start : free_compute_starts(*found.family, found.mig(), found.slot, slices)) {
    list.push_back({static_cast<unsigned>(start), static_cast<unsigned>(slices)});
  }
  return put_list(list, placements, count);
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t instance,
                                                                unsigned int profile_id,
                                                                unsigned int* count) {
  Found found;
  if (!count || profile_id >= std::size(kComputeSizes)) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t result = lock_gpu(instance, &found)) return result;
  MigState trial = found.mig();
  *count = 0;
  for (int slot;
       create_compute_instance(*found.family, trial, found.slot, kComputeSizes[profile_id], -1,
                               &slot) == MigResult::kDone;) {
    ++*count;
  }
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t gpu, unsigned int profile_id,
                                                  nvmlComputeInstance_t* instance) {
  return create_compute(gpu, profile_id, -1, instance);
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(
    nvmlGpuInstance_t gpu, unsigned int profile_id, const nvmlComputeInstancePlacement_t* placement,
    nvmlComputeInstance_t* instance) {
  if (!placement || placement->start >= kComputeSlices) return NVML_ERROR_INVALID_ARGUMENT;
  return create_compute(gpu, profile_id, static_cast<int>(placement->start), instance);
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t instance) {
  Found found;
  if (nvmlReturn_t result = lock_compute(instance, &found)) return result;
  return as_nvml(found.guard->remove_compute_instance(found.device, found.slot));
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t gpu, unsigned int profile_id,
                                                nvmlComputeInstance_t* instances,
                                                unsigned int* count) {
  Found found;
  if (!instances) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t result = lock_gpu(gpu, &found)) return result;
  std::vector<nvmlComputeInstance_t> list;
  for (int slot = 0; slot < kMaxInstances; slot++) {
    const ComputeInstance& compute = found.mig().compute[slot];
    bool wanted = compute.used && compute.gpu_slot == static_cast<uint32_t>(found.slot) &&
                  compute_profile_of(compute.slices) == profile_id;
    if (wanted) list.push_back(compute_handle(found.device, slot));
  }
  if (count) *count = kMaxInstances;
  return put_list(list, instances, count);
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t gpu, unsigned int id,
                                                   nvmlComputeInstance_t* instance) {
  Found found;
  if (!instance) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t result = lock_gpu(gpu, &found)) return result;
  for (int slot = 0; slot < kMaxInstances; slot++) {
    const ComputeInstance& compute = found.mig().compute[slot];
    bool same =
        compute.used && compute.gpu_slot == static_cast<uint32_t>(found.slot) && compute.id == id;
    if (!same) continue;
    *instance = compute_handle(found.device, slot);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t instance,
                                           nvmlComputeInstanceInfo_t* info) {
  Found found;
  if (!info) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t result = lock_compute(instance, &found)) return result;
  const ComputeInstance& compute = found.compute();
  *info = {handle_of(found.device),
           gpu_handle(found.device, static_cast<int>(compute.gpu_slot)),
           compute.id,
           compute_profile_of(compute.slices),
           {static_cast<unsigned>(compute.start), static_cast<unsigned>(compute.slices)}};
  return NVML_SUCCESS;
}

#pragma GCC visibility pop
