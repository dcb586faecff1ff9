/* A C program that hands device memory on, or takes what another process handed on:
 *   handed_memory put BYTES VALUE: memory full of the value; prints its handle in base 16.
 *   handed_memory get HANDLE: prints the memory's address, its size and its last byte.
 * The driver is whichever libcuda.so.1 there is. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  unsigned char bytes[64];
} Handle;

static void* library;

static void* find(const char* name) {
  void* found = dlsym(library, name);
  if (found == NULL) {
    fprintf(stderr, "the driver has no %s\n", name);
    exit(1);
  }
  return found;
}

#define CALL(name, types, arguments)                         \
  do {                                                       \
    const int result = ((int(*) types)find(#name))arguments; \
    if (result != 0) {                                       \
      fprintf(stderr, "%s failed: %d\n", #name, result);     \
      exit(1);                                               \
    }                                                        \
  } while (0)

static void put(size_t bytes, unsigned char value) {
  uint64_t address = 0;
  Handle handle;
  memset(&handle, 0, sizeof(handle));
  CALL(cuMemAlloc_v2, (uint64_t*, size_t), (&address, bytes));
  CALL(cuMemsetD8_v2, (uint64_t, unsigned char, size_t), (address, value, bytes));
  CALL(cuCtxSynchronize, (void), ());
  CALL(cuIpcGetMemHandle, (Handle*, uint64_t), (&handle, address));
  CALL(cuMemFree_v2, (uint64_t), (address));
  for (size_t i = 0; i < sizeof(handle.bytes); ++i) printf("%02x", handle.bytes[i]);
  printf("\n");
}

static void get(const char* text) {
  Handle handle;
  uint64_t address = 0, begin = 0;
  size_t bytes = 0;
  unsigned char last = 0;
  for (size_t i = 0; i < sizeof(handle.bytes); ++i) {
    unsigned value = 0;
    if (sscanf(text + 2 * i, "%2x", &value) != 1) exit(2);
    handle.bytes[i] = (unsigned char)value;
  }
  CALL(cuIpcOpenMemHandle_v2, (uint64_t*, Handle, unsigned), (&address, handle, 1));
  CALL(cuMemGetAddressRange_v2, (uint64_t*, size_t*, uint64_t), (&begin, &bytes, address));
  CALL(cuMemcpyDtoH_v2, (void*, uint64_t, size_t), (&last, address + bytes - 1, 1));
  CALL(cuIpcCloseMemHandle, (uint64_t), (address));
  printf("%llu %zu %u\n", (unsigned long long)address, bytes, last);
}

int main(int count, char** words) {
  void* context = NULL;
  int device = 0;
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  CALL(cuInit, (unsigned), (0));
  CALL(cuDeviceGet, (int*, int), (&device, 0));
  CALL(cuDevicePrimaryCtxRetain, (void**, int), (&context, device));
  CALL(cuCtxSetCurrent, (void*), (context));
  if (count == 4 && strcmp(words[1], "put") == 0) {
    put(strtoull(words[2], NULL, 10), (unsigned char)atoi(words[3]));
  } else if (count == 3 && strcmp(words[1], "get") == 0 && strlen(words[2]) == 2 * sizeof(Handle)) {
    get(words[2]);
  } else {
    return 2;
  }
  return 0;
}
