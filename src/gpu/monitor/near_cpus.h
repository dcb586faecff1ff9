// Which of the host's processors are near a device, as text such as "0-15,64-79": made from NVML's
// set, or read from the kernel's description of the PCI bus. Used in lambent-device, any thread.
#pragma once

#include <span>
#include <string>

namespace lambent::monitor {

// Processor n is bit n of the set, counted from the first word on.
std::string cpu_list_of(std::span<const unsigned long> set);

// By `<sysfs>/bus/pci/devices/<bus id>/local_cpulist`; `bus_id` as NVML writes it,
// "00000000:3B:00.0". Empty if the kernel does not know the device, or no NUMA node for it.
std::string near_cpus_by_sysfs(const std::string& sysfs, const std::string& bus_id);

}  // namespace lambent::monitor
