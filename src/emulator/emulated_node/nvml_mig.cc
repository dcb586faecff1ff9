// NVML's functions for MIG: the mode of a device, profiles and GPU instances. Every call is for any
// thread.
#include <vector>

#include "emulator/emulated_node/nvml_mig_handles.h"

using namespace lambent::emulated_node;

namespace {

template <class Info>
void describe(const MigProfile& profile, Info* info) {
  info->id = static_cast<unsigned>(profile.id);
  info->isP2pSupported = 0;
  info->sliceCount = static_cast<unsigned>(profile.slices);
  info->instanceCount = static_cast<unsigned>(profile.most);
  info->multiprocessorCount = static_cast<unsigned>(profile.multiprocessors);
  info->copyEngineCount = static_cast<unsigned>(profile.copy_engines);
  info->decoderCount = static_cast<unsigned>(profile.decoders);
  info->encoderCount = static_cast<unsigned>(profile.encoders);
  info->jpegCount = static_cast<unsigned>(profile.jpeg);
  info->ofaCount = static_cast<unsigned>(profile.ofa);
  info->memorySizeMB = static_cast<unsigned long long>(profile.memory_mib);
}

const MigProfile* profile_of_kind(const MigFamily& family, unsigned kind) {
  for (const MigProfile& profile : family.profiles) {
    if (static_cast<unsigned>(profile.kind) == kind) return &profile;
  }
  return nullptr;
}

nvmlReturn_t create_gpu(nvmlDevice_t device, unsigned profile_id, int start,
                        nvmlGpuInstance_t* out) {
  Found found;
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t result = lock_device(device, &found)) return result;
  int slot = -1;
  MigResult result =
      create_gpu_instance(*found.family, found.mig(), static_cast<int>(profile_id), start, &slot);
  if (result == MigResult::kDone) *out = gpu_handle(found.device, slot);
  return as_nvml(result);
}

}  // namespace

#pragma GCC visibility push(default)

// The mode changes at once, as on devices since Hopper.
nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode,
                                  nvmlReturn_t* activation) {
  Found found;
  if (!activation || mode > NVML_DEVICE_MIG_ENABLE) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t result = lock_device(device, &found)) return result;
  *activation = as_nvml(found.guard->set_mig_mode(found.device, mode == NVML_DEVICE_MIG_ENABLE));
  return *activation;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int* current,
                                  unsigned int* pending) {
  Found found;
  if (!current || !pending) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t result = lock_device(device, &found)) return result;
  *current = *pending = found.mig().enabled ? NVML_DEVICE_MIG_ENABLE : NVML_DEVICE_MIG_DISABLE;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int kind,
                                                 nvmlGpuInstanceProfileInfo_t* info) {
  Found found;
  if (!info || kind >= NVML_GPU_INSTANCE_PROFILE_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t result = lock_device(device, &found)) return result;
  const MigProfile* profile = profile_of_kind(*found.family, kind);
  if (!profile) return NVML_ERROR_NOT_SUPPORTED;
  describe(*profile, info);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int kind,
                                                  nvmlGpuInstanceProfileInfo_v2_t* info) {
  Found found;
  if (!info || kind >= NVML_GPU_INSTANCE_PROFILE_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
  if (info->version != nvmlGpuInstanceProfileInfo_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (nvmlReturn_t result = lock_device(device, &found)) return result;
  const MigProfile* profile = profile_of_kind(*found.family, kind);
  if (!profile) return NVML_ERROR_NOT_SUPPORTED;
  describe(*profile, info);
  std::snprintf(info->name, sizeof info->name, "MIG %s", profile->name);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device,
                                                           unsigned int profile_id,
                                                           nvmlGpuInstancePlacement_t* placements,
                                                           unsigned int* count) {
  Found found;
  if (nvmlReturn_t result = lock_device(device, &found)) return result;
  const MigProfile* profile = find_profile(*found.family, static_cast<int>(profile_id));
  if (!profile) return NVML_ERROR_INVALID_ARGUMENT;
  std::vector<nvmlGpuInstancePlacement_t> list;
  for (int start : free_starts(*found.family, {}, *profile)) {
    list.push_back({static_cast<unsigned>(start), static_cast<unsigned>(profile->memory_slices)});
  }
  return put_list(list, placements, count);
}

// As many of the profile as still fit beside the present ones.
nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int profile_id,
                                                       unsigned int* count) {
  Found found;
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t result = lock_device(device, &found)) return result;
  if (!find_profile(*found.family, static_cast<int>(profile_id)))
    return NVML_ERROR_INVALID_ARGUMENT;
  MigState trial = found.mig();
  *count = 0;
  for (int slot; create_gpu_instance(*found.family, trial, static_cast<int>(profile_id), -1,
                                     &slot) == MigResult::kDone;) {
    ++*count;
  }
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int profile_id,
                                         nvmlGpuInstance_t* instance) {
  return create_gpu(device, profile_id, -1, instance);
}

nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int profile_id,
                                                      const nvmlGpuInstancePlacement_t* placement,
                                                      nvmlGpuInstance_t* instance) {
  if (!placement || placement->start >= kMemorySlices) return NVML_ERROR_INVALID_ARGUMENT;
  return create_gpu(device, profile_id, static_cast<int>(placement->start), instance);
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance) {
  Found found;
  if (nvmlReturn_t result = lock_gpu(instance, &found)) return result;
  return as_nvml(destroy_gpu_instance(found.mig(), found.slot));
}

nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int profile_id,
                                       nvmlGpuInstance_t* instances, unsigned int* count) {
  Found found;
  if (!instances) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t result = lock_device(device, &found)) return result;
  std::vector<nvmlGpuInstance_t> list;
  for (int slot = 0; slot < kMaxInstances; slot++) {
    const GpuInstance& gpu = found.mig().gpu[slot];
    bool wanted = gpu.used && static_cast<unsigned>(gpu.profile_id) == profile_id;
    if (wanted) list.push_back(gpu_handle(found.device, slot));
  }
  if (count) *count = kMaxInstances;  // the caller's array has room for all, as NVML demands
  return put_list(list, instances, count);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id,
                                          nvmlGpuInstance_t* instance) {
  Found found;
  if (!instance) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t result = lock_device(device, &found)) return result;
  for (int slot = 0; slot < kMaxInstances; slot++) {
    const GpuInstance& gpu = found.mig().gpu[slot];
    if (!gpu.used || gpu.id != id) continue;
    *instance = gpu_handle(found.device, slot);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t* info) {
  Found found;
  if (!info) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t result = lock_gpu(instance, &found)) return result;
  const GpuInstance& gpu = found.gpu();
  const MigProfile* profile = find_profile(*found.family, gpu.profile_id);
  *info = {handle_of(found.device),
           gpu.id,
           static_cast<unsigned>(gpu.profile_id),
           {static_cast<unsigned>(gpu.start), static_cast<unsigned>(profile->memory_slices)}};
  return NVML_SUCCESS;
}

#pragma GCC visibility pop
