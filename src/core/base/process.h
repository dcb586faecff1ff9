// Processes that are known by their id: descriptors of them, and who is at the other end of a
// socket. Functions; for rooms whose processes watch others.
#pragma once

#include <sys/types.h>

#include "core/base/fd.h"

namespace lambent {

// Becomes readable when the process has ended; not valid if it is no more.
OwnedFd open_process(pid_t process);

// Who connected, or 0 if that cannot be said.
pid_t process_behind(const OwnedFd& socket);

}  // namespace lambent
