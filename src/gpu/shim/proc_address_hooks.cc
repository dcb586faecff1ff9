// cuGetProcAddress: the way by which today's programs find the driver's functions. The driver is
// asked first, so that what it does not have stays missing; then its answer is replaced by our
// hook.
#include <string.h>

#include "driver_slots.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/environment.h"
#include "gpu/shim/hook_table.h"
#include "gpu/shim/log.h"

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
#include "gpu/cuda_abi/driver_versions.inc"
#undef DRIVER_VERSION
};
constexpr size_t kVersionCount = sizeof(kVersions) / sizeof(kVersions[0]);

constexpr int newest_version() {
  int newest = 0;
  for (const VersionRow& row : kVersions) newest = row.since > newest ? row.since : newest;
  return newest;
}

struct Rows {
  const VersionRow* first;
  const VersionRow* last;
  const VersionRow* begin() const { return first; }
  const VersionRow* end() const { return last; }
};

constexpr bool are_sorted() {
  for (size_t i = 1; i < kVersionCount; ++i) {
    if (__builtin_strcmp(kVersions[i - 1].name, kVersions[i].name) > 0) return false;
  }
  return true;
}
static_assert(are_sorted());

Rows rows_of(const char* name) {
  const VersionRow* first = kVersions;
  for (size_t left = kVersionCount; left > 0;) {
    const size_t half = left / 2;
    const bool is_before = strcmp(first[half].name, name) < 0;
    first += is_before ? half + 1 : 0;
    left = is_before ? left - half - 1 : half;
  }
  const VersionRow* last = first;
  while (last != kVersions + kVersionCount && strcmp(last->name, name) == 0) {
    ++last;
  }
  return {first, last};
}

// What was asked for, chosen as the driver does: the newest that is not newer than the version
// asked for, and of the variants for a default stream of each thread where those are asked for and
// there are some; null if we know none.
const VersionRow* row_for_request(const char* name, int version, unsigned long long flags) {
  const bool per_thread_stream = (flags & kPerThreadDefaultStream) != 0;
  bool has_own_streams = false;
  for (const VersionRow& row : rows_of(name)) has_own_streams |= row.per_thread_stream;
  const VersionRow* best = nullptr;
  for (const VersionRow& row : rows_of(name)) {
    if (row.since > version) continue;
    if (row.per_thread_stream != (per_thread_stream && has_own_streams)) continue;
    if (best == nullptr || row.since > best->since) best = &row;
  }
  return best;
}

// Of its own version at most.
int version_that_answers(int version) {
  int drivers = 0;
  const Status status = REAL(cuDriverGetVersion, int*)(&drivers);
  return status == kSuccess && drivers < version ? drivers : version;
}

// Something that the driver exports and we know, and have no hook for.
bool is_forwarded(const char* name, const void* answer) {
  for (const VersionRow& row : rows_of(name)) {
    if (real_function(row.exported) == answer) return true;
  }
  return false;
}

bool begins_with(const char* name, const char* beginning) {
  return strncmp(name, beginning, strlen(beginning)) == 0;
}

bool may_be_about_memory(const char* name) {
  for (const char* beginning : {"cuMem", "cuArray", "cuMipmappedArray", "cuLaunch", "cuGraph"}) {
    if (begins_with(name, beginning)) return !begins_with(name, "cuGraphics");
  }
  return false;
}

// Some address of the driver's that we do not know. It may answer with others than it exports; or
// the function is newer than this shim, and then the program gets it as it is.
void* hook_for_unknown(const char* name, void* answer, int version, unsigned long long flags) {
  const int answering = version_that_answers(version);
  const VersionRow* row = row_for_request(name, answering, flags);
  const bool is_that_row = answering <= newest_version() || !driver_answers_with_exports();
  if (row != nullptr && is_that_row) {
    void* const hook = hook_of_name(row->exported);
    return hook == nullptr ? answer : hook;
  }
  if (may_be_about_memory(name)) {
    log_line("%s of CUDA %d is newer than this shim: it is not counted, and does not wait", name,
             answering);
  }
  return answer;
}

void trace(const char* name, int version, unsigned long long flags, const void* answer) {
  if (!traces() || name == nullptr) return;
  log_line("asked for %s %d %llu: %s", name, version, flags, is_hook(answer) ? "hook" : "driver");
}

void replace_by_hook(const char* name, void** function, int version, unsigned long long flags) {
  if (function == nullptr || *function == nullptr || name == nullptr) return;
  void* const answer = *function;
  *function = hook_of_address(answer);
  if (*function == answer && !is_hook(answer) && !is_forwarded(name, answer)) {
    *function = hook_for_unknown(name, answer, version, flags);
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
