// What a device has once all that can leave it has left: what a sandbox holds whose stop hangs
// stays, perhaps for ever. Pure; used where devices are reserved (gang_places.h).
#pragma once

#include <vector>

#include "core/base/units.h"
#include "decide/scheduling/device.h"
#include "decide/scheduling/sandbox.h"

namespace lambent::scheduling {

// Whether the device will have a token and room for so much. `at` gives a sandbox of `all` by its
// slot.
template <typename SandboxAt>
bool may_come_free(const Device& device, uint32_t index, Bytes memory,
                   const std::vector<SandboxSlot>& all, SandboxAt at) {
  if (!device.healthy || !device.gives_tokens()) return false;
  Bytes stays;
  unsigned hung = 0;
  for (const SandboxSlot slot : all) {
    const Sandbox& sandbox = at(slot);
    if (!sandbox.hangs || !sandbox.is_on(index)) continue;
    stays += sandbox.committed;
    ++hung;
  }
  return hung < device.options.contexts && stays + memory <= device.capacity();
}

}  // namespace lambent::scheduling
