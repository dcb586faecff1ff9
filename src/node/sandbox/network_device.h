// The network device of a sandbox that may connect to others: made by its init in the sandbox's own
// network, used by its relay (node/network) outside. Single-threaded.
#pragma once

#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"

namespace lambent::sandbox {

// A name for the kernel's device file that is opened in the network where the device is to be. What
// is missing is told with its remedy.
Result<OwnedFd> find_network_device();
// Why this process could make none; empty: it could.
std::string try_network_device();

// Makes the device in this process's network, with addresses and routes, and listeners for the
// relay. Gives the device, a listener of IPv4 and, where the kernel has it, one of IPv6.
Result<std::vector<OwnedFd>> make_network_device(const OwnedFd& device_file);

}  // namespace lambent::sandbox
