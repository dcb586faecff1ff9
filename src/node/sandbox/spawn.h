// Starts a program of ours with an empty environment and no blocked signals. By its caller's
// thread; the worker starts lambent-launcher and lambent-environment by it.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"

namespace lambent::sandbox {

// Descriptors of ours, and the numbers that the program has them by.
using PassedDescriptors = std::vector<std::pair<int, int>>;

// `arguments` begin with the program's path. All other descriptors are those that an exec keeps.
// INTERNAL, NOT_FOUND and the like: what posix_spawn failed with.
Result<pid_t> spawn(std::vector<std::string> arguments, const PassedDescriptors& descriptors);

}  // namespace lambent::sandbox
