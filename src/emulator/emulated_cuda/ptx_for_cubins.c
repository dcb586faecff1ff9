/* Preloaded into a program that asks NVRTC for code of a GPU, it gives PTX instead, which the emulated
 * driver compiles: see docs/guides/emulator.md. */
#include <stddef.h>

__attribute__((weak)) int nvrtcGetPTXSize(void* program, size_t* bytes);
__attribute__((weak)) int nvrtcGetPTX(void* program, char* ptx);

enum { kInternalError = 11 }; /* NVRTC_ERROR_INTERNAL_ERROR */

int nvrtcGetCUBINSize(void* program, size_t* bytes) {
  return nvrtcGetPTXSize ? nvrtcGetPTXSize(program, bytes) : kInternalError;
}
int nvrtcGetCUBIN(void* program, char* code) {
  return nvrtcGetPTX ? nvrtcGetPTX(program, code) : kInternalError;
}
