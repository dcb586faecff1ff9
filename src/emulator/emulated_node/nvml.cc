// The emulated libnvidia-ml.so.1: reads the node that the driver's processes share, and holds no
// row of it. Every call is for any thread.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/base/mutex.h"
#include "emulator/emulated_node/nvml_handles.h"
#include "emulator/emulated_node/pci_bus.h"
#include "emulator/emulated_node/settings.h"

using namespace lambent::emulated_node;

namespace {

constexpr char kDriverVersion[] = "580.00.00-emulated";
constexpr char kNvmlVersion[] = "13.580.00.00-emulated";

lambent::Mutex g_mutex;
int g_references GUARDED_BY(g_mutex) = 0;
std::shared_ptr<Node>& held_node() REQUIRES(g_mutex) {
  static auto* node = new std::shared_ptr<Node>;
  return *node;
}

}  // namespace

namespace lambent::emulated_node {

nvmlReturn_t put_text(const std::string& text, char* out, unsigned length) {
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  if (length <= text.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

std::shared_ptr<Node> nvml_node() {
  const lambent::MutexLock lock(g_mutex);
  return held_node();
}

nvmlReturn_t find_partition(nvmlDevice_t handle, std::shared_ptr<Node>* node, int* partition) {
  *node = nvml_node();
  if (!*node) return NVML_ERROR_UNINITIALIZED;
  auto index = reinterpret_cast<uintptr_t>(handle) - 1;
  if (index >= kMaxPartitions) return NVML_ERROR_INVALID_ARGUMENT;
  *partition = static_cast<int>(index);
  int device = device_of_partition(*partition), slot = slot_of_partition(*partition);
  if (device >= (*node)->spec().device_count) return NVML_ERROR_INVALID_ARGUMENT;
  Node::Guard guard(**node);
  if (guard->devices[device].health.lost) return NVML_ERROR_GPU_IS_LOST;
  if ((*node)->is_cut_off()) return NVML_ERROR_TIMEOUT;
  if (slot < 0) return NVML_SUCCESS;
  const MigState& mig = guard->devices[device].mig;
  return mig.enabled && mig.compute[slot].used ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t find_device(nvmlDevice_t handle, std::shared_ptr<Node>* node, int* device) {
  if (nvmlReturn_t result = find_partition(handle, node, device)) return result;
  return slot_of_partition(*device) < 0 ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

}  // namespace lambent::emulated_node

#pragma GCC visibility push(default)

const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS:
      return "success";
    case NVML_ERROR_UNINITIALIZED:
      return "NVML is not initialised";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "invalid argument";
    case NVML_ERROR_NOT_SUPPORTED:
      return "not supported";
    case NVML_ERROR_NOT_FOUND:
      return "not found";
    case NVML_ERROR_INSUFFICIENT_RESOURCES:
      return "there is no room for the instance";
    case NVML_ERROR_IN_USE:
      return "in use";
    case NVML_ERROR_GPU_IS_LOST:
      return "the device is lost";
    case NVML_ERROR_TIMEOUT:
      return "timed out";
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return "the buffer is too small";
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "the driver is not loaded";
    default:
      return "unknown error";
  }
}

nvmlReturn_t nvmlInit_v2(void) {
  const lambent::MutexLock lock(g_mutex);
  if (g_references == 0) {
    Settings settings = read_settings();
    std::string error;
    held_node() = Node::open(settings.node_path, settings.machine, &error);
    if (!held_node()) {
      std::fprintf(stderr, "emulated NVML: %s\n", error.c_str());
      return NVML_ERROR_DRIVER_NOT_LOADED;
    }
  }
  g_references++;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit(void) { return nvmlInit_v2(); }
nvmlReturn_t nvmlInitWithFlags(unsigned int) { return nvmlInit_v2(); }

nvmlReturn_t nvmlShutdown(void) {
  const lambent::MutexLock lock(g_mutex);
  if (g_references == 0) return NVML_ERROR_UNINITIALIZED;
  if (--g_references == 0) held_node() = nullptr;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  return nvml_node() ? put_text(kDriverVersion, version, length) : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned int length) {
  return nvml_node() ? put_text(kNvmlVersion, version, length) : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  if (!version) return NVML_ERROR_INVALID_ARGUMENT;
  *version = 13000;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  auto shared = nvml_node();
  if (!shared) return NVML_ERROR_UNINITIALIZED;
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  *count = static_cast<unsigned>(shared->spec().device_count);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int* count) { return nvmlDeviceGetCount_v2(count); }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* handle) {
  auto shared = nvml_node();
  if (!shared) return NVML_ERROR_UNINITIALIZED;
  if (!handle || index >= static_cast<unsigned>(shared->spec().device_count)) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  *handle = handle_of(static_cast<int>(index));
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t* handle) {
  return nvmlDeviceGetHandleByIndex_v2(index, handle);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* handle) {
  auto shared = nvml_node();
  if (!shared) return NVML_ERROR_UNINITIALIZED;
  if (!uuid || !handle) return NVML_ERROR_INVALID_ARGUMENT;
  for (int i : Node::Guard(*shared).partitions()) {
    char raw[16];
    if (shared->device_uuid(i, raw) != uuid) continue;
    *handle = handle_of(i);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvmlDevice_t* handle) {
  auto shared = nvml_node();
  if (!shared) return NVML_ERROR_UNINITIALIZED;
  if (!id || !handle) return NVML_ERROR_INVALID_ARGUMENT;
  const auto device = device_at(id);
  if (!device) return NVML_ERROR_INVALID_ARGUMENT;
  if (*device >= shared->spec().device_count) return NVML_ERROR_NOT_FOUND;
  *handle = handle_of(*device);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t handle, unsigned int* index) {
  std::shared_ptr<Node> shared;
  int device;
  if (nvmlReturn_t result = find_partition(handle, &shared, &device)) return result;
  if (!index) return NVML_ERROR_INVALID_ARGUMENT;
  int slot = slot_of_partition(device);
  *index = static_cast<unsigned>(slot < 0 ? device : slot);
  return NVML_SUCCESS;
}

// As if the nodes of devices had been made in the order of the bus.
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t handle, unsigned int* minor) {
  std::shared_ptr<Node> shared;
  int device;
  if (nvmlReturn_t result = find_partition(handle, &shared, &device)) return result;
  if (!minor) return NVML_ERROR_INVALID_ARGUMENT;
  *minor = static_cast<unsigned>(device_of_partition(device));
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t handle, char* name, unsigned int length) {
  std::shared_ptr<Node> shared;
  int device;
  if (nvmlReturn_t result = find_partition(handle, &shared, &device)) return result;
  return put_text(Node::Guard(*shared).spec_of(device).name, name, length);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t handle, char* uuid, unsigned int length) {
  std::shared_ptr<Node> shared;
  int device;
  if (nvmlReturn_t result = find_partition(handle, &shared, &device)) return result;
  char raw[16];
  return put_text(shared->device_uuid(device, raw), uuid, length);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t handle, nvmlPciInfo_t* info) {
  std::shared_ptr<Node> shared;
  int device;
  if (nvmlReturn_t result = find_partition(handle, &shared, &device)) return result;
  if (!info) return NVML_ERROR_INVALID_ARGUMENT;
  *info = {};
  std::string id = Node::pci_bus_id(device);
  std::snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "%s", id.c_str());
  std::snprintf(info->busId, sizeof info->busId, "0000%s", id.c_str());
  info->bus = static_cast<unsigned>(device_of_partition(device) + 1);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t handle, int* major, int* minor) {
  std::shared_ptr<Node> shared;
  int device;
  if (nvmlReturn_t result = find_partition(handle, &shared, &device)) return result;
  if (!major || !minor) return NVML_ERROR_INVALID_ARGUMENT;
  *major = shared->device().compute_major;
  *minor = shared->device().compute_minor;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t handle, nvmlMemory_t* memory) {
  std::shared_ptr<Node> shared;
  int device;
  if (nvmlReturn_t result = find_partition(handle, &shared, &device)) return result;
  if (!memory) return NVML_ERROR_INVALID_ARGUMENT;
  Node::Guard guard(*shared);
  if (guard.spec_of(device).integrated) return NVML_ERROR_NOT_SUPPORTED;  // it has none of its own
  guard.reap(true);
  memory->total = guard.spec_of(device).memory_bytes;
  memory->used = std::min<unsigned long long>(memory->total, guard.used_bytes(device));
  memory->free = memory->total - memory->used;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t handle, nvmlMemory_v2_t* memory) {
  if (!memory) return NVML_ERROR_INVALID_ARGUMENT;
  if (memory->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  nvmlMemory_t plain;
  if (nvmlReturn_t result = nvmlDeviceGetMemoryInfo(handle, &plain)) return result;
  *memory = {nvmlMemory_v2, plain.total, 0, plain.free, plain.used};
  return NVML_SUCCESS;
}

// Memory utilisation is not modelled: while kernels run, memory is taken to be in use as well.
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t handle, nvmlUtilization_t* utilization) {
  std::shared_ptr<Node> shared;
  int device;
  if (nvmlReturn_t result = find_partition(handle, &shared, &device)) return result;
  if (!utilization) return NVML_ERROR_INVALID_ARGUMENT;
  if (slot_of_partition(device) >= 0) return NVML_ERROR_NOT_SUPPORTED;  // only of whole devices
  Node::Guard guard(*shared);
  guard.reap(true);
  auto percent = static_cast<unsigned>(utilization_percent(guard.model(device)));
  *utilization = {percent, percent};
  return NVML_SUCCESS;
}

#pragma GCC visibility pop
