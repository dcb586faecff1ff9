// The root of a zygote: the first process of a pid and a user namespace in which the zygote's
// program, and the inits of the sandboxes that are forked from it, live. Made by lambent-launcher,
// which it serves; single-threaded.
#pragma once

#include "node/sandbox/init.h"

namespace lambent::sandbox {

// Takes a ZygoteRequest, then BoxRequests and a ZygoteRetirement; says ZygoteReady, BoxReply and
// FailedReply. Dies as inits do, and with it every sandbox that was forked from it.
Result<InitProcess> spawn_zygote(const SandboxCgroup& cgroup, const Confinement& confinement);

}  // namespace lambent::sandbox
