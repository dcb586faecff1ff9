// Modules: images loaded into a context, their functions and variables.
#include "emulator/emulated_cuda/api.h"
#include "emulator/emulated_cuda/ptx_image.h"

using namespace lambent::emulated_cuda;

namespace {

CUresult load_into_context(Process& process, Context& context, Image image, CUmodule* out) {
  std::shared_ptr<Module> module;
  CUresult result =
      load_module(process, &context, context.device, std::move(image), false, &module);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUmodule>(module.get());
  return result;
}

}  // namespace

CUresult cuModuleLoadDataEx(CUmodule* module, const void* data, unsigned int count,
                            CUjit_option* options, void** values) {
  WITH_CONTEXT();
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  JitOptions jit;
  if (CUresult result = jit.read(count, options, values)) return result;
  Image image;
  if (CUresult result = read_image(*process, data, jit, &image)) return result;
  return load_into_context(*process, *context, std::move(image), module);
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}

CUresult cuModuleLoad(CUmodule* module, const char* path) {
  WITH_CONTEXT();
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  Image image;
  std::string reason;
  if (CUresult result = read_image_file(*process, path, &image, &reason)) return result;
  return load_into_context(*process, *context, std::move(image), module);
}

CUresult cuModuleUnload(CUmodule handle) {
  WITH_PROCESS();
  auto module = process->modules.find(handle);
  if (!module || module->of_library) return CUDA_ERROR_INVALID_HANDLE;
  unload_module(*process, module);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  WITH_PROCESS();
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

CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule handle) {
  WITH_PROCESS();
  auto module = process->modules.find(handle);
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  *count = static_cast<unsigned>(kernel_names(module->image).size());
  return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned int count, CUmodule handle) {
  WITH_PROCESS();
  auto module = process->modules.find(handle);
  if (!functions) return CUDA_ERROR_INVALID_VALUE;
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  unsigned given = 0;
  for (const std::string& name : kernel_names(module->image)) {
    if (given == count) break;
    Function* function;
    if (CUresult result = get_function(*process, *module, name.c_str(), &function)) return result;
    functions[given++] = reinterpret_cast<CUfunction>(function);
  }
  return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule handle,
                              const char* name) {
  WITH_PROCESS();
  auto module = process->modules.find(handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  return get_variable(*process, *module, name, false, address, bytes);
}
