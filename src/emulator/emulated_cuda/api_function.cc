// What a function is like: its attributes, parameters, name and module.
#include <algorithm>

#include "emulator/emulated_cuda/api.h"
#include "emulator/emulated_cuda/kernel_attributes.h"

using namespace lambent::emulated_cuda;

// Declares `function`; a kernel means its function in the current context.
#define WITH_FUNCTION(handle)                                           \
  WITH_PROCESS();                                                       \
  std::shared_ptr<Function> function = find_function(*process, handle); \
  if (!function) return CUDA_ERROR_INVALID_HANDLE

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  WITH_FUNCTION(handle);
  return kernel_attribute(process->spec(function->module->device), *function->kernel,
                          function->max_dynamic_shared_bytes, attribute, value);
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  WITH_FUNCTION(handle);
  if (CUresult result = check_settable(process->spec(function->module->device), *function->kernel,
                                       attribute, value)) {
    return result;
  }
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    function->max_dynamic_shared_bytes = value;
  }
  return CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache configuration) {
  WITH_FUNCTION(handle);
  return configuration > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule* module, CUfunction handle) {
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  WITH_FUNCTION(handle);
  *module = reinterpret_cast<CUmodule>(function->module);
  return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char** name, CUfunction handle) {
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  WITH_FUNCTION(handle);
  *name = function->name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset, size_t* size) {
  if (!offset) return CUDA_ERROR_INVALID_VALUE;
  WITH_FUNCTION(handle);
  return parameter_place(*function->kernel, index, offset, size);
}
