// The NVML shim: everything is forwarded, only the memory queries tell the limit of the sandbox.
#include <pthread.h>
#include <stdint.h>

#include <new>

#include "gpu/ledger/view.h"
#include "gpu/shim/log.h"
#include "gpu/shim/memory_view.h"
#include "gpu/shim/real_library.h"
#include "nvml_slots.h"

#define SHIM_EXPORT extern "C" [[gnu::visibility("default")]]

namespace lambent::shim {
namespace {

constexpr const char* kUsualPaths[] = {
    "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "/usr/lib64/libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
    "/usr/lib/libnvidia-ml.so.1",
    "/usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.1",
    nullptr,
};
constexpr int kLibraryNotFound = 12;   // NVML_ERROR_LIBRARY_NOT_FOUND
constexpr int kFunctionNotFound = 13;  // NVML_ERROR_FUNCTION_NOT_FOUND

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct MemoryVersion2 {
  unsigned version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};

// nvmlProcessInfo_v1_t and what followed it.
struct ProcessVersion1 {
  unsigned process_id;
  unsigned long long used;
};

struct Process {
  unsigned process_id;
  unsigned long long used;
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct ProcessDetail {
  unsigned process_id;
  unsigned long long used;
  unsigned gpu_instance;
  unsigned compute_instance;
  unsigned long long used_protected;
};

struct ProcessDetails {
  unsigned version;
  unsigned mode;
  unsigned count;
  ProcessDetail* processes;
};

struct AccountingStats {
  unsigned busy_percent;
  unsigned memory_busy_percent;
  unsigned long long most_used;
  // and what has nothing to do with memory
};

struct Attributes {
  unsigned counts[8];  // of multiprocessors, engines and slices
  unsigned long long mebibytes;
};

struct ConfidentialSizes {
  unsigned long long protected_kibibytes;
  unsigned long long unprotected_kibibytes;
};

constexpr unsigned long long kNotAvailable = ~0ULL;  // NVML_VALUE_NOT_AVAILABLE

alignas(ledger::LedgerView) unsigned char view_storage[sizeof(ledger::LedgerView)];
ledger::LedgerView* view = nullptr;
pthread_once_t view_once = PTHREAD_ONCE_INIT;

void open_view() {
  const char* path = ledger_path();
  auto* opened = path == nullptr ? nullptr : new (view_storage) ledger::LedgerView;
  if (opened != nullptr && opened->attach(path)) view = opened;
}

// Mapped at the first query and kept to the end, also across fork: it takes no row.
const ledger::LedgerView* ledger() {
  pthread_once(&view_once, open_view);
  return view;
}

template <typename MemoryInfo>
void narrow(MemoryInfo* memory) {
  const ledger::LedgerView* view = ledger();
  if (view == nullptr || view->limit_bytes() == 0) return;
  const MemoryView whole{memory->free, memory->total};
  const MemoryView seen = narrowed(whole, view->limit_bytes(), view->living_bytes(ledger_path()));
  if (seen.total_bytes == whole.total_bytes && seen.free_bytes == whole.free_bytes) return;
  memory->total = seen.total_bytes;
  memory->free = seen.free_bytes;
  memory->used = seen.total_bytes - seen.free_bytes;
}

// Nothing is seen to be more than the sandbox has, in units of so many bytes.
void bound(unsigned long long* amount, uint64_t unit = 1) {
  const ledger::LedgerView* view = ledger();
  if (view == nullptr || view->limit_bytes() == 0 || *amount == kNotAvailable) return;
  const uint64_t limit = view->limit_bytes() / unit;
  if (*amount > limit) *amount = limit;
}

// What the driver needs for itself in a process is no part of the limit.
template <typename ProcessInfo>
int running_processes(unsigned slot, void* device, unsigned* count, ProcessInfo* processes) {
  const unsigned room = count == nullptr ? 0 : *count;
  const int status = real<int (*)(void*, unsigned*, ProcessInfo*)>(slot)(device, count, processes);
  if (status != 0 || count == nullptr || processes == nullptr) return status;
  for (unsigned i = 0; i < *count && i < room; ++i) bound(&processes[i].used);
  return status;
}

template <typename Answer>
int asked(unsigned slot, void* device, Answer* answer) {
  return real<int (*)(void*, Answer*)>(slot)(device, answer);
}

}  // namespace

const RealLibrary kRealLibrary = {real_nvml_path, kUsualPaths, kLibraryNotFound, kFunctionNotFound};

}  // namespace lambent::shim

using namespace lambent::shim;

SHIM_EXPORT int lambent_shim_nvml_is_here() { return 1; }

SHIM_EXPORT int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  const int status = real<int (*)(void*, Memory*)>(kSlot_nvmlDeviceGetMemoryInfo)(device, memory);
  if (status == 0 && memory != nullptr) narrow(memory);
  return status;
}

