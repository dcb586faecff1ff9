// The sockets at which processes inside sandboxes call: a sandbox finds its own at a path that no
// other sees, so who calls is told by the socket and not by what the caller says. Used by the
// worker, on the loop thread.
#pragma once

#include <string>

#include "core/base/fd.h"
#include "core/base/result.h"

namespace lambent::worker {

// A listening, non-blocking SOCK_SEQPACKET socket that every user who sees `path` may connect to.
// Descriptors cannot be sent over its connections where the kernel can refuse them (Linux 6.16):
// closing them could take its reader as long as the sender likes, with a socket that lingers (which
// seccomp.cc keeps from being made) or with gigabytes of memory behind them.
Result<OwnedFd> listen_to_sandbox(const std::string& path);

}  // namespace lambent::worker
