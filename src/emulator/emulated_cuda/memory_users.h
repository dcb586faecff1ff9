// Who may still use memory that is to be freed. Used by the API's functions; any thread.
#pragma once

#include <cstdint>

namespace lambent::emulated_cuda {

class Process;

// All work of the process that may use what is allocated at this address ends: of every context on
// its device, of those on devices that its memory is opened to, and of all for managed memory and
// that of the host.
void synchronize_users(Process& process, uintptr_t address);

}  // namespace lambent::emulated_cuda
