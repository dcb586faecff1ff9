// Libraries of kernels that the program loads itself.
#include "emulator/emulated_runtime/api.h"

using namespace lambent::emulated_runtime;

RUNTIME_API cudaLibraryLoadData(cudaLibrary_t* library, const void* image, CUjit_option* jit,
                                void** jit_values, unsigned int jit_count, CUlibraryOption* options,
                                void** values, unsigned int count) {
  WITH_CONTEXT();
  return record(
      cu.library_load_data(library, image, jit, jit_values, jit_count, options, values, count));
}

RUNTIME_API cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* path, CUjit_option* jit,
                                    void** jit_values, unsigned int jit_count,
                                    CUlibraryOption* options, void** values, unsigned int count) {
  WITH_CONTEXT();
  return record(
      cu.library_load_from_file(library, path, jit, jit_values, jit_count, options, values, count));
}

RUNTIME_API cudaLibraryUnload(cudaLibrary_t library) {
  WITH_CONTEXT();
  return record(cu.library_unload(library));
}

RUNTIME_API cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  WITH_CONTEXT();
  return record(cu.library_get_kernel(kernel, library, name));
}

RUNTIME_API cudaLibraryGetGlobal(void** pointer, size_t* bytes, cudaLibrary_t library,
                                 const char* name) {
  WITH_CONTEXT();
  CUdeviceptr address = 0;
  RETURN_IF_ERROR(cu.library_get_global(&address, bytes, library, name));
  if (pointer) *pointer = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

RUNTIME_API cudaLibraryGetManaged(void** pointer, size_t* bytes, cudaLibrary_t library,
                                  const char* name) {
  WITH_CONTEXT();
  CUdeviceptr address = 0;
  RETURN_IF_ERROR(cu.library_get_managed(&address, bytes, library, name));
  if (pointer) *pointer = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

RUNTIME_API cudaLibraryGetUnifiedFunction(void** function, cudaLibrary_t library,
                                          const char* name) {
  WITH_CONTEXT();
  return record(cu.library_get_unified_function(function, library, name));
}

RUNTIME_API cudaLibraryGetKernelCount(unsigned int* count, cudaLibrary_t library) {
  WITH_CONTEXT();
  return record(cu.library_get_kernel_count(count, library));
}

RUNTIME_API cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned int count,
                                        cudaLibrary_t library) {
  WITH_CONTEXT();
  return record(cu.library_enumerate_kernels(kernels, count, library));
}

RUNTIME_API cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute,
                                            int value, int device) {
  WITH_CONTEXT();
  return record(
      cu.kernel_set_attribute(static_cast<CUfunction_attribute>(attribute), value, kernel, device));
}
