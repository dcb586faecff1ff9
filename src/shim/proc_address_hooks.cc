// cuGetProcAddress: the way by which today's programs find the driver's functions. The driver is
// asked first, so that what it does not have stays missing; then its answer is replaced by our
// hook.
#include <string.h>

#include "driver_slots.h"
#include "shim/abi.h"
#include "shim/environment.h"
#include "shim/hook_table.h"
#include "shim/log.h"

using namespace lambent::shim;

namespace {

constexpr unsigned long long kPerThreadDefaultStream = 2;

struct VersionRow {
  const char* name;
  int since;
  const char* exported;
  bool per_thread_stream;
};
constexpr VersionRow kVersions[] = {
#define DRIVER_VERSION(name, version, symbol, per_thread) \
  {#name, version, #symbol, per_thread != 0},
#include "cuda_abi/driver_versions.inc"
#undef DRIVER_VERSION
};

// The hook for what was asked for, chosen as the driver does: the newest that is not newer than the
// version asked for; null if we have none.
void* hook_for_request(const char* name, int version, unsigned long long flags) {
  const bool per_thread_stream = (flags & kPerThreadDefaultStream) != 0;
  const VersionRow* best = nullptr;
  for (const VersionRow& row : kVersions) {
    if (strcmp(row.name, name) != 0 || row.since > version) continue;
    if (row.per_thread_stream && !per_thread_stream) continue;
    const bool newer = best == nullptr || row.since > best->since;
    const bool closer = best != nullptr && row.since == best->since && row.per_thread_stream;
    if (newer || closer) best = &row;
  }
  return best == nullptr ? nullptr : hook_of_name(best->exported);
}

void trace(const char* name, int version, unsigned long long flags, const void* answer) {
  if (!traces() || name == nullptr) return;
  log_line("asked for %s %d %llu: %s", name, version, flags, is_hook(answer) ? "hook" : "driver");
}

void replace_by_hook(const char* name, void** function, int version, unsigned long long flags) {
  if (function == nullptr || *function == nullptr || name == nullptr) return;
  void* const answer = *function;
  *function = hook_of_address(answer);
  if (*function == answer && !driver_answers_with_exports()) {
    if (void* hook = hook_for_request(name, version, flags); hook != nullptr) *function = hook;
  }
  trace(name, version, flags, *function);
}

}  // namespace

SHIM_EXPORT Status cuGetProcAddress(const char* name, void** function, int version,
                                    unsigned long long flags) {
  InsideHook inside;
  const Status status = REAL(cuGetProcAddress, const char*, void**, int, unsigned long long)(
      name, function, version, flags);
  if (status == kSuccess && inside.outermost()) replace_by_hook(name, function, version, flags);
  return status;
}

SHIM_EXPORT Status cuGetProcAddress_v2(const char* name, void** function, int version,
                                       unsigned long long flags, int* found) {
  InsideHook inside;
  const Status status = REAL(cuGetProcAddress_v2, const char*, void**, int, unsigned long long,
                             int*)(name, function, version, flags, found);
  if (status == kSuccess && inside.outermost()) replace_by_hook(name, function, version, flags);
  return status;
}
