// A libcuda.so.1 for the tests of the shim: hands out addresses without memory behind them, counts
// what is out, fails at the n-th allocation if told so. It checks nothing else and computes
// nothing.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Address = unsigned long long;

constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kNotFound = 500;
constexpr size_t kTotal = size_t{16} << 30;

std::mutex mutex;
std::map<Address, size_t> allocations;
std::map<unsigned long long, size_t> physical;
Address next_address = 0x7000000000;
size_t used = 0;
size_t most_used = 0;
std::atomic<int> calls_until_failure = -1;
std::atomic<bool> captures = false;
int primary_references = 0;
int context_object;

bool fails_now() { return calls_until_failure >= 0 && calls_until_failure.fetch_sub(1) == 0; }

int allocate(Address* address, size_t bytes) {
  if (address == nullptr || bytes == 0) return kInvalidValue;
  if (fails_now()) return kOutOfMemory;
  std::lock_guard lock(mutex);
  if (bytes > kTotal - used) return kOutOfMemory;
  // The lowest gap that is large enough: an address is reused at once, as the real driver does.
  Address place = next_address;
  for (const auto& [start, length] : allocations) {
    if (start - place >= bytes) break;
    place = start + (length + 511) / 512 * 512;
  }
  *address = place;
  allocations[place] = bytes;
  used += bytes;
  if (used > most_used) most_used = used;
  return 0;
}

int deallocate(Address address) {
  if (address == 0) return 0;
  std::lock_guard lock(mutex);
  const auto found = allocations.find(address);
  if (found == allocations.end()) return kInvalidValue;
  used -= found->second;
  allocations.erase(found);
  return 0;
}

}  // namespace

// Told by tests.
EXPORT void fake_fail_after(int calls) { calls_until_failure = calls; }
EXPORT void fake_set_capturing(int on) { captures = on != 0; }
EXPORT size_t fake_most_used() { return most_used; }

EXPORT int cuInit(unsigned) { return 0; }
EXPORT int cuDriverGetVersion(int* version) {
  const char* given = getenv("FAKE_DRIVER_VERSION");
  return *version = given == nullptr ? 13000 : atoi(given), 0;
}
EXPORT int cuDeviceGetCount(int* count) { return *count = 1, 0; }
EXPORT int cuCtxGetCurrent(void** context) { return *context = &context_object, 0; }
EXPORT int cuCtxGetDevice(int* device) { return *device = 0, 0; }
EXPORT int cuStreamIsCapturing(void*, int* status) { return *status = captures ? 1 : 0, 0; }
EXPORT int cuStreamIsCapturing_ptsz(void*, int* status) { return *status = captures ? 1 : 0, 0; }
EXPORT int cuMemAlloc_v2(Address* address, size_t bytes) { return allocate(address, bytes); }
// Through the exported name, where the shim stands: what a driver does inside must not count twice.
EXPORT int cuMemAllocManaged(Address* a, size_t bytes, unsigned) { return cuMemAlloc_v2(a, bytes); }
EXPORT int cuMemAllocAsync(Address* a, size_t bytes, void*) { return allocate(a, bytes); }
EXPORT int cuMemAllocAsync_ptsz(Address* a, size_t bytes, void*) { return allocate(a, bytes); }
EXPORT int cuMemAllocPitch_v2(Address* a, size_t* pitch, size_t width, size_t height, unsigned) {
  *pitch = (width + 511) / 512 * 512;
  return allocate(a, *pitch * height);
}
EXPORT int cuMemFree_v2(Address address) { return deallocate(address); }
EXPORT int cuMemFreeAsync(Address address, void*) { return deallocate(address); }
EXPORT int cuMemHostAlloc(void** address, size_t bytes, unsigned) {
  *address = malloc(bytes);
  return 0;
}
EXPORT int cuMemFreeHost(void* address) { return free(address), 0; }
EXPORT int cuArray3DCreate_v2(void** array, const void*) { return *array = malloc(1), 0; }
EXPORT int cuArrayDestroy(void* array) { return free(array), 0; }

EXPORT int cuMemCreate(unsigned long long* handle, size_t bytes, const void*, unsigned long long) {
  if (fails_now()) return kOutOfMemory;
  std::lock_guard lock(mutex);
  static unsigned long long next = 1;
  physical[*handle = next++] = bytes;
  return 0;
}
EXPORT int cuMemRelease(unsigned long long handle) {
  std::lock_guard lock(mutex);
  return physical.count(handle) != 0 ? 0 : kInvalidValue;
}
EXPORT int cuMemRetainAllocationHandle(unsigned long long* handle, void*) {
  std::lock_guard lock(mutex);
  *handle = physical.rbegin()->first;
  return 0;
}
EXPORT int cuMemMap(Address, size_t, size_t, unsigned long long, unsigned long long) { return 0; }
EXPORT int cuMemUnmap(Address, size_t) { return 0; }