SHIM_EXPORT int nvmlDeviceGetMemoryInfo_v2(void* device, MemoryVersion2* memory) {
  const int status =
      real<int (*)(void*, MemoryVersion2*)>(kSlot_nvmlDeviceGetMemoryInfo_v2)(device, memory);
  if (status == 0 && memory != nullptr) {
    // What the device keeps for itself is no part of what the sandbox was given.
    const auto* known = ledger();
    if (known != nullptr && known->limit_bytes() != 0) memory->reserved = 0;
    narrow(memory);
  }
  return status;
}

SHIM_EXPORT int nvmlDeviceGetConfComputeProtectedMemoryUsage(void* device, Memory* memory) {
  const int status = asked(kSlot_nvmlDeviceGetConfComputeProtectedMemoryUsage, device, memory);
  if (status == 0 && memory != nullptr) narrow(memory);
  return status;
}

SHIM_EXPORT int nvmlDeviceGetConfComputeMemSizeInfo(void* device, ConfidentialSizes* sizes) {
  const int status = asked(kSlot_nvmlDeviceGetConfComputeMemSizeInfo, device, sizes);
  if (status != 0 || sizes == nullptr) return status;
  bound(&sizes->protected_kibibytes, 1024);
  bound(&sizes->unprotected_kibibytes, 1024);
  return status;
}

#define ATTRIBUTES(name)                                        \
  SHIM_EXPORT int name(void* device, Attributes* attributes) {  \
    const int status = asked(kSlot_##name, device, attributes); \
    if (status == 0 && attributes != nullptr) {                 \
      bound(&attributes->mebibytes, 1 << 20);                   \
    }                                                           \
    return status;                                              \
  }
ATTRIBUTES(nvmlDeviceGetAttributes)
ATTRIBUTES(nvmlDeviceGetAttributes_v2)

SHIM_EXPORT int nvmlDeviceGetAccountingStats(void* device, unsigned process,
                                             AccountingStats* stats) {
  const auto ask =
      real<int (*)(void*, unsigned, AccountingStats*)>(kSlot_nvmlDeviceGetAccountingStats);
  const int status = ask(device, process, stats);
  if (status == 0 && stats != nullptr) bound(&stats->most_used);
  return status;
}

SHIM_EXPORT int nvmlDeviceGetRunningProcessDetailList(void* device, ProcessDetails* list) {
  const unsigned room = list == nullptr ? 0 : list->count;
  const int status = asked(kSlot_nvmlDeviceGetRunningProcessDetailList, device, list);
  if (status != 0 || list == nullptr || list->processes == nullptr) return status;
  for (unsigned i = 0; i < list->count && i < room; ++i) {
    bound(&list->processes[i].used);
    bound(&list->processes[i].used_protected);
  }
  return status;
}

#define RUNNING_PROCESSES(name, ProcessInfo)                                    \
  SHIM_EXPORT int name(void* device, unsigned* count, ProcessInfo* processes) { \
    return running_processes(kSlot_##name, device, count, processes);           \
  }
RUNNING_PROCESSES(nvmlDeviceGetComputeRunningProcesses, ProcessVersion1)
RUNNING_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, Process)
RUNNING_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, Process)
RUNNING_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, ProcessVersion1)
RUNNING_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, Process)
RUNNING_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, Process)
RUNNING_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, ProcessVersion1)
RUNNING_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, Process)
RUNNING_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, Process)
