// The network device of a sandbox that may connect to others: made by its init in the sandbox's own
// network, used by its relay (node/network) outside. Single-threaded.
#pragma once

#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"

namespace lambent::sandbox {

// The kernel's device file for the network that `socket` belongs to. A file of it is bound to the
// network in which it is opened. `root`: it is opened there now, because an init below a zygote has
// no rights to a file of the host's root. Else it is only named, and the sandbox's init opens it.
Result<OwnedFd> find_network_device(const OwnedFd& socket, bool root);
// Why this process could make none; empty: it could.
std::string try_network_device();

// Makes the device in this process's network, with addresses and routes, and listeners for the
// relay. `device_file`: as find_network_device() gives it. Gives the device, a listener of IPv4
// and, where the kernel has it, one of IPv6.
Result<std::vector<OwnedFd>> make_network_device(OwnedFd device_file);

}  // namespace lambent::sandbox
