// Which memory of a process others may see change: of a fork, what it shares with its zygote and
// with its siblings. Pure; used by a sandbox's init.
#pragma once

#include <string>
#include <string_view>

namespace lambent::sandbox {

// Of a /proc/PID/maps: the line of the first shared mapping that is more than a file of the
// system or of packages, which are mounted read-only; empty: there is none.
std::string shared_memory_in(std::string_view maps);

}  // namespace lambent::sandbox
