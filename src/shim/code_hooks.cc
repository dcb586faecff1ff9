// Code: modules and libraries, with their global variables. No call names an amount; what a load
// took is what the device had less of afterwards, apart from what this sandbox allocated meanwhile.
#include "driver_slots.h"
#include "shim/abi.h"
#include "shim/gate.h"
#include "shim/log.h"

using namespace lambent::shim;

namespace {

// A load that took more is more likely somebody else's allocation at that moment.
constexpr uint64_t kMostBelievable = uint64_t{1} << 30;

// How much of the device is taken, apart from what this sandbox counts; false without a context.
bool taken_beside_ours(Accounting& accounting, int64_t* bytes) {
  size_t free = 0;
  size_t total = 0;
  if (REAL(cuMemGetInfo_v2, size_t*, size_t*)(&free, &total) != kSuccess) return false;
  *bytes = static_cast<int64_t>(total - free) - static_cast<int64_t>(accounting.used_bytes());
  return true;
}

// `handle_of` tells, after a call that went well, whose code was loaded.
template <typename Call, typename HandleOf>
Status counted_load(Call call, HandleOf handle_of) {
  const Passage passage;
  InsideHook inside;
  Accounting* accounting = inside.accounting();
  int64_t before = 0;
  if (accounting == nullptr || !taken_beside_ours(*accounting, &before)) return call();
  const Status status = call();
  int64_t after = 0;
  if (status != kSuccess || !taken_beside_ours(*accounting, &after) || after <= before) {
    return status;
  }
  const uint64_t bytes = static_cast<uint64_t>(after - before);
  const Handle handle = handle_of();
  if (bytes > kMostBelievable) {
    log_line("a load of code seems to take %llu bytes: not counted",
             static_cast<unsigned long long>(bytes));
  } else if (handle != nullptr) {
    accounting->add_code(reinterpret_cast<uint64_t>(handle), bytes, current_context());
  }
  return status;
}

template <typename Call>
Status counted_load_of(Handle* handle, Call call) {
  return counted_load(call, [=] { return handle == nullptr ? nullptr : *handle; });
}

template <typename Call>
Status counted_unload(Handle handle, Call call) {
  InsideHook inside;
  Accounting* accounting = inside.accounting();
  if (accounting == nullptr) return call();
  const Entry entry = accounting->forget(Kind::kCode, reinterpret_cast<uint64_t>(handle));
  const Status status = call();
  accounting->settle(entry, status == kSuccess);
  return status;
}

}  // namespace

SHIM_EXPORT Status cuModuleLoad(Handle* module, const char* path) {
  return counted_load_of(module,
                         [=] { return REAL(cuModuleLoad, Handle*, const char*)(module, path); });
}

SHIM_EXPORT Status cuModuleLoadData(Handle* module, const void* image) {
  return counted_load_of(
      module, [=] { return REAL(cuModuleLoadData, Handle*, const void*)(module, image); });
}

SHIM_EXPORT Status cuModuleLoadDataEx(Handle* module, const void* image, unsigned count,
                                      void* options, void* values) {
  return counted_load_of(module, [=] {
    return REAL(cuModuleLoadDataEx, Handle*, const void*, unsigned, void*, void*)(
        module, image, count, options, values);
  });
}

SHIM_EXPORT Status cuModuleLoadFatBinary(Handle* module, const void* image) {
  return counted_load_of(
      module, [=] { return REAL(cuModuleLoadFatBinary, Handle*, const void*)(module, image); });
}

SHIM_EXPORT Status cuLibraryLoadData(Handle* library, const void* code, void* jit_options,
                                     void* jit_values, unsigned jit_count, void* options,
                                     void* values, unsigned count) {
  return counted_load_of(library, [=] {
    return REAL(cuLibraryLoadData, Handle*, const void*, void*, void*, unsigned, void*, void*,
                unsigned)(library, code, jit_options, jit_values, jit_count, options, values,
                          count);
  });
}

SHIM_EXPORT Status cuLibraryLoadFromFile(Handle* library, const char* path, void* jit_options,
                                         void* jit_values, unsigned jit_count, void* options,
                                         void* values, unsigned count) {
  return counted_load_of(library, [=] {
    return REAL(cuLibraryLoadFromFile, Handle*, const char*, void*, void*, unsigned, void*, void*,
                unsigned)(library, path, jit_options, jit_values, jit_count, options, values,
                          count);
  });
}

// A library's code comes to a context when it is first asked for there.
SHIM_EXPORT Status cuLibraryGetModule(Handle* module, Handle library) {
  return counted_load([=] { return REAL(cuLibraryGetModule, Handle*, Handle)(module, library); },
                      [=] { return library; });
}

SHIM_EXPORT Status cuKernelGetFunction(Handle* function, Handle kernel) {
  return counted_load([=] { return REAL(cuKernelGetFunction, Handle*, Handle)(function, kernel); },
                      [=] {
                        Handle library = nullptr;
                        REAL(cuKernelGetLibrary, Handle*, Handle)(&library, kernel);
                        return library;
                      });
}

SHIM_EXPORT Status cuModuleUnload(Handle module) {
  return counted_unload(module, [=] { return REAL(cuModuleUnload, Handle)(module); });
}

SHIM_EXPORT Status cuLibraryUnload(Handle library) {
  return counted_unload(library, [=] { return REAL(cuLibraryUnload, Handle)(library); });
}
