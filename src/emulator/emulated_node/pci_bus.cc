#include "emulator/emulated_node/pci_bus.h"

#include <cstdio>

#include "emulator/emulated_node/machine.h"

namespace lambent::emulated_node {

std::optional<int> device_at(const char* pci_bus_id) {
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  if (std::sscanf(pci_bus_id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
    domain = 0;
    if (std::sscanf(pci_bus_id, "%x:%x.%x", &bus, &slot, &function) < 2) return std::nullopt;
  }
  const bool is_known =
      domain == 0 && slot == 0 && function == 0 && bus > 0 && bus <= unsigned{kMaxDevices};
  return is_known ? static_cast<int>(bus) - 1 : kMaxDevices;  // Node::pci_bus_id begins with 1
}

}  // namespace lambent::emulated_node
