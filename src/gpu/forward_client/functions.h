// Functions of modules, which are also the kernels of libraries, for there is only one context that
// they could be in: found by name, listed, asked and told. Any thread, without the StateLock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda_abi/driver_types.h"
#include "gpu/forward_client/connection.h"
#include "gpu/forward_client/state.h"

namespace lambent::forward_client {

CUresult find_function(uint64_t module, const char* name, uint64_t* number);
// How many a module has, and the numbers of the first `most` unless `numbers` is null.
CUresult list_functions(uint64_t module, uint64_t* count, uint64_t* numbers, size_t most);
// Fills an array with the handles, which get these bits, of the first `most` functions of a module.
CUresult enumerate_functions(uint64_t module, void* handles, unsigned most, uint64_t bits);
// The name stays valid to the end of the process.
CUresult name_of_function(uint64_t function, const char** name);
// What is kept here of a function. INVALID_HANDLE if there is none.
CUresult copy_function_record(uint64_t function, FunctionRecord* record);

CUresult get_function_attribute(uint64_t function, CUfunction_attribute attribute, int* value);
CUresult set_function_attribute(uint64_t function, CUfunction_attribute attribute, int value);
CUresult set_function_cache(uint64_t function, CUfunc_cache config);
// Where the index-th parameter lies in a kernel's parameters, and how long it is.
CUresult parameter_info(uint64_t function, size_t index, size_t* offset, size_t* bytes);

}  // namespace lambent::forward_client
