// What host memory this machine has to spare. Reads /proc and the cgroup; for mains.
#pragma once

#include "core/base/units.h"

namespace lambent {

// Available now, by /proc/meminfo and, if it is less, by the limit of the cgroup that this process
// is in. Zero if neither can be read.
Bytes available_host_memory();

}  // namespace lambent
