// Adoption: how a sandbox's init gets a fork of a zygote into its namespaces, believes what the
// kernel says of it and nothing else, and hands the sandbox's program over to it.
// Used by init, single-threaded.
#pragma once

#include <sys/types.h>

#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "node/sandbox/plan.h"
#include "node/sandbox/program.h"

namespace lambent::sandbox {

// Where a sandbox's process comes from.
struct ForkOrigin {
  OwnedFd zygote;                       // its socket
  std::vector<OwnedFd> cgroup_entries;  // of the sandbox
};

// A fork in our namespaces that waits for its plan.
struct Adopted {
  pid_t pid = 0;    // as we number it; our child
  OwnedFd channel;  // to it
};

// Has the zygote fork into our namespaces, and looks at what came. Foreign code has run in it, so
// that what it says counts for nothing: /proc has to show that it is our only child, with one
// thread, in our namespaces and a user namespace of its own, without any capability, behind a
// filter, with no descriptor but its channel and no memory that it shares with the zygote.
// DEADLINE_EXCEEDED: the zygote hangs. PERMISSION_DENIED: it is not as it should be, and why.
Result<Adopted> adopt(ForkOrigin origin);

// Sets the limits of its plan from outside.
Result<void> limit(const Adopted& adopted, const LaunchPlan& plan, const Confinement& confinement);

// Gives it the plan, with its variables, and `output`. From then on it is the sandbox's program. An
// error is the fork's fault.
Result<void> hand_over(Adopted& adopted, const LaunchPlan& plan, const OwnedFd& output);

}  // namespace lambent::sandbox
