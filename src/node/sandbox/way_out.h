// WayOut: the process beside a sandbox that relays its connections (node/network). Made by
// lambent-launcher, of which it is a fork without rights; it ends with the sandbox.
#pragma once

#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "node/sandbox/cgroup.h"
#include "node/sandbox/plan.h"

namespace lambent::sandbox {

struct WayOut {
  OwnedFd pidfd;     // readable when it is gone
  OwnedFd refusals;  // lines as node/network/refusals.h writes them; non-blocking
};

// `sockets`: as make_network_device() gives them. `root`: it changes to the user of sandboxes. What
// it uses counts for the sandbox's cgroup.
Result<WayOut> start_way_out(const NetworkPlan& plan, std::vector<OwnedFd> sockets,
                             const SandboxCgroup& cgroup, bool root);

}  // namespace lambent::sandbox
