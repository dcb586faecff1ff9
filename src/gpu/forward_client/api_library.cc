// Libraries and their kernels.
#include "gpu/forward_client/api.h"
#include "gpu/forward_client/functions.h"
#include "gpu/forward_client/modules.h"

using namespace lambent::forward_client;

CUresult cuLibraryLoadData(CUlibrary* library, const void* image, CUjit_option* options,
                           void** values, unsigned int count, CUlibraryOption*, void**,
                           unsigned int) {
  if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t number = 0;
  if (const CUresult result = load_image(image, true, count, options, values, &number)) {
    return result;
  }
  *library = handle_for<CUlibrary>(number, kLibraryBit);
  return CUDA_SUCCESS;
}
CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option*, void**,
                               unsigned int, CUlibraryOption*, void**, unsigned int) {
  uint64_t number = 0;
  if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = load_file(path, true, &number)) return result;
  *library = handle_for<CUlibrary>(number, kLibraryBit);
  return CUDA_SUCCESS;
}
CUresult cuLibraryUnload(CUlibrary library) { return unload(number_of(library), true); }
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  if (kernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_module(number_of(library), true)) return result;
  uint64_t number = 0;
  if (const CUresult result = find_function(number_of(library), name, &number)) return result;
  *kernel = handle_for<CUkernel>(number, kKernelBit);
  return CUDA_SUCCESS;
}
CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_module(number_of(library), true)) return result;
  *module = handle_for<CUmodule>(number_of(library));
  return CUDA_SUCCESS;
}
CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library,
                            const char* name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_module(number_of(library), true)) return result;
  return find_global(number_of(library), name, address, bytes);
}
// There is no managed memory.
CUresult cuLibraryGetManaged(CUdeviceptr*, size_t*, CUlibrary library, const char*) {
  if (const CUresult result = check_module(number_of(library), true)) return result;
  return CUDA_ERROR_NOT_FOUND;
}
CUresult cuLibraryGetUnifiedFunction(void**, CUlibrary library, const char*) {
  if (const CUresult result = check_module(number_of(library), true)) return result;
  return CUDA_ERROR_NOT_FOUND;
}
CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary library) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_module(number_of(library), true)) return result;
  uint64_t all = 0;
  const CUresult result = list_functions(number_of(library), &all, nullptr, 0);
  *count = static_cast<unsigned>(all);
  return result;
}
CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int most, CUlibrary library) {
  if (kernels == nullptr || most == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_module(number_of(library), true)) return result;
  return enumerate_functions(number_of(library), kernels, most, kKernelBit);
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  FunctionRecord record;
  if (const CUresult result = copy_function_record(number_of(kernel), &record)) return result;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = handle_for<CUfunction>(number_of(kernel));
  return CUDA_SUCCESS;
}
CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return name_of_function(number_of(kernel), name);
}
CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
  FunctionRecord record;
  if (const CUresult result = copy_function_record(number_of(kernel), &record)) return result;
  if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *library = handle_for<CUlibrary>(record.module, kLibraryBit);
  return CUDA_SUCCESS;
}
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* bytes) {
  return parameter_info(number_of(kernel), index, offset, bytes);
}
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice device_number) {
  if (device_number != 0) return CUDA_ERROR_INVALID_DEVICE;
  return get_function_attribute(number_of(kernel), attribute, value);
}
CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                              CUdevice device_number) {
  if (device_number != 0) return CUDA_ERROR_INVALID_DEVICE;
  return set_function_attribute(number_of(kernel), attribute, value);
}
CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device_number) {
  if (device_number != 0) return CUDA_ERROR_INVALID_DEVICE;
  return set_function_cache(number_of(kernel), config);
}
