// The system calls that code in a sandbox may not make, as a compiled filter.
// Compiled once by lambent-launcher; installed by each sandbox just before its program is executed.
#pragma once

#include <linux/filter.h>

#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"

namespace lambent::sandbox {

using SeccompFilter = std::vector<sock_filter>;

// Which of them a process may make all the same.
enum class SeccompException {
  kNone,
  kSetns,  // of a zygote, which enters the namespaces of sandboxes; it has no right to others
};

Result<SeccompFilter> compile_seccomp_filter(SeccompException exception = SeccompException::kNone);

// For good, and for everything this process executes; sets no_new_privs first.
Result<void> install_seccomp_filter(const SeccompFilter& filter);

}  // namespace lambent::sandbox
