// The emulated NVML's view of the processes that use devices.
#include <algorithm>
#include <cstring>

#include "emulator/emulated_node/nvml_handles.h"

using namespace lambent::emulated_node;

namespace {

// Fills as many entries as there is room for, by `set(entry, pid, bytes, ids of instances)`. The
// processes of a device in MIG mode are those of its instances.
template <class Info, class Set>
nvmlReturn_t processes(nvmlDevice_t handle, unsigned* count, Info* infos, Set set,
                       bool mps_clients_only = false) {
  std::shared_ptr<Node> node;
  int wanted;
  if (nvmlReturn_t result = find_partition(handle, &node, &wanted)) return result;
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned room = infos ? *count : 0, found = 0;
  Node::Guard guard(*node);
  guard.reap(true);
  for (int partition : guard.partitions()) {
    int device = device_of_partition(partition), slot = slot_of_partition(partition);
    if (partition != wanted && (slot_of_partition(wanted) >= 0 || device != wanted)) continue;
    const MigState& mig = guard->devices[device].mig;
    unsigned gpu = slot < 0 ? 0xFFFFFFFFu : mig.gpu[mig.compute[slot].gpu_slot].id;
    unsigned compute = slot < 0 ? 0xFFFFFFFFu : mig.compute[slot].id;
    for (uint32_t i = 0; i < kMaxProcesses; i++) {
      const ProcessRow& row = guard->rows[i];
      if (!row.used || row.contexts[partition] == 0) continue;
      if (mps_clients_only && !row.mps_client) continue;
      uint64_t bytes = row.bytes[partition] + shared_bytes_of(guard->shared, partition, i);
      if (found < room) set(infos[found], static_cast<unsigned>(row.pid), bytes, gpu, compute);
      found++;
    }
  }
  *count = found;
  return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

void set_process(nvmlProcessInfo_t& info, unsigned pid, unsigned long long bytes, unsigned gpu,
                 unsigned compute) {
  info = {pid, bytes, gpu, compute};
}

}  // namespace

#pragma GCC visibility push(default)

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t handle, unsigned int* count,
                                                  nvmlProcessInfo_v1_t* infos) {
  return processes(
      handle, count, infos,
      [](nvmlProcessInfo_v1_t& info, unsigned pid, unsigned long long bytes, unsigned, unsigned) {
        info = {pid, bytes};
      });
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t handle, unsigned int* count,
                                                     nvmlProcessInfo_t* infos) {
  return processes(handle, count, infos, set_process);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t handle, unsigned int* count,
                                                     nvmlProcessInfo_t* infos) {
  return processes(handle, count, infos, set_process);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t handle, unsigned int* count,
                                                      nvmlProcessInfo_t*) {
  std::shared_ptr<Node> shared;
  int device;
  if (nvmlReturn_t result = find_partition(handle, &shared, &device)) return result;
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  *count = 0;
  return NVML_SUCCESS;
}

// Clients of MPS, which are compute processes too: there is no server that would stand for them.
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t handle, unsigned int* count,
                                                        nvmlProcessInfo_t* infos) {
  return processes(handle, count, infos, set_process, true);
}

// The beginning of the program's name; only of processes that use the emulated driver.
nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char* name, unsigned int length) {
  auto node = nvml_node();
  if (!node) return NVML_ERROR_UNINITIALIZED;
  if (!name || length == 0) return NVML_ERROR_INVALID_ARGUMENT;
  Node::Guard guard(*node);
  guard.reap(true);
  for (const ProcessRow& row : guard->rows) {
    if (!row.used || static_cast<unsigned>(row.pid) != pid) continue;
    const std::string program(row.program, strnlen(row.program, sizeof row.program));
    return put_text(program.substr(0, length - 1), name, length);
  }
  return NVML_ERROR_NOT_FOUND;
}

#pragma GCC visibility pop
