// NVML's functions for MIG: profiles, GPU instances, compute instances, and the devices that they
// make. Every call is for any thread.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "emulated_node/nvml_handles.h"

using namespace lambent::emulated_node;

namespace {

constexpr uintptr_t kGpuInstances = 0x10000, kComputeInstances = 0x20000;  // of handles
constexpr int kComputeSizes[] = {1, 2, 3, 4, 7};                           // by profile id

nvmlReturn_t as_nvml(MigResult result) {
  switch (result) {
    case MigResult::kDone:
      return NVML_SUCCESS;
    case MigResult::kNotSupported:
      return NVML_ERROR_NOT_SUPPORTED;
    case MigResult::kInvalid:
      return NVML_ERROR_INVALID_ARGUMENT;
    case MigResult::kNotFound:
      return NVML_ERROR_NOT_FOUND;
    case MigResult::kNoRoom:
      return NVML_ERROR_INSUFFICIENT_RESOURCES;
    case MigResult::kInUse:
      return NVML_ERROR_IN_USE;
  }
  return NVML_ERROR_UNKNOWN;
}

nvmlGpuInstance_t gpu_handle(int device, int slot) {
  return reinterpret_cast<nvmlGpuInstance_t>(kGpuInstances +
                                             static_cast<uintptr_t>(device * kMaxInstances + slot));
}

nvmlComputeInstance_t compute_handle(int device, int slot) {
  return reinterpret_cast<nvmlComputeInstance_t>(
      kComputeInstances + static_cast<uintptr_t>(device * kMaxInstances + slot));
}

// An instance found by its handle, with the node locked.
struct Found {
  std::shared_ptr<Node> node;
  std::unique_ptr<Node::Guard> guard;
  const MigFamily* family = nullptr;
  int device = 0, slot = 0;

  MigState& mig() { return (*guard)->devices[device].mig; }
  GpuInstance& gpu() { return mig().gpu[slot]; }
  ComputeInstance& compute() { return mig().compute[slot]; }
};

nvmlReturn_t lock_device(nvmlDevice_t handle, Found* found) {
  if (nvmlReturn_t result = find_device(handle, &found->node, &found->device)) return result;
  found->family = found->node->mig_family();
  if (!found->family) return NVML_ERROR_NOT_SUPPORTED;
  found->guard = std::make_unique<Node::Guard>(*found->node);
  return NVML_SUCCESS;
}

nvmlReturn_t lock_instance(uintptr_t number, Found* found) {
  found->node = nvml_node();
  if (!found->node) return NVML_ERROR_UNINITIALIZED;
  if (number >= static_cast<uintptr_t>(kMaxDevices * kMaxInstances)) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  found->device = static_cast<int>(number) / kMaxInstances;
  found->slot = static_cast<int>(number) % kMaxInstances;
  found->family = found->node->mig_family();
  if (!found->family) return NVML_ERROR_NOT_SUPPORTED;
  found->guard = std::make_unique<Node::Guard>(*found->node);
  return NVML_SUCCESS;
}

nvmlReturn_t lock_gpu(nvmlGpuInstance_t handle, Found* found) {
  nvmlReturn_t result = lock_instance(reinterpret_cast<uintptr_t>(handle) - kGpuInstances, found);
  if (result) return result;
  return found->gpu().used ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t lock_compute(nvmlComputeInstance_t handle, Found* found) {
  nvmlReturn_t result =
      lock_instance(reinterpret_cast<uintptr_t>(handle) - kComputeInstances, found);
  if (result) return result;
  return found->compute().used ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

unsigned compute_profile_of(int slices) {
  return static_cast<unsigned>(
      std::find(std::begin(kComputeSizes), std::end(kComputeSizes), slices) -
      std::begin(kComputeSizes));
}

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

// Copies a list out as NVML does: a null array asks for the count alone.
template <class T>
nvmlReturn_t put_list(const std::vector<T>& list, T* out, unsigned* count) {
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  auto size = static_cast<unsigned>(list.size());
  if (out && *count < size) return NVML_ERROR_INSUFFICIENT_SIZE;
  if (out) std::copy(list.begin(), list.end(), out);
  *count = size;
  return NVML_SUCCESS;
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

// As many of the profile as still fit beside what there is.
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

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int* is_mig) {
  std::shared_ptr<Node> node;
  int partition;
  if (!is_mig) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t result = find_partition(device, &node, &partition)) return result;
  *is_mig = slot_of_partition(partition) >= 0;
  return NVML_SUCCESS;
}

namespace {
nvmlReturn_t instance_ids(nvmlDevice_t handle, unsigned* gpu, unsigned* compute) {
  std::shared_ptr<Node> node;
  int partition;
  if (nvmlReturn_t result = find_partition(handle, &node, &partition)) return result;
  int slot = slot_of_partition(partition);
  if (slot < 0) return NVML_ERROR_INVALID_ARGUMENT;
  Node::Guard guard(*node);
  const MigState& mig = guard->devices[device_of_partition(partition)].mig;
  *compute = mig.compute[slot].id;
  *gpu = mig.gpu[mig.compute[slot].gpu_slot].id;
  return NVML_SUCCESS;
}
}  // namespace

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int* id) {
  unsigned compute;
  return id ? instance_ids(device, id, &compute) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int* id) {
  unsigned gpu;
  return id ? instance_ids(device, &gpu, id) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int* count) {
  std::shared_ptr<Node> node;
  int index;
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t result = find_device(device, &node, &index)) return result;
  *count = node->mig_family() ? kMaxInstances : 0;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                 nvmlDevice_t* mig_device) {
  Found found;
  if (!mig_device || index >= kMaxInstances) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t result = lock_device(device, &found)) return result;
  if (!found.mig().enabled || !found.mig().compute[index].used) return NVML_ERROR_NOT_FOUND;
  *mig_device = handle_of(partition_of(found.device, static_cast<int>(index)));
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig_device,
                                                          nvmlDevice_t* device) {
  std::shared_ptr<Node> node;
  int partition;
  if (!device) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t result = find_partition(mig_device, &node, &partition)) return result;
  if (slot_of_partition(partition) < 0) return NVML_ERROR_INVALID_ARGUMENT;
  *device = handle_of(device_of_partition(partition));
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t handle, nvmlDeviceAttributes_t* attributes) {
  std::shared_ptr<Node> node;
  int partition;
  if (!attributes) return NVML_ERROR_INVALID_ARGUMENT;
  if (nvmlReturn_t result = find_partition(handle, &node, &partition)) return result;
  int slot = slot_of_partition(partition);
  if (slot < 0) return NVML_ERROR_NOT_SUPPORTED;  // of MIG devices alone
  Node::Guard guard(*node);
  const MigState& mig = guard->devices[device_of_partition(partition)].mig;
  const ComputeInstance& compute = mig.compute[slot];
  const MigProfile* profile =
      find_profile(*node->mig_family(), mig.gpu[compute.gpu_slot].profile_id);
  *attributes = {
      static_cast<unsigned>(compute_multiprocessors(*node->mig_family(), *profile, compute.slices)),
      static_cast<unsigned>(profile->copy_engines),
      static_cast<unsigned>(profile->decoders),
      static_cast<unsigned>(profile->encoders),
      static_cast<unsigned>(profile->jpeg),
      static_cast<unsigned>(profile->ofa),
      static_cast<unsigned>(profile->slices),
      static_cast<unsigned>(compute.slices),
      static_cast<unsigned long long>(profile->memory_mib)};
  return NVML_SUCCESS;
}

#pragma GCC visibility pop
