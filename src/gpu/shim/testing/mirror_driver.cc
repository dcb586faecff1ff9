// A libcuda.so.1 that exports little but the gated functions: each writes down what it was called
// with and answers with a number that no other answers with. Its cuGetProcAddress knows versions.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "gpu/shim/passed_types.h"
#include "gpu/shim/testing/passed.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

std::atomic<int> calls = 0;
lambent::shim::Passed last;

}  // namespace

EXPORT int mirror_calls() { return calls; }
EXPORT const lambent::shim::Passed* mirror_last() { return &last; }

using namespace lambent::shim;

// __LINE__ is the row of the table.
#define UNPACKED(...) __VA_ARGS__
#define GATED(name, parameters, arguments, ...) \
  EXPORT Status name parameters {               \
    last = passed(#name, UNPACKED arguments);   \
    ++calls;                                    \
    return 10'000 + __LINE__;                   \
  }
#include "driver_gated.inc"
#undef GATED

EXPORT int cuMemAlloc_v2(Address*, size_t) { return 0; }

namespace {

constexpr int kNotFound = 500;

int private_function() { return 0; }

// With FAKE_DRIVER_PRIVATE_ADDRESSES it answers with an address that it does not export.
int find_function(const char* name, void** function, int version, unsigned long long flags) {
  const bool per_thread_stream = (flags & 2) != 0;
  const char* symbol = nullptr;
  int best = 0;
#define DRIVER_VERSION(asked, since, exported, per_thread)                                       \
  if (strcmp(name, #asked) == 0 && since <= version && (per_thread == 0 || per_thread_stream) && \
      (since > best || (since == best && per_thread != 0))) {                                    \
    best = since;                                                                                \
    symbol = #exported;                                                                          \
  }
#include "gpu/cuda_abi/driver_versions.inc"
#undef DRIVER_VERSION
  Dl_info self = {};
  dladdr(reinterpret_cast<void*>(&find_function), &self);
  void* library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  *function = symbol == nullptr || library == nullptr ? nullptr : dlsym(library, symbol);
  if (*function != nullptr && getenv("FAKE_DRIVER_PRIVATE_ADDRESSES") != nullptr) {
    *function = reinterpret_cast<void*>(&private_function);
  }
  return *function == nullptr ? kNotFound : 0;
}

}  // namespace

EXPORT int cuGetProcAddress(const char* name, void** function, int version,
                            unsigned long long flags) {
  return find_function(name, function, version, flags);
}
EXPORT int cuGetProcAddress_v2(const char* name, void** function, int version,
                               unsigned long long flags, int*) {
  return find_function(name, function, version, flags);
}
