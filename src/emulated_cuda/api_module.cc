// Modules and libraries (one thing here), their functions and variables.
#include <algorithm>
#include <climits>
#include <cstring>
#include <fstream>
#include <iterator>

#include "emulated_cuda/api.h"

using namespace lambent::emulated_cuda;

namespace {

CUresult refuse_image(ImageKind kind) {
  switch (kind) {
    case ImageKind::kCubin:
      log_refusal("module image (cubin)", "GPU machine code; the emulator runs host ELF modules");
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case ImageKind::kFatBinary:
    case ImageKind::kFatBinaryWrapper:
      log_refusal("module image (fat binary)", "GPU code; the emulator runs host ELF modules");
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case ImageKind::kPtx:
      log_refusal("module image (PTX)", "GPU code; the emulator runs host ELF modules");
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
    default:
      return CUDA_ERROR_INVALID_IMAGE;
  }
}

// `available` is 0 where the call gives no size.
CUresult load(Process& process, Context* context, int device, const void* image, size_t available,
              Module** out) {
  if (!image) return CUDA_ERROR_INVALID_VALUE;
  if (available != 0 && available < 64) return CUDA_ERROR_INVALID_IMAGE;
  ImageKind kind = image_kind(image);
  if (kind != ImageKind::kHostElf) return refuse_image(kind);
  size_t bytes = elf_image_bytes(image);
  if (bytes == 0 || (available != 0 && bytes > available)) return CUDA_ERROR_INVALID_IMAGE;
  uint64_t counted = (bytes + 0xFFFF) & ~uint64_t{0xFFFF};
  if (!process.count_bytes(device, counted)) return CUDA_ERROR_OUT_OF_MEMORY;
  auto module = std::make_shared<Module>();
  std::string error;
  if (!module->host.load(image, bytes, &error)) {
    process.uncount_bytes(device, counted);
    log_refusal("module image (host ELF)", error.c_str());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  module->context = context;
  module->device = device;
  module->counted_bytes = counted;
  process.node->spend(process.spec(device).module_load_ns);
  *out = process.modules.insert(std::move(module));
  return CUDA_SUCCESS;
}

CUresult load_file(Process& process, Context* context, int device, const char* path, Module** out) {
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  std::vector<char> image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  size_t bytes = image.size();
  if (bytes < 64) image.resize(64);
  ImageKind kind = image_kind(image.data());
  if (bytes < 64 && kind != ImageKind::kPtx) return CUDA_ERROR_INVALID_IMAGE;
  return load(process, context, device, image.data(), bytes, out);
}

CUresult unload(Process& process, const void* handle, bool library) {
  auto module = process.modules.find(handle);
  if (!module || (module->context == nullptr) != library) return CUDA_ERROR_INVALID_HANDLE;
  // Kernels of it may still be queued, in any context for a library.
  process.contexts.remove_if([&](Context& context) {
    if (library || &context == module->context) synchronize(context);
    return false;
  });
  process.modules.remove(handle);
  process.functions.remove_if([&](Function& f) { return f.module == module.get(); });
  for (uintptr_t variable : module->variables) process.memory.forget_module(variable);
  process.uncount_bytes(module->device, module->counted_bytes);
  return CUDA_SUCCESS;
}

CUresult get_function(Process& process, Module& module, const char* name, Function** out) {
  if (!out || !name || !*name) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(module.mutex);
  auto it = module.functions.find(name);
  if (it == module.functions.end()) {
    bool bad_version = false;
    const emulated_kernel* kernel = module.host.kernel(name, &bad_version);
    if (bad_version) {
      log_refusal(name, "the kernel was built for another version of emulated_kernel.h");
      return CUDA_ERROR_INVALID_IMAGE;
    }
    if (!kernel) return CUDA_ERROR_NOT_FOUND;
    int shared = process.spec(module.device).shared_bytes_per_block -
                 static_cast<int>(kernel->static_shared_bytes);
    auto function =
        std::make_shared<Function>(Function{&module, name, kernel, std::max(0, shared)});
    process.functions.insert(function);
    it = module.functions.emplace(name, std::move(function)).first;
  }
  *out = it->second.get();
  return CUDA_SUCCESS;
}

CUresult get_variable(Process& process, Module& module, const char* name, CUdeviceptr* address,
                      size_t* bytes) {
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  size_t size = 0;
  void* found = module.host.variable(name, &size);
  if (!found) return CUDA_ERROR_NOT_FOUND;
  std::lock_guard lock(module.mutex);
  auto base = reinterpret_cast<uintptr_t>(found);
  if (process.memory.add(base, size, MemoryKind::kModule, 0, module.device, module.context)) {
    module.variables.push_back(base);
  }
  if (address) *address = base;
  if (bytes) *bytes = size;
  return CUDA_SUCCESS;
}

std::shared_ptr<Function> find_function(Process& process, const void* handle) {
  return process.functions.find(handle);
}

CUresult attribute_of(Process& process, const Function& function, CUfunction_attribute attribute,
                      int* value) {
  const emulated_kernel& kernel = *function.kernel;
  const DeviceSpec& spec = process.spec(function.module->device);
  int capability = spec.compute_major * 10 + spec.compute_minor;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = static_cast<int>(std::min<uint32_t>(
          1024, kernel.max_threads_per_block ? kernel.max_threads_per_block : 1024));
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(kernel.static_shared_bytes);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = static_cast<int>(kernel.registers_per_thread);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = capability;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = function.max_dynamic_shared_bytes;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = -1;
      return CUDA_SUCCESS;
    default:
      if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
      *value = 0;
      return CUDA_SUCCESS;
  }
}

}  // namespace

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  WITH_CONTEXT();
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  return load(*process, context.get(), context->device, image, 0,
              reinterpret_cast<Module**>(module));
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int count,
                            CUjit_option* options, void** values) {
  if (count && (!options || !values)) return CUDA_ERROR_INVALID_VALUE;
  return cuModuleLoadData(module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return cuModuleLoadData(module, image);
}

CUresult cuModuleLoad(CUmodule* module, const char* path) {
  WITH_CONTEXT();
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  return load_file(*process, context.get(), context->device, path,
                   reinterpret_cast<Module**>(module));
}

CUresult cuModuleUnload(CUmodule module) {
  WITH_PROCESS();
  return unload(*process, module, false);
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_EAGER_LOADING;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  WITH_PROCESS();
  auto module = process->modules.find(handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  return get_function(*process, *module, name, reinterpret_cast<Function**>(function));
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule handle,
                              const char* name) {
  WITH_PROCESS();
  auto module = process->modules.find(handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  return get_variable(*process, *module, name, address, bytes);
}

// A library belongs to the process; its memory is counted on the first device.
CUresult cuLibraryLoadData(CUlibrary* library, const void* image, CUjit_option*, void**,
                           unsigned int, CUlibraryOption*, void**, unsigned int) {
  WITH_PROCESS();
  if (!library) return CUDA_ERROR_INVALID_VALUE;
  return load(*process, nullptr, process->visible[0], image, 0,
              reinterpret_cast<Module**>(library));
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option*, void**,
                               unsigned int, CUlibraryOption*, void**, unsigned int) {
  WITH_PROCESS();
  if (!library) return CUDA_ERROR_INVALID_VALUE;
  return load_file(*process, nullptr, process->visible[0], path,
                   reinterpret_cast<Module**>(library));
}

CUresult cuLibraryUnload(CUlibrary library) {
  WITH_PROCESS();
  return unload(*process, library, true);
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary handle, const char* name) {
  return cuModuleGetFunction(reinterpret_cast<CUfunction*>(kernel),
                             reinterpret_cast<CUmodule>(handle), name);
}

CUresult cuLibraryGetModule(CUmodule* module, CUlibrary handle) {
  WITH_CONTEXT();
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  if (!process->modules.find(handle)) return CUDA_ERROR_INVALID_HANDLE;
  *module = reinterpret_cast<CUmodule>(handle);
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary handle,
                            const char* name) {
  return cuModuleGetGlobal_v2(address, bytes, reinterpret_cast<CUmodule>(handle), name);
}

// A kernel and its function in a context are one object here, so either may be launched.
CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  WITH_CONTEXT();
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  if (!find_function(*process, kernel)) return CUDA_ERROR_INVALID_HANDLE;
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  WITH_PROCESS();
  auto function = find_function(*process, handle);
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  return attribute_of(*process, *function, attribute, value);
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice) {
  return cuFuncGetAttribute(value, attribute, reinterpret_cast<CUfunction>(kernel));
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  WITH_PROCESS();
  auto function = find_function(*process, handle);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) return CUDA_SUCCESS;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_ERROR_INVALID_VALUE;
  int limit = process->spec(function->module->device).shared_bytes_per_block_optin -
              static_cast<int>(function->kernel->static_shared_bytes);
  if (value < 0 || value > limit) return CUDA_ERROR_INVALID_VALUE;
  function->max_dynamic_shared_bytes = value;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache configuration) {
  WITH_PROCESS();
  if (!find_function(*process, handle)) return CUDA_ERROR_INVALID_HANDLE;
  return configuration > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule* module, CUfunction handle) {
  WITH_PROCESS();
  auto function = find_function(*process, handle);
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  *module = reinterpret_cast<CUmodule>(function->module);
  return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char** name, CUfunction handle) {
  WITH_PROCESS();
  auto function = find_function(*process, handle);
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  *name = function->name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  return cuFuncGetName(name, reinterpret_cast<CUfunction>(kernel));
}

CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset, size_t* size) {
  WITH_PROCESS();
  auto function = find_function(*process, handle);
  if (!offset) return CUDA_ERROR_INVALID_VALUE;
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  const emulated_kernel& kernel = *function->kernel;
  if (index >= kernel.parameter_count) return CUDA_ERROR_INVALID_VALUE;
  size_t at = 0;
  for (size_t i = 0;; i++) {
    size_t alignment = std::max<size_t>(1, kernel.parameter_alignments[i]);
    at = (at + alignment - 1) / alignment * alignment;
    if (i == index) break;
    at += kernel.parameter_sizes[i];
  }
  *offset = at;
  if (size) *size = kernel.parameter_sizes[index];
  return CUDA_SUCCESS;
}
