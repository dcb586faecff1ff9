// What a sandbox sees as its file system: built in two steps inside its own mount namespace, the
// common part ahead of time, the plan's part at the start. Used by init and lambent-launcher.
#pragma once

#include <span>
#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "node/sandbox/plan.h"

namespace lambent::sandbox {

// The system's folders read-only, a generated /etc, /dev, a fresh /proc, mount points; then the
// host's file system goes away and this becomes "/". Needs new mount, pid and network namespaces
// around it and CAP_SYS_ADMIN in their user namespace.
Result<void> build_common_root();

// Opens what a plan shows of the host, as mounts that are not attached anywhere yet: code (if any),
// binds, devices, the image's root (if any), in this order. By the launcher, which still sees the
// host.
Result<std::vector<OwnedFd>> open_sources(const LaunchPlan& plan);

// Attaches the plan's sources, mounts its scratch space and makes "/" read-only.
Result<void> complete_root(const LaunchPlan& plan, std::span<const OwnedFd> sources);

// Lets programs ask for names at the sandbox's network; before complete_root().
Result<void> use_name_server();

}  // namespace lambent::sandbox
