// Whose fault an Xid error is: the application's, or the device's. Data, in xid_table.inc; used in
// lambent-device, any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/protocol/device_message.h"

namespace lambent::monitor {

struct Xid {
  uint32_t number = 0;
  protocol::FaultGravity gravity = protocol::FaultGravity::kNotice;
  std::string_view what;
};

// One that the table does not have is a notice, for a device that is not known to be sick should
// not be taken from all functions.
Xid xid_of(uint64_t number);

}  // namespace lambent::monitor
