// Allocates and frees by every kind of call, and prints after each step how many MiB of its limit
// of 64 MiB are used, as the program itself is told. Run by kinds_test with the shim preloaded.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <cstddef>

using Address = unsigned long long;
using Physical = unsigned long long;
constexpr size_t kMiB = size_t{1} << 20;

extern "C" {
int cuMemAlloc_v2(Address*, size_t);
int cuMemFree_v2(Address);
int cuMemAllocManaged(Address*, size_t, unsigned);
int cuMemAllocPitch_v2(Address*, size_t*, size_t, size_t, unsigned);
int cuMemAllocAsync(Address*, size_t, void*);
int cuMemAllocAsync_ptsz(Address*, size_t, void*);
int cuMemFreeAsync(Address, void*);
int cuMemHostAlloc(void**, size_t, unsigned);
int cuMemFreeHost(void*);
int cuArray3DCreate_v2(void**, const void*);
int cuArrayDestroy(void*);
int cuMemCreate(Physical*, size_t, const void*, unsigned long long);
int cuMemRelease(Physical);
int cuMemRetainAllocationHandle(Physical*, void*);
int cuMemMap(Address, size_t, size_t, Physical, unsigned long long);
int cuMemUnmap(Address, size_t);
int cuModuleLoadData(void**, const void*);
int cuModuleUnload(void*);
int cuGraphAddMemAllocNode(void**, void*, void* const*, size_t, void*);
int cuGraphLaunch(void*, void*);
int cuDeviceGraphMemTrim(int);
int cuMemGetInfo_v2(size_t*, size_t*);
int cuCtxGetCurrent(void**);
int cuCtxDestroy_v2(void*);
int cuDevicePrimaryCtxRetain(void**, int);
int cuDevicePrimaryCtxRelease_v2(int);
}

namespace {

void (*fake_fail_after)(int) = nullptr;
void (*fake_set_capturing)(int) = nullptr;

// The shim stands before the fake driver: get at what only a test may tell it.
void find_the_fake() {
  using Open = void* (*)(const char*, int);
  const auto open = reinterpret_cast<Open>(dlsym(RTLD_DEFAULT, "lambent_shim_real_dlopen"));
  if (open == nullptr) exit(90);
  void* fake = open(getenv("LAMBENT_SHIM_DRIVER"), RTLD_NOW);
  fake_fail_after = reinterpret_cast<void (*)(int)>(dlsym(fake, "fake_fail_after"));
  fake_set_capturing = reinterpret_cast<void (*)(int)>(dlsym(fake, "fake_set_capturing"));
}

void print_used(const char* step) {
  size_t free_bytes = 0;
  size_t total = 0;
  cuMemGetInfo_v2(&free_bytes, &total);
  printf("%s %zu\n", step, (total - free_bytes) / kMiB);
}

void plain_memory() {
  Address address = 0;
  cuMemAllocManaged(&address, 8 * kMiB, 1);
  print_used("managed");
  cuMemFree_v2(address);
  size_t pitch = 0;
  cuMemAllocPitch_v2(&address, &pitch, 1000, 4096, 4);
  print_used("pitched");
  cuMemFree_v2(address);
  print_used("pitched_freed");
  cuMemFree_v2(address);
  cuMemFree_v2(0x1234567);
  print_used("freed_twice");
  printf("petabyte %d\n", cuMemAlloc_v2(&address, size_t{1} << 50));
  printf("nothing %d\n", cuMemAlloc_v2(&address, 0));
  printf("nowhere %d\n", cuMemAlloc_v2(nullptr, kMiB));
  print_used("after_nonsense");
}

void stream_ordered_memory() {
  Address address = 0;
  cuMemAllocAsync(&address, 8 * kMiB, nullptr);
  print_used("async");
  cuMemFreeAsync(address, nullptr);
  cuMemAllocAsync_ptsz(&address, 8 * kMiB, nullptr);
  print_used("async_ptsz");
  cuMemFree_v2(address);
  print_used("async_freed");
  fake_set_capturing(1);
  cuMemAllocAsync(&address, 8 * kMiB, nullptr);
  fake_set_capturing(0);
  print_used("captured");
  cuMemFreeAsync(address, nullptr);
}

void arrays() {
  struct {
    size_t width, height, depth;
    unsigned format, channels, flags;
  } shape = {1024, 1024, 0, 0x20, 4, 0};
  void* array = nullptr;
  cuArray3DCreate_v2(&array, &shape);
  print_used("array");
  cuArrayDestroy(array);
  print_used("array_destroyed");
}

void physical_memory() {
  const int properties[6] = {1, 0, 1, 0, 0, 0};
  const Address place = 0x900000000;
  Physical handle = 0;
  cuMemCreate(&handle, 16 * kMiB, properties, 0);
  print_used("created");
  cuMemMap(place, 8 * kMiB, 0, handle, 0);
  cuMemMap(place + 8 * kMiB, 8 * kMiB, 8 * kMiB, handle, 0);
  cuMemRelease(handle);
  print_used("released_while_mapped");
  cuMemUnmap(place, 8 * kMiB);
  print_used("half_unmapped");
  Physical again = 0;
  cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(place + 9 * kMiB));
  cuMemUnmap(place + 8 * kMiB, 8 * kMiB);
  print_used("retained");
  cuMemRelease(again);
  print_used("gone");
  printf("physical_too_much %d\n", cuMemCreate(&handle, 65 * kMiB, properties, 0));
  const int on_host[6] = {1, 0, 2, 0, 0, 0};
  cuMemCreate(&handle, 65 * kMiB, on_host, 0);
  print_used("on_host");
}

