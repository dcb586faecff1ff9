// Modules and libraries as the executor holds them: images that are uploaded to it, and what is in
// them by name. A library is a module of the current context. Any thread, without the StateLock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/plain_mutex.h"
#include "gpu/cuda_abi/driver_types.h"
#include "gpu/forward_client/connection.h"
#include "gpu/forward_client/state.h"

namespace lambent::forward_client {

// The executor puts one image together at a time: held from the upload to the call that takes it.
// Taken without the StateLock.
extern PlainMutex upload_mutex;
// Sends an image, which the next call that takes one takes.
CUresult upload(const void* image, size_t size) REQUIRES(upload_mutex);
// Loads an image into the current context and tells its number. Of the options only the log of
// errors is followed; the information log stays empty.
CUresult load_image(const void* image, bool library, unsigned count, const CUjit_option* options,
                    void** values, uint64_t* number);
// The same for the image in a file.
CUresult load_file(const char* path, bool library, uint64_t* number);
// Forgets the module, its functions and its variables, here and there.
CUresult unload(uint64_t number, bool library);
// INVALID_HANDLE unless there is a current context and this is a module, or a library.
CUresult check_module(uint64_t number, bool library);

// A variable of a module by its name: where it lies and how long it is, each unless null.
CUresult find_global(uint64_t module, const char* name, CUdeviceptr* address, size_t* bytes);

}  // namespace lambent::forward_client
