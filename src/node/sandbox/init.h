// The first process of every sandbox: makes its namespaces and root ahead of time, waits for a
// plan, starts the program, reaps orphans and tells how it ended. Made by lambent-launcher.
#pragma once

#include "node/sandbox/adoption.h"
#include "node/sandbox/cgroup.h"
#include "node/sandbox/channel.h"
#include "node/sandbox/program.h"
#include "node/sandbox/syscalls.h"

namespace lambent::sandbox {

struct InitProcess {
  pid_t pid = 0;
  OwnedFd pidfd;    // readable when it, and with it all of the sandbox, is gone
  Channel control;  // says Ready (with the Runtime API listener) or Failed; takes a LaunchRequest
};

// Init dies with the calling thread's process, with the control channel and by SIGKILL; the kernel
// then ends everything in its pid namespace.
Result<InitProcess> spawn_init(const SandboxCgroup& cgroup, const Confinement& confinement);

// The same below the root of a zygote, whose fork is in the sandbox before it is Ready. The far end
// of `control` is the launcher's. Returns its pidfd.
Result<OwnedFd> spawn_forked_init(Channel control, ForkOrigin origin,
                                  const Confinement& confinement);

// The first steps of a process that is the first of its pid namespace. `dumpable`: another process
// of its user has to write its maps of users still, which the kernel else leaves to root.
void begin_as_init(bool dumpable = false);

}  // namespace lambent::sandbox