// A module takes 3 MiB, and a graph 12 MiB from its launch until it is trimmed.
namespace {
constexpr size_t kModule = size_t{3} << 20;
constexpr size_t kGraph = size_t{12} << 20;
size_t graph_reserved = 0;
}  // namespace
EXPORT int cuModuleLoadData(void** module, const void*) {
  std::lock_guard lock(mutex);
  used += kModule;
  *module = malloc(1);
  return 0;
}
EXPORT int cuModuleUnload(void* module) {
  std::lock_guard lock(mutex);
  used -= kModule;
  free(module);
  return 0;
}
EXPORT int cuGraphAddMemAllocNode(void**, void*, void* const*, size_t, void*) { return 0; }
EXPORT int cuGraphLaunch(void*, void*) {
  std::lock_guard lock(mutex);
  used += kGraph - graph_reserved;
  graph_reserved = kGraph;
  return 0;
}
EXPORT int cuDeviceGraphMemTrim(int) {
  std::lock_guard lock(mutex);
  used -= graph_reserved;
  graph_reserved = 0;
  return 0;
}
EXPORT int cuDeviceGetGraphMemAttribute(int, int attribute, void* value) {
  if (attribute != 2) return kInvalidValue;
  return *static_cast<unsigned long long*>(value) = graph_reserved, 0;
}

namespace {

int tell_memory(size_t* free_bytes, size_t* total) {
  std::lock_guard lock(mutex);
  *free_bytes = kTotal - used;
  *total = kTotal;
  return 0;
}

}  // namespace

EXPORT int cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  return tell_memory(free_bytes, total);
}
EXPORT int cuDeviceTotalMem_v2(size_t* total, int) { return *total = kTotal, 0; }

EXPORT int cuCtxDestroy_v2(void*) {
  std::lock_guard lock(mutex);
  allocations.clear();
  used = 0;
  return 0;
}
EXPORT int cuDevicePrimaryCtxRetain(void** context, int) {
  ++primary_references;
  *context = &context_object;
  return 0;
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int) { return --primary_references, 0; }
EXPORT int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
  *flags = 0;
  *active = primary_references > 0 ? 1 : 0;
  return 0;
}
EXPORT int cuDevicePrimaryCtxReset_v2(int) { return cuCtxDestroy_v2(nullptr); }

namespace {

int through_another_address(Address* address, size_t bytes) { return allocate(address, bytes); }
int told_through_another_address(size_t* free_bytes, size_t* total) {
  return tell_memory(free_bytes, total);
}

// Of the name in FAKE_DRIVER_PRIVATE_ADDRESS it answers with another address than it exports.
void* private_address_of(const char* name) {
  const char* it = getenv("FAKE_DRIVER_PRIVATE_ADDRESS");
  if (it == nullptr || strcmp(it, name) != 0) return nullptr;
  return strcmp(name, "cuMemAlloc") == 0 ? reinterpret_cast<void*>(&through_another_address)
                                         : reinterpret_cast<void*>(&told_through_another_address);
}

int find_function(const char* name, void** function, unsigned long long flags) {
  // What a driver of years to come may have.
  const bool is_newer = strcmp(name, "cuMemAllocTomorrow") == 0;
  *function =
      is_newer ? reinterpret_cast<void*>(&through_another_address) : private_address_of(name);
  if (*function != nullptr) return 0;
  Dl_info self = {};
  dladdr(reinterpret_cast<void*>(&find_function), &self);
  static void* own = nullptr;
  if (own == nullptr) {
    using Open = void* (*)(const char*, int);
    auto open = reinterpret_cast<Open>(dlsym(RTLD_DEFAULT, "lambent_shim_real_dlopen"));
    own = open != nullptr ? open(self.dli_fname, RTLD_NOW) : dlopen(self.dli_fname, RTLD_NOW);
  }
  const std::string plain(name);
  for (const std::string& exported : {plain + "_ptsz", plain + "_v2", plain}) {
    if ((flags & 2) == 0 && exported.ends_with("_ptsz")) continue;
    if (void* found = dlsym(own, exported.c_str()); found != nullptr) {
      *function = found;
      return 0;
    }
  }
  *function = nullptr;
  return kNotFound;
}

}  // namespace

EXPORT int cuGetProcAddress_v2(const char* name, void** function, int, unsigned long long flags,
                               int* found) {
  const int status = find_function(name, function, flags);
  if (found != nullptr) *found = status == 0 ? 0 : 1;
  return status;
}
EXPORT int cuGetProcAddress(const char* name, void** function, int version,
                            unsigned long long flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}
