// Launch attributes, one by one: what each means here, or why it is refused.
#include <algorithm>
#include <cstring>

#include "emulator/emulated_cuda/kernel_launch.h"
#include "emulator/emulated_cuda/process.h"

namespace lambent::emulated_cuda {

namespace {

void keep(KernelLaunch& launch, CUlaunchAttributeID id, const CUlaunchAttributeValue& value) {
  for (CUlaunchAttribute& own : launch.attributes) {
    if (own.id == id) {
      own.value = value;
      return;
    }
  }
  CUlaunchAttribute attribute{};
  attribute.id = id;
  attribute.value = value;
  launch.attributes.push_back(attribute);
}

bool single_block(unsigned x, unsigned y, unsigned z) { return x <= 1 && y <= 1 && z <= 1; }

CUresult refuse(const char* name, const char* reason) {
  log_refusal(name, reason);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

CUresult set_attribute(KernelLaunch& launch, CUlaunchAttributeID id,
                       const CUlaunchAttributeValue& value) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      if (value.cooperative != 0 && value.cooperative != 1) return CUDA_ERROR_INVALID_VALUE;
      launch.cooperative = value.cooperative;
      break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      launch.priority = clamp_priority(value.priority);
      break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      if (single_block(value.clusterDim.x, value.clusterDim.y, value.clusterDim.z)) break;
      return refuse("launch attribute CLUSTER_DIMENSION", "clusters are not emulated");
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
      if (single_block(value.preferredClusterDim.x, value.preferredClusterDim.y,
                       value.preferredClusterDim.z)) {
        break;
      }
      return refuse("launch attribute PREFERRED_CLUSTER_DIMENSION", "clusters are not emulated");
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      return refuse("launch attribute PROGRAMMATIC_EVENT",
                    "kernels cannot trigger events while they run");
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      return refuse("launch attribute LAUNCH_COMPLETION_EVENT",
                    "that all blocks have begun is not an event here");
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
      if (value.deviceUpdatableKernelNode.deviceUpdatable == 0) break;
      return refuse("launch attribute DEVICE_UPDATABLE_KERNEL_NODE",
                    "kernels do not change graphs here");
    // Hints about caches, placement and the visibility of writes: nothing here depends on them. A
    // serialisation that may be relaxed is kept whole.
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  keep(launch, id, value);
  return CUDA_SUCCESS;
}

CUresult get_attribute(const KernelLaunch& launch, CUlaunchAttributeID id,
                       CUlaunchAttributeValue* value) {
  if (id <= CU_LAUNCH_ATTRIBUTE_IGNORE || id > CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::memset(value, 0, sizeof *value);
  for (const CUlaunchAttribute& own : launch.attributes) {
    if (own.id == id) *value = own.value;
  }
  if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) value->priority = launch.priority;
  if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) value->cooperative = launch.cooperative;
  return CUDA_SUCCESS;
}

}  // namespace lambent::emulated_cuda
