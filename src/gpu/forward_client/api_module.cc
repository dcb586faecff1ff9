// Modules, their functions and their variables.
#include "gpu/forward_client/api.h"
#include "gpu/forward_client/functions.h"
#include "gpu/forward_client/modules.h"

using namespace lambent::forward_client;

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int count,
                            CUjit_option* options, void** values) {
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t number = 0;
  if (const CUresult result = load_image(image, false, count, options, values, &number)) {
    return result;
  }
  *module = handle_for<CUmodule>(number);
  return CUDA_SUCCESS;
}
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}
CUresult cuModuleLoad(CUmodule* module, const char* path) {
  uint64_t number = 0;
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = load_file(path, false, &number)) return result;
  *module = handle_for<CUmodule>(number);
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module) { return unload(number_of(module), false); }

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t number = 0;
  {
    WITH_CONTEXT();
    if (state().modules.find(number_of(module)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  }
  if (const CUresult result = find_function(number_of(module), name, &number)) return result;
  *function = handle_for<CUfunction>(number);
  return CUDA_SUCCESS;
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule module,
                              const char* name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  {
    WITH_CONTEXT();
    if (state().modules.find(number_of(module)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  }
  return find_global(number_of(module), name, address, bytes);
}
CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule module) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  {
    WITH_CONTEXT();
    if (state().modules.find(number_of(module)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  }
  uint64_t all = 0;
  const CUresult result = list_functions(number_of(module), &all, nullptr, 0);
  *count = static_cast<unsigned>(all);
  return result;
}
CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned int most, CUmodule module) {
  if (functions == nullptr || most == 0) return CUDA_ERROR_INVALID_VALUE;
  {
    WITH_CONTEXT();
    if (state().modules.find(number_of(module)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  }
  return enumerate_functions(number_of(module), functions, most, 0);
}
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_EAGER_LOADING;
  return connection_state();
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return get_function_attribute(number_of(function), attribute, value);
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return set_function_attribute(number_of(function), attribute, value);
}
CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
  return set_function_cache(number_of(function), config);
}
CUresult cuFuncGetModule(CUmodule* module, CUfunction function) {
  FunctionRecord record;
  if (const CUresult result = copy_function_record(number_of(function), &record)) return result;
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *module = handle_for<CUmodule>(record.module);
  return CUDA_SUCCESS;
}
CUresult cuFuncGetName(const char** name, CUfunction function) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return name_of_function(number_of(function), name);
}
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* bytes) {
  return parameter_info(number_of(function), index, offset, bytes);
}
CUresult cuFuncIsLoaded(CUfunctionLoadingState* loading, CUfunction function) {
  FunctionRecord record;
  if (const CUresult result = copy_function_record(number_of(function), &record)) return result;
  if (loading == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *loading = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}
CUresult cuFuncLoad(CUfunction function) {
  FunctionRecord record;
  return copy_function_record(number_of(function), &record);
}
