// The last steps between fork and exec: from a copy of the sandbox's init to the user's program
// without any rights. Used only by the sandbox's init.
#pragma once

#include <sys/types.h>

#include <vector>

#include "core/base/result.h"
#include "node/sandbox/plan.h"
#include "node/sandbox/seccomp.h"

namespace lambent::sandbox {

// What holds for all sandboxes of one launcher.
struct Confinement {
  bool change_user = false;         // we are the host's root: become nobody
  bool own_user_namespace = false;  // each program gets a user namespace of its own
  bool limit_by_rlimit = false;     // no pids cgroup: RLIMIT_NPROC
  bool watch_memory = false;        // no memory cgroup: init looks, and kills on overrun
  SeccompFilter filter;
  SeccompFilter zygote_filter;
};

// Who user programs are, inside and (as root) outside.
constexpr uint32_t kNobody = 65534;

// Leaves the host's root for good, but for the capabilities. PERMISSION_DENIED or INVALID_ARGUMENT
// where a user namespace has no such user, or does not let groups be dropped.
Result<void> become_nobody();

// Gives everything up and executes the plan's program with `output` as standard output and error.
// Returns only if that failed.
Error become_program(const LaunchPlan& plan, const Confinement& confinement, int output);

// Executes the program of a zygote, with `channel` as descriptor 3. As root of the user namespace
// that we are in it keeps two rights, to enter namespaces that are owned by it; the filter lets it
// do little else with them. Returns only if that failed.
Error become_zygote(const LaunchPlan& plan, const Confinement& confinement, int channel);

// Keeps a process (0: this one) on these processors of the host, as far as it may use them.
void stay_near(pid_t pid, const std::vector<uint32_t>& processors);

}  // namespace lambent::sandbox
