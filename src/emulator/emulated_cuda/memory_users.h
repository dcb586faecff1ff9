// Who may still use memory that is to be freed. Used by the API's functions; any thread.
#pragma once

#include <cstdint>

namespace lambent::emulated_cuda {

struct Context;
class Process;

// All work of the process that may use what is allocated at this address ends: of the current
// context, of every one on its device, of those on devices that its memory or its pool is opened
// to, and of all for managed memory and that of the host.
void synchronize_users(Process& process, Context& current, uintptr_t address);

}  // namespace lambent::emulated_cuda
