// Which devices a function may take together with others. Used by what counts and places them; on
// the loop thread.
#pragma once

#include "decide/scheduling/device.h"
#include "decide/scheduling/sandbox.h"

namespace lambent::scheduling {

// Actions name the devices of one sandbox by bits of their ids, which begin at 1; behind those of
// pipelines they may be higher than there are bits.
inline bool takes_gangs(const Device& device) {
  return device.options.id.value > 0 && device.options.id.value <= kMostDevicesOfGangs;
}

}  // namespace lambent::scheduling
