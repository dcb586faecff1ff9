// What NVML does not tell of a device and CUDA's driver does: whether it is integrated, so that its
// memory is the host's own, and how large that memory is. Used by lambent-device when it starts;
// the driver is asked in a process of its own, for its first call may take long or hang.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::monitor {

struct DriverFacts {
  std::string uuid;  // as NVML writes it: "GPU-..."
  bool integrated = false;
  Bytes memory;
  bool operator==(const DriverFacts&) const = default;
};

// One line for each device; lines that are none are left out.
std::string to_text(const std::vector<DriverFacts>& facts);
std::vector<DriverFacts> driver_facts_from(std::string_view text);

// Runs `program --describe-driver` with the driver in this folder, and reads what it says. Nothing
// if it has not ended by then, or says nothing. It is killed either way.
std::vector<DriverFacts> ask_driver(const std::string& program, const std::string& driver_folder,
                                    Duration grace_period);

// Those of the device with this uuid; where there is one device on both sides, it is that one
// whatever it is called. Null: nothing is known of it.
const DriverFacts* facts_of(const std::vector<DriverFacts>& facts, std::string_view uuid,
                            size_t devices);

}  // namespace lambent::monitor
