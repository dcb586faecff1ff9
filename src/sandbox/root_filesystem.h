// What a sandbox sees as its file system: built in two steps inside its own mount namespace, the
// common part ahead of time, the plan's part at the start. Used by the sandbox's init alone.
#pragma once

#include "base/result.h"
#include "sandbox/plan.h"

namespace lambent::sandbox {

// The system's folders read-only, a generated /etc, /dev, a fresh /proc, mount points. Needs new
// mount, pid and network namespaces around it and CAP_SYS_ADMIN in their user namespace.
Result<void> build_common_root();

// Code, binds, devices and scratch space of this plan; then the host's file system goes away and
// the new root becomes "/", read-only.
Result<void> enter_root(const LaunchPlan& plan);

}  // namespace lambent::sandbox