// The driver refuses the n-th allocation itself: nothing may stay counted.
void refusals_of_the_driver() {
  const int properties[6] = {1, 0, 1, 0, 0, 0};
  for (int n = 0; n < 4; ++n) {
    fake_fail_after(n);
    Address first = 0;
    Address second = 0;
    Address third = 0;
    Physical physical = 0;
    cuMemAlloc_v2(&first, 4 * kMiB);
    cuMemAllocManaged(&second, 4 * kMiB, 1);
    cuMemAllocAsync(&third, 4 * kMiB, nullptr);
    cuMemCreate(&physical, 4 * kMiB, properties, 0);
    print_used("refused_one");
    fake_fail_after(-1);
    if (first != 0) cuMemFree_v2(first);
    if (second != 0) cuMemFree_v2(second);
    if (third != 0) cuMemFree_v2(third);
    if (physical != 0) cuMemRelease(physical);
    print_used("refused_none");
  }
}

void host_memory() {
  void* address = nullptr;
  cuMemHostAlloc(&address, 3 * kMiB, 0);
  print_used("host");
  cuMemFreeHost(address);
  cuMemHostAlloc(&address, 2 * kMiB, 0);  // left behind for the test to see
}

void contexts() {
  Address address = 0;
  cuMemAlloc_v2(&address, 8 * kMiB);
  void* context = nullptr;
  cuCtxGetCurrent(&context);
  int other = 0;
  cuCtxDestroy_v2(&other);
  print_used("other_context_destroyed");
  cuCtxDestroy_v2(context);
  print_used("context_destroyed");
  cuDevicePrimaryCtxRetain(&context, 0);
  cuDevicePrimaryCtxRetain(&context, 0);
  cuMemAlloc_v2(&address, 8 * kMiB);
  cuDevicePrimaryCtxRelease_v2(0);
  print_used("primary_released_once");
  cuDevicePrimaryCtxRelease_v2(0);
  print_used("primary_released");
}

// The fake driver's modules take 3 MiB, its graphs 12 MiB from their launch on.
void code_and_graphs() {
  void* module = nullptr;
  cuModuleLoadData(&module, nullptr);
  print_used("module");
  cuModuleUnload(module);

  cuGraphAddMemAllocNode(nullptr, nullptr, nullptr, 0, nullptr);
  print_used("graph_described");
  cuGraphLaunch(nullptr, nullptr);
  cuGraphLaunch(nullptr, nullptr);
  print_used("graph_launched");
  cuDeviceGraphMemTrim(0);
  print_used("graph_trimmed");
}

}  // namespace

int main() {
  find_the_fake();
  plain_memory();
  stream_ordered_memory();
  arrays();
  physical_memory();
  refusals_of_the_driver();
  contexts();
  code_and_graphs();
  host_memory();
  fflush(stdout);
  getchar();
  return 0;
}
