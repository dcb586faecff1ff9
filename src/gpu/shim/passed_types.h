// The driver's types as a call passes them, in the words of gated_functions.txt; for the hooks and
// their tests. What the pointers point to is of no interest to who only passes them on.
#pragma once

#include <stddef.h>

namespace lambent::shim {

using Status = int;                         // CUresult
using Address = unsigned long long;         // CUdeviceptr
using Handle = void*;                       // contexts, streams, arrays, pools
using Pointer = void*;                      // anything else that is pointed to
using PhysicalHandle = unsigned long long;  // CUmemGenericAllocationHandle
using Device = int;

// CUmemLocation.
struct Location {
  int type;
  int id;
};

// CUipcMemHandle.
struct IpcMemoryHandle {
  char bytes[64];
};

}  // namespace lambent::shim
