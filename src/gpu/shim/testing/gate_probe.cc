// Calls every gated function through the preloaded shim, over the mirror driver: with the gate
// open, to see that all arguments and the answer come through, and with it shut, to see that none
// does. Then asks cuGetProcAddress for each, in the version and with the flags that lead to it.
// usage: gate_probe [end|end_with_gate_shut]
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <iterator>
#include <thread>
#include <tuple>

#include "gpu/shim/passed_types.h"
#include "gpu/shim/testing/passed.h"

using namespace lambent::shim;

#define GATED(name, parameters, arguments, ...) extern "C" Status name parameters;
#include "driver_gated.inc"
#undef GATED
extern "C" int cuGetProcAddress(const char*, void**, int, unsigned long long);
extern "C" int cuGetProcAddress_v2(const char*, void**, int, unsigned long long, int*);

namespace {

struct VersionRow {
  const char* asked;
  int since;
  const char* exported;
  unsigned long long flags;
};
constexpr VersionRow kVersions[] = {
#define DRIVER_VERSION(asked, since, exported, per_thread) \
  {#asked, since, #exported, per_thread != 0 ? 2ULL : 0ULL},
#include "gpu/cuda_abi/driver_versions.inc"
#undef DRIVER_VERSION
};

bool is_found(const char* name, void* function) {
  int answers = 0;
  for (const VersionRow& row : kVersions) {
    if (strcmp(row.exported, name) != 0) continue;
    void* first = nullptr;
    void* second = nullptr;
    int status = 0;
    cuGetProcAddress(row.asked, &first, row.since, row.flags);
    cuGetProcAddress_v2(row.asked, &second, row.since, row.flags, &status);
    if (first != function || second != function) return false;
    ++answers;
  }
  return answers > 0;
}

// Of the mirror driver, past the shim that stands before it.
int (*mirror_calls)();
const Passed* (*mirror_last)();

// Every byte of every argument differs from its neighbours.
template <typename Type>
Type pattern(unsigned& next) {
  Type value;
  unsigned char bytes[sizeof value];
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(next++ * 37 + 11);
  memcpy(static_cast<void*>(&value), bytes, sizeof value);
  return value;
}

template <typename... Argument>
bool comes_through(const char* name, Status (*function)(Argument...), Status answer) {
  unsigned next = 0;
  const std::tuple<Argument...> arguments{pattern<Argument>(next)...};
  const Passed expected =
      std::apply([name](const auto&... all) { return passed(name, all...); }, arguments);
  const int calls_before = mirror_calls();
  const Status status = std::apply(function, arguments);
  const Passed& got = *mirror_last();
  return status == answer && mirror_calls() == calls_before + 1 && strcmp(got.name, name) == 0 &&
         got.size == expected.size && memcmp(got.bytes, expected.bytes, got.size) == 0;
}

void (*shut_gate)();
void (*open_gate)();
unsigned long long (*gated_ns)();
int (*nobody_inside)();

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) exit(90);
}

template <typename... Argument>
bool waits(Status (*function)(Argument...)) {
  unsigned next = 0;
  const std::tuple<Argument...> arguments{pattern<Argument>(next)...};
  const int calls_before = mirror_calls();
  const unsigned long long gated_before = gated_ns();
  std::atomic<bool> is_back = false;
  shut_gate();
  std::thread caller([&] {
    std::apply(function, arguments);
    is_back = true;
  });
  while (gated_ns() == gated_before && !is_back) sched_yield();
  const bool waited = !is_back && mirror_calls() == calls_before && nobody_inside() == 1;
  open_gate();
  caller.join();
  return waited && mirror_calls() == calls_before + 1;
}

