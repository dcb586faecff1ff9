// Who serves this machine's devices, and who cuts them again, told by locks on a file: the driver's
// own, or an emulated node's; of a node that a worker keeps behind a socket, a file beside that,
// which no function reaches. Only who has that same file is told: a container has a device node of
// its own. The marks go with the process. Used by mains.
#pragma once

#include <string>

#include "core/base/fd.h"
#include "core/base/result.h"

namespace lambent::monitor {

// Where there is a driver.
constexpr const char* kDriverFile = "/dev/nvidiactl";

// As long as it is open no process cuts them again; several may serve them. FAILED_PRECONDITION:
// one is doing that. Not valid where the file cannot be locked: then none is told, and the
// caller says so.
Result<OwnedFd> mark_served(const std::string& file);
// As long as it is open no process begins to serve them. FAILED_PRECONDITION: one does.
Result<OwnedFd> claim_to_cut(const std::string& file);

}  // namespace lambent::monitor
