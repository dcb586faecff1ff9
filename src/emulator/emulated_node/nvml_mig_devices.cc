// NVML's functions for the devices that MIG makes. Every call is for any thread.
#include "emulator/emulated_node/nvml_mig_handles.h"

using namespace lambent::emulated_node;

#pragma GCC visibility push(default)

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
  if (slot < 0) return NVML_ERROR_NOT_SUPPORTED;  // only of MIG devices
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