// Functions that the shim implements itself, which wait as well. The mirror driver has none of
// them.
constexpr const char* kHooked[] = {"cuGraphLaunch",
                                   "cuGraphLaunch_ptsz",
                                   "cuGraphUpload",
                                   "cuModuleLoadData",
                                   "cuLibraryGetModule",
                                   "cuKernelGetFunction",
                                   "cuMemAlloc_v2",
                                   "cuMemAllocManaged",
                                   "cuMemAllocPitch_v2",
                                   "cuMemAllocAsync",
                                   "cuMemAllocAsync_ptsz",
                                   "cuMemFree_v2",
                                   "cuMemFreeAsync",
                                   "cuMemFreeHost",
                                   "cuArray3DCreate_v2",
                                   "cuArrayDestroy",
                                   "cuMipmappedArrayCreate",
                                   "cuMemCreate",
                                   "cuMemMap",
                                   "cuMemUnmap",
                                   "cuMemRelease",
                                   "cuCtxDestroy_v2",
                                   "cuDevicePrimaryCtxReset_v2",
                                   "cuDevicePrimaryCtxRelease_v2"};

bool waits_too(const char* name) {
  using Word = unsigned long long;
  using Function = Status (*)(Word, Word, Word, Word, Word, Word);
  const auto function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  if (function == nullptr) return false;
  const unsigned long long gated_before = gated_ns();
  std::atomic<bool> is_back = false;
  shut_gate();
  std::thread caller([&] {
    function(0, 0, 0, 0, 0, 0);
    is_back = true;
  });
  while (gated_ns() == gated_before && !is_back) sched_yield();
  const bool waited = !is_back && nobody_inside() == 1;
  open_gate();
  caller.join();
  return waited;
}

// Threads are in the middle of calls, or wait at the gate, while the program ends.
int end_amid_calls(bool with_gate_shut) {
  static std::atomic<int> calls = 0;
  for (int i = 0; i < 4; ++i) {
    std::thread([] {
      while (true) {
        cuMemcpy(0, 0, 0);
        ++calls;
      }
    }).detach();
  }
  while (calls < 1000) sched_yield();
  const unsigned long long gated_before = gated_ns();
  if (with_gate_shut) shut_gate();
  while (with_gate_shut && gated_ns() == gated_before) sched_yield();
  return 0;
}

}  // namespace

int main(int count, char** words) {
  void* mirror = dlopen(getenv("LAMBENT_SHIM_DRIVER"), RTLD_NOW);
  if (mirror == nullptr) return 91;
  find(mirror, "mirror_calls", mirror_calls);
  find(mirror, "mirror_last", mirror_last);
  find(RTLD_DEFAULT, "lambent_shim_testing_shut_gate", shut_gate);
  find(RTLD_DEFAULT, "lambent_shim_testing_open_gate", open_gate);
  find(RTLD_DEFAULT, "lambent_shim_testing_gated_ns", gated_ns);
  find(RTLD_DEFAULT, "lambent_shim_testing_nobody_inside", nobody_inside);
  if (count > 1) return end_amid_calls(strcmp(words[1], "end_with_gate_shut") == 0);
  int functions = 0;
  int came_through = 0;
  int waited = 0;
  int found = 0;
  const auto tell = [](const char* name, bool is_right, const char* what, int& count) {
    if (is_right) ++count;
    if (!is_right) fprintf(stderr, "%s %s\n", name, what);
  };
  // __LINE__ is the row of the table, as in the mirror driver.
#define GATED(name, parameters, arguments, ...)                                                  \
  ++functions;                                                                                   \
  tell(#name, comes_through(#name, &name, 10'000 + __LINE__), "changed its call", came_through); \
  tell(#name, waits(&name), "did not wait", waited);                                             \
  tell(#name, is_found(#name, reinterpret_cast<void*>(&name)), "was not found", found);
#include "driver_gated.inc"
#undef GATED
  int hooked = 0;
  for (const char* name : kHooked) tell(name, waits_too(name), "did not wait", hooked);
  printf("hooked_that_pass %d\n", static_cast<int>(std::size(kHooked)) - hooked);
  printf("functions %d\ncame_through %d\nwaited %d\nfound %d\n", functions, came_through, waited,
         found);
  return 0;
}
