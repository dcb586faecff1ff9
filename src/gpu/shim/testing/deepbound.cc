// A user's library that is linked with the driver and that programs load with RTLD_DEEPBIND: it
// finds names in what it was linked with before it finds them in what was preloaded.
#include <dlfcn.h>
#include <stddef.h>

extern "C" int cuMemAlloc_v2(unsigned long long*, size_t);

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int deepbound_allocate(size_t bytes) {
  unsigned long long address = 0;
  return cuMemAlloc_v2(&address, bytes);
}

EXPORT int deepbound_allocate_by_name(size_t bytes) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  const auto allocate = reinterpret_cast<int (*)(unsigned long long*, size_t)>(
      driver == nullptr ? nullptr : dlsym(driver, "cuMemAlloc_v2"));
  unsigned long long address = 0;
  return allocate == nullptr ? -1 : allocate(&address, bytes);
}
