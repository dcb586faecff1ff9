// A libnvidia-ml.so.1 for tests: one device of 16 GiB, of which 1 GiB is used, or FAKE_NVML_COUNT
// that are alike. While the file named by FAKE_NVML_HANG exists its readings hang, while that of
// FAKE_NVML_LOST exists the device is lost; while that of FAKE_NVML_NO_HANDLE does, it has no
// handle either. While that of FAKE_NVML_ECC exists it has errors of memory and could not replace a
// row. The numbers in the file of FAKE_NVML_XID are Xids that it reports; the file goes when they
// are read. That of FAKE_NVML_BREAK_EVENTS goes when it is seen and breaks the set of events that
// there is; while that of FAKE_NVML_UNTOLD exists, errors of memory and utilisation are not told;
// while that of FAKE_NVML_XID_HANGS exists, Xid 119 is told once and readings hang.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vector>

#include "gpu/cuda_abi/nvml.h"

#pragma GCC visibility push(default)

namespace {

constexpr unsigned long long kTotal = 16ull << 30;
constexpr unsigned long long kUsed = 1ull << 30;

bool is_there(const char* variable) {
  const char* path = getenv(variable);
  return path != nullptr && access(path, F_OK) == 0;
}

unsigned devices() {
  const char* count = getenv("FAKE_NVML_COUNT");
  return count == nullptr ? 1 : static_cast<unsigned>(atoi(count));
}

// The sleep is what is tested: an NVML that does not return until the file is taken away.
nvmlReturn_t state() {
  while (is_there("FAKE_NVML_HANG") || is_there("FAKE_NVML_XID_HANGS")) usleep(10000);
  return is_there("FAKE_NVML_LOST") ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

// Sets of events that were made, and how many of them are broken: the first ones.
uintptr_t event_sets = 0, broken_event_sets = 0;

// Xids that were read and not told yet.
std::vector<unsigned long long>& xids() {
  static std::vector<unsigned long long> waiting;
  return waiting;
}

void read_xids() {
  static bool told_119 = false;
  if (is_there("FAKE_NVML_XID_HANGS") && !told_119) {
    told_119 = true;
    xids().push_back(119);
  }
  const char* path = getenv("FAKE_NVML_XID");
  FILE* file = path != nullptr ? fopen(path, "r") : nullptr;
  if (file == nullptr) return;
  for (unsigned long long xid = 0; fscanf(file, "%llu", &xid) == 1;) xids().push_back(xid);
  fclose(file);
  unlink(path);
}

nvmlReturn_t answer(const char* text, char* out, unsigned length) {
  if (strlen(text) >= length) return NVML_ERROR_INSUFFICIENT_SIZE;
  strcpy(out, text);
  return NVML_SUCCESS;
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlInit_v2(void) { return NVML_SUCCESS; }
nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) { return *count = devices(), NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  *device = reinterpret_cast<nvmlDevice_t>(1);
  if (is_there("FAKE_NVML_NO_HANDLE")) return NVML_ERROR_GPU_IS_LOST;
  return index < devices() ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t, char* name, unsigned length) {
  return answer("Fake", name, length);
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t, char* uuid, unsigned length) {
  return answer("GPU-00000000-0000-0000-0000-00000000fa4e", uuid, length);
}
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t, unsigned* minor) {
  *minor = 3;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t, nvmlMemory_t* memory) {
  if (is_there("FAKE_NVML_INTEGRATED")) return NVML_ERROR_NOT_SUPPORTED;
  *memory = {kTotal, kTotal - kUsed, kUsed};
  return state();
}
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t, nvmlMemory_v2_t* memory) {
  if (memory->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  *memory = {memory->version, kTotal, 0, kTotal - kUsed, kUsed};
  return state();
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t, unsigned* count,
                                                     nvmlProcessInfo_t* processes) {
  if (*count < 2) return *count = 2, NVML_ERROR_INSUFFICIENT_SIZE;
  *count = 2;
  processes[0] = {1, kUsed, 0, 0};
  processes[1] = {2, 1 << 20, 0, 0};
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned* count,
                                                      nvmlProcessInfo_t* processes) {
  return nvmlDeviceGetComputeRunningProcesses_v3(device, count, processes);
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count,
                                                        nvmlProcessInfo_t* processes) {
  return nvmlDeviceGetComputeRunningProcesses_v3(device, count, processes);
}
struct Detail {
  unsigned process;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
  unsigned long long used_protected;
};
struct Details {
  unsigned version, mode, count;
  Detail* processes;
};
nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t, Details* list) {
  if (list->count < 2) return list->count = 2, NVML_ERROR_INSUFFICIENT_SIZE;
  list->count = 2;
  list->processes[0] = {1, kUsed, 0, 0, 0};
  list->processes[1] = {2, 1 << 20, 0, 0, kUsed};
  return NVML_SUCCESS;
}
struct Accounting {
  unsigned busy, memory_busy;
  unsigned long long most_used, time, since;
  unsigned is_running, reserved[5];
};
nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t, unsigned, Accounting* stats) {
  *stats = {1, 2, kUsed, 3, 4, 5, {}};
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t, nvmlDeviceAttributes_t* attributes) {
  *attributes = {132, 1, 2, 3, 4, 5, 6, 7, kTotal >> 20};
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetConfComputeProtectedMemoryUsage(nvmlDevice_t device,
                                                          nvmlMemory_t* memory) {
  return nvmlDeviceGetMemoryInfo(device, memory);
}
struct ConfidentialSizes {
  unsigned long long protected_kib, unprotected_kib;
};
nvmlReturn_t nvmlDeviceGetConfComputeMemSizeInfo(nvmlDevice_t, ConfidentialSizes* sizes) {
  *sizes = {kTotal >> 10, 1};
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t, nvmlUtilization_t* utilization) {
  if (is_there("FAKE_NVML_UNTOLD")) return NVML_ERROR_UNKNOWN;
  *utilization = {42, 7};
  return state();
}
nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  *set = reinterpret_cast<nvmlEventSet_t>(++event_sets);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t, unsigned long long, nvmlEventSet_t) {
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* event, unsigned) {
  if (is_there("FAKE_NVML_BREAK_EVENTS")) {
    unlink(getenv("FAKE_NVML_BREAK_EVENTS"));
    broken_event_sets = event_sets;
  }
  if (reinterpret_cast<uintptr_t>(set) <= broken_event_sets) return NVML_ERROR_GPU_IS_LOST;
  if (xids().empty()) read_xids();
  if (xids().empty()) return NVML_ERROR_TIMEOUT;
  *event = {reinterpret_cast<nvmlDevice_t>(1), nvmlEventTypeXidCriticalError, xids().front(),
            0xFFFFFFFFu, 0xFFFFFFFFu};
  xids().erase(xids().begin());
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t) { return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t, nvmlMemoryErrorType_t, nvmlEccCounterType_t,
                                         unsigned long long* count) {
  if (is_there("FAKE_NVML_UNTOLD")) return NVML_ERROR_UNKNOWN;
  *count = is_there("FAKE_NVML_ECC") ? 3 : 0;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t, unsigned* corrected, unsigned* uncorrected,
                                       unsigned* pending, unsigned* failed) {
  if (is_there("FAKE_NVML_UNTOLD")) return NVML_ERROR_UNKNOWN;
  *corrected = 0;
  *uncorrected = *failed = *pending = is_there("FAKE_NVML_ECC") ? 1 : 0;
  return NVML_SUCCESS;
}

}  // extern "C"
#pragma GCC visibility pop
