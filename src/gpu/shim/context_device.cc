// The part of Accounting that asks the driver, which its unit tests have none of.
#include "driver_slots.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/accounting.h"

namespace lambent::shim {

int Accounting::device_of_context() const {
  Device device = 0;
  return REAL(cuCtxGetDevice, Device*)(&device) == kSuccess ? device : 0;
}

}  // namespace lambent::shim
