// Libraries, which belong to the process, and their kernels, which any context may launch.
#include <algorithm>

#include "emulator/emulated_cuda/api.h"
#include "emulator/emulated_cuda/kernel_attributes.h"
#include "emulator/emulated_cuda/ptx_image.h"

using namespace lambent::emulated_cuda;

// Declares `kernel`.
#define WITH_KERNEL(handle)                    \
  WITH_PROCESS();                              \
  auto kernel = process->kernels.find(handle); \
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE

// Declares `library`, and `context`, the current one.
#define WITH_LIBRARY(handle)                      \
  WITH_CONTEXT();                                 \
  auto library = process->libraries.find(handle); \
  if (!library) return CUDA_ERROR_INVALID_HANDLE

namespace {

CUresult add_library(Process& process, Image image, CUlibrary* out) {
  auto library = std::make_shared<Library>();
  library->shared_instance =
      std::any_of(image.begin(), image.end(), [](const auto& code) { return code->has_managed(); });
  library->image = std::move(image);
  *out = reinterpret_cast<CUlibrary>(process.libraries.insert(std::move(library)));
  return CUDA_SUCCESS;
}

CUresult check_options(unsigned int count, const CUlibraryOption* options) {
  if (count && !options) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; i++) {
    if (options[i] < 0 || options[i] > CU_LIBRARY_BINARY_IS_PRESERVED) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuLibraryLoadData(CUlibrary* library, const void* data, CUjit_option* jit_options,
                           void** jit_values, unsigned int jit_count, CUlibraryOption* options,
                           void**, unsigned int count) {
  WITH_PROCESS();
  if (!library) return CUDA_ERROR_INVALID_VALUE;
  JitOptions jit;
  if (CUresult result = jit.read(jit_count, jit_options, jit_values)) return result;
  if (CUresult result = check_options(count, options)) return result;
  Image image;
  if (CUresult result = read_image(*process, data, jit, &image)) return result;
  return add_library(*process, std::move(image), library);
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option* jit_options,
                               void** jit_values, unsigned int jit_count, CUlibraryOption* options,
                               void**, unsigned int count) {
  WITH_PROCESS();
  if (!library) return CUDA_ERROR_INVALID_VALUE;
  JitOptions jit;
  if (CUresult result = jit.read(jit_count, jit_options, jit_values)) return result;
  if (CUresult result = check_options(count, options)) return result;
  Image image;
  std::string reason;
  if (CUresult result = read_image_file(*process, path, &image, &reason)) {
    jit.write_error(reason);
    return result;
  }
  return add_library(*process, std::move(image), library);
}

CUresult cuLibraryUnload(CUlibrary handle) {
  WITH_PROCESS();
  auto library = process->libraries.remove(handle);
  if (!library) return CUDA_ERROR_INVALID_HANDLE;
  process->kernels.remove_if([&](Kernel& kernel) { return kernel.library_handle == handle; });
  std::vector<std::shared_ptr<Module>> instances;
  {
    const lambent::MutexLock lock(library->mutex);
    for (auto& [context, instance] : library->instances) {
      if (auto module = instance.lock()) instances.push_back(std::move(module));
    }
  }
  for (const auto& module : instances) unload_module(*process, module);
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary handle, const char* name) {
  WITH_PROCESS();
  auto library = process->libraries.find(handle);
  if (!library) return CUDA_ERROR_INVALID_HANDLE;
  return get_kernel(*process, library, name, reinterpret_cast<Kernel**>(kernel));
}

CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary handle) {
  WITH_PROCESS();
  auto library = process->libraries.find(handle);
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  if (!library) return CUDA_ERROR_INVALID_HANDLE;
  *count = static_cast<unsigned>(kernel_names(library->image).size());
  return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int count, CUlibrary handle) {
  WITH_PROCESS();
  auto library = process->libraries.find(handle);
  if (!kernels) return CUDA_ERROR_INVALID_VALUE;
  if (!library) return CUDA_ERROR_INVALID_HANDLE;
  unsigned given = 0;
  for (const std::string& name : kernel_names(library->image)) {
    if (given == count) break;
    Kernel* kernel;
    if (CUresult result = get_kernel(*process, library, name.c_str(), &kernel)) return result;
    kernels[given++] = reinterpret_cast<CUkernel>(kernel);
  }
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule* module, CUlibrary handle) {
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  WITH_LIBRARY(handle);
  std::shared_ptr<Module> instance;
  if (CUresult result = instance_of(*process, *library, *context, &instance)) return result;
  *module = reinterpret_cast<CUmodule>(instance.get());
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary handle,
                            const char* name) {
  WITH_LIBRARY(handle);
  std::shared_ptr<Module> instance;
  if (CUresult result = instance_of(*process, *library, *context, &instance)) return result;
  return get_variable(*process, *instance, name, false, address, bytes);
}

CUresult cuLibraryGetManaged(CUdeviceptr* address, size_t* bytes, CUlibrary handle,
                             const char* name) {
  WITH_LIBRARY(handle);
  if (!library->shared_instance) return CUDA_ERROR_NOT_FOUND;  // it has no managed variables
  std::shared_ptr<Module> instance;
  if (CUresult result = instance_of(*process, *library, *context, &instance)) return result;
  return get_variable(*process, *instance, name, true, address, bytes);
}

// Devices here have no function pointers that host and device share, so there are none by any name.
CUresult cuLibraryGetUnifiedFunction(void** function, CUlibrary handle, const char* name) {
  WITH_PROCESS();
  if (!function || !name) return CUDA_ERROR_INVALID_VALUE;
  if (!process->libraries.find(handle)) return CUDA_ERROR_INVALID_HANDLE;
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuKernelGetFunction(CUfunction* out, CUkernel handle) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  WITH_CONTEXT();
  if (!process->kernels.find(handle)) return CUDA_ERROR_INVALID_HANDLE;
  std::shared_ptr<Function> function;
  if (CUresult result = find_function(*process, *context, handle, &function)) return result;
  *out = reinterpret_cast<CUfunction>(function.get());
  return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel handle) {
  if (!library) return CUDA_ERROR_INVALID_VALUE;
  WITH_KERNEL(handle);
  *library = reinterpret_cast<CUlibrary>(const_cast<void*>(kernel->library_handle));
  return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char** name, CUkernel handle) {
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  WITH_KERNEL(handle);
  *name = kernel->name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel handle,
                              CUdevice ordinal) {
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  WITH_KERNEL(handle);
  int device;
  if (CUresult result = process->device_of(ordinal, &device)) return result;
  const emulated_kernel* description = describe(*kernel);
  if (!description) return CUDA_ERROR_INVALID_IMAGE;
  const DeviceSpec& spec = process->spec(device);
  int dynamic =
      std::max(0, spec.shared_bytes_per_block - static_cast<int>(description->static_shared_bytes));
  const lambent::MutexLock lock(kernel->mutex);
  if (auto it = kernel->max_dynamic_shared_bytes.find(ordinal);
      it != kernel->max_dynamic_shared_bytes.end()) {
    dynamic = it->second;
  }
  return kernel_attribute(spec, *description, dynamic, attribute, value);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle,
                              CUdevice ordinal) {
  WITH_KERNEL(handle);
  int device;
  if (CUresult result = process->device_of(ordinal, &device)) return result;
  const emulated_kernel* description = describe(*kernel);
  if (!description) return CUDA_ERROR_INVALID_IMAGE;
  if (CUresult result = check_settable(process->spec(device), *description, attribute, value)) {
    return result;
  }
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;
  const lambent::MutexLock lock(kernel->mutex);
  kernel->max_dynamic_shared_bytes[ordinal] = value;
  for (auto& [context, weak] : kernel->functions) {
    auto function = weak.lock();
    if (function && function->module->device == device) function->max_dynamic_shared_bytes = value;
  }
  return CUDA_SUCCESS;
}

CUresult cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache configuration, CUdevice ordinal) {
  WITH_KERNEL(handle);
  int device;
  if (CUresult result = process->device_of(ordinal, &device)) return result;
  return configuration > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel handle, size_t index, size_t* offset, size_t* size) {
  if (!offset) return CUDA_ERROR_INVALID_VALUE;
  WITH_KERNEL(handle);
  const emulated_kernel* description = describe(*kernel);
  if (!description) return CUDA_ERROR_INVALID_IMAGE;
  return parameter_place(*description, index, offset, size);
}
