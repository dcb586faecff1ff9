#include "emulator/emulated_cuda/entry_points.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/base/mutex.h"
#include "emulator/emulated_cuda/process.h"
#include "emulator/emulated_node/settings.h"
#include "gpu/cuda_abi/driver_types.h"

// What the generated stubs refer to, and what they give.
extern "C" {
__attribute__((visibility("hidden"))) unsigned char emulated_cuda_diverted = 0;
__attribute__((visibility("hidden"))) extern const char* const emulated_cuda_names[];
__attribute__((visibility("hidden"))) extern const char* const emulated_cuda_reasons[];
__attribute__((visibility("hidden"))) extern const unsigned emulated_cuda_name_count;
__attribute__((visibility("hidden"))) int emulated_cuda_divert(unsigned call);
__attribute__((visibility("hidden"))) CUresult emulated_cuda_refuse(unsigned call);
}

namespace lambent::emulated_cuda {

namespace {

constexpr unsigned kMostCalls = 1024;

struct ArmedFault {
  emulated_node::Fault fault;
  std::atomic<uint64_t> calls{0};
};

Mutex g_mutex;  // guards changes of what follows; what is atomic, and a fault once it is counted,
                // is read without it
ArmedFault g_faults[emulated_node::kMaxFaults];
std::atomic<unsigned> g_fault_count{0};
std::atomic<uint64_t> g_struck_by[kMostCalls];  // bit n: fault n concerns this function
std::atomic<uint64_t> g_counts[kMostCalls];
std::atomic<bool> g_counting{false};
std::string& trace_path() REQUIRES(g_mutex) {
  static auto* path = new std::string;
  return *path;
}

// "cuMemAlloc" means cuMemAlloc, cuMemAlloc_v2 and every other ABI of it; a full name itself.
bool is_meant(const std::string& name, const char* symbol) {
  struct Row {
    const char *name, *symbol;
  };
  static const Row rows[] = {
#define DRIVER_VERSION(name, version, symbol, per_thread) {#name, #symbol},
#include "gpu/cuda_abi/driver_versions.inc"
#undef DRIVER_VERSION
  };
  if (name == symbol) return true;
  for (const Row& row : rows) {
    if (name == row.name && !std::strcmp(row.symbol, symbol)) return true;
  }
  return false;
}

void write_counts() {
  const MutexLock lock(g_mutex);
  FILE* file = std::fopen(trace_path().c_str(), "ae");
  if (!file) return;
  for (unsigned i = 0; i < emulated_cuda_name_count; i++) {
    uint64_t count = g_counts[i].load(std::memory_order_relaxed);
    if (count == 0) continue;
    std::fprintf(file, "%d %llu %s\n", getpid(), static_cast<unsigned long long>(count),
                 emulated_cuda_names[i]);
  }
  std::fclose(file);
}

void divert() { __atomic_store_n(&emulated_cuda_diverted, 1, __ATOMIC_RELEASE); }

void sleep_for(int64_t ns) {
  timespec span{ns / 1'000'000'000, ns % 1'000'000'000};
  while (nanosleep(&span, &span) != 0 && errno == EINTR) {
  }
}

void strike(const emulated_node::Fault& fault) {
  Process* process = nullptr;
  if (Process::get(&process)) return;  // no node yet: cuInit will see to it
  if (!Node::Guard(*process->node).strike(fault)) {
    log_refusal("EMULATED_CUDA_FAULTS", "a fault strikes a device that the node does not have");
  }
}

bool is_about_call(const emulated_node::Fault& fault) {
  return fault.action == emulated_node::FaultAction::kFail ||
         fault.action == emulated_node::FaultAction::kDelay;
}

std::vector<emulated_node::Fault>& faults_at_once() REQUIRES(g_mutex) {
  static auto* faults = new std::vector<emulated_node::Fault>;
  return *faults;
}

// The environment's wishes, in force before the program's first call.
bool read_wishes() {
  emulated_node::Settings settings = emulated_node::read_settings();
  if (!settings.trace_path.empty()) count_calls(settings.trace_path);
  if (settings.faults.empty()) return true;
  std::vector<emulated_node::Fault> plan;
  std::string error;
  if (emulated_node::parse_fault_plan(settings.faults, &plan, &error)) add_faults(plan, &error);
  if (!error.empty()) log_refusal("EMULATED_CUDA_FAULTS", error.c_str());
  return true;
}
const bool g_wishes_read = read_wishes();  // when the library is loaded

}  // namespace

bool add_faults(const std::vector<emulated_node::Fault>& plan, std::string* error) {
  const MutexLock lock(g_mutex);
  for (const emulated_node::Fault& fault : plan) {
    if (fault.call.empty()) {
      faults_at_once().push_back(fault);
      continue;
    }
    unsigned slot = g_fault_count.load();
    if (slot == emulated_node::kMaxFaults) {
      *error = "too many faults";
      return false;
    }
    g_faults[slot].fault = fault;
    bool known = false;
    for (unsigned i = 0; i < emulated_cuda_name_count; i++) {
      if (!is_meant(fault.call, emulated_cuda_names[i])) continue;
      known = true;
      g_struck_by[i].fetch_or(uint64_t{1} << slot, std::memory_order_release);
    }
    if (!known) {
      *error = "the driver has no function " + fault.call;
      return false;
    }
    g_fault_count = slot + 1;
    divert();
  }
  return true;
}

void take_up_faults(Process& process) {
  std::string text, error;
  {
    Node::Guard guard(*process.node);
    text.assign(guard->fault_plan, strnlen(guard->fault_plan, sizeof guard->fault_plan));
  }
  std::vector<emulated_node::Fault> plan;
  if (!text.empty() && emulated_node::parse_fault_plan(text, &plan, &error)) {
    add_faults(plan, &error);
  }
  if (!error.empty()) log_refusal("the fault plan of the node", error.c_str());
  const MutexLock lock(g_mutex);
  for (const emulated_node::Fault& fault : faults_at_once()) strike(fault);
  faults_at_once().clear();
}

void count_calls(const std::string& path) {
  const MutexLock lock(g_mutex);
  trace_path() = path;
  if (!g_counting.exchange(true)) std::atexit(write_counts);
  divert();
}

}  // namespace lambent::emulated_cuda

using namespace lambent::emulated_cuda;
using lambent::emulated_node::FaultAction;

int emulated_cuda_divert(unsigned call) {
  if (g_counting.load(std::memory_order_relaxed)) {
    g_counts[call].fetch_add(1, std::memory_order_relaxed);
  }
  int answer = -1;
  uint64_t concerned = g_struck_by[call].load(std::memory_order_acquire);
  for (; concerned; concerned &= concerned - 1) {
    ArmedFault& armed = g_faults[__builtin_ctzll(concerned)];
    uint64_t number = armed.calls.fetch_add(1, std::memory_order_relaxed) + 1;
    if (!strikes(armed.fault, number)) continue;
    if (armed.fault.action == FaultAction::kDelay) sleep_for(armed.fault.delay_ns);
    if (armed.fault.action == FaultAction::kFail && answer < 0) answer = armed.fault.code;
    if (!is_about_call(armed.fault)) strike(armed.fault);
  }
  return answer;
}

// A function that is exported but not emulated says so once, and refuses.
CUresult emulated_cuda_refuse(unsigned call) {
  log_refusal(emulated_cuda_names[call], emulated_cuda_reasons[call]);
  return CUDA_ERROR_NOT_SUPPORTED;
}
