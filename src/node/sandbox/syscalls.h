// Thin wrappers of system calls that glibc lacks or that need a fixed order, as Results. Used by
// lambent-launcher and the processes it makes, all single-threaded.
#pragma once

#include <sys/types.h>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"

namespace lambent::sandbox {

struct Cloned {
  pid_t pid = 0;  // 0 in the child
  OwnedFd pidfd;  // in the parent
};

// clone3 with a pidfd and SIGCHLD. `cgroup` of v2 to be born in, or -1.
Result<Cloned> clone_process(uint64_t flags, int cgroup);

// Enters a new user namespace (and what else `more_flags` says) in which the current user is
// `inside_id` and no other user exists.
Result<void> enter_user_namespace(uint32_t inside_id, int more_flags);

// Takes all capabilities away from this process and whatever it executes, but those of `keep`
// (CAP_SYS_ADMIN, say), which root keeps over an exec.
Result<void> drop_capabilities(std::initializer_list<int> keep = {});
// Makes every permitted capability effective again, after a change of user.
Result<void> raise_permitted_capabilities();

// Closes every descriptor but those of `keep`, which are above 2; 0, 1 and 2 become /dev/null.
Result<void> close_all_but(std::vector<int> keep);

// Of the network that this process is in, which is its own.
Result<void> bring_loopback_up();

// One write of the whole text into a file that exists.
Result<void> write_text(const std::string& path, std::string_view text);

}  // namespace lambent::sandbox
