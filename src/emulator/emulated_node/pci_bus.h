// Where the devices of a node are on the bus, as programs name it. Pure.
#pragma once

#include <optional>

namespace lambent::emulated_node {

// The device that has the id, which may lack its domain or its function; kMaxDevices if none can.
// Empty: it is no such id.
std::optional<int> device_at(const char* pci_bus_id);

}  // namespace lambent::emulated_node
