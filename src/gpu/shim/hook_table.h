// The functions that the driver shim implements itself, by name; for cuGetProcAddress, on any
// thread. The names come from coverage.txt, so that a hook cannot be forgotten here.
#pragma once

namespace lambent::shim {

// Our implementation of what the driver has at this address; the address itself if we have none.
void* hook_of_address(void* address);
// Our implementation of an exported name such as "cuMemAlloc_v2"; null if we have none.
void* hook_of_name(const char* name);
// Whether this address is a hook's. A driver that is not linked to bind to itself may answer so of
// its own accord.
bool is_hook(const void* address);
// Whether the driver answers cuGetProcAddress with the addresses of its exported functions. If not,
// only names can tell which function an address is.
bool driver_answers_with_exports();

}  // namespace lambent::shim
