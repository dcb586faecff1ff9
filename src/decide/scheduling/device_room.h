// DeviceRoom: what a device still takes, by the options of its fleet. A value; used by the parts of
// Fleet, on the loop thread.
#pragma once

#include "core/base/units.h"
#include "decide/scheduling/device.h"
#include "decide/scheduling/fleet_options.h"

namespace lambent::scheduling {

// Idle sandboxes can be evicted, so their memory and contexts count as free.
class DeviceRoom {
 public:
  // `options` outlive it.
  explicit DeviceRoom(const FleetOptions& options) : options_(options) {}

  // Memory for sandboxes at work.
  Bytes memory_of(const Device& device) const { return device.capacity() - at_work_on(device); }
  bool memory_fits(const Device& device, Bytes memory) const {
    return at_work_on(device) + memory <= device.capacity();
  }
  bool context_fits(const Device& device) const {
    return device.sandboxes - device.idle < device.options.contexts;
  }
  // Whether it could start a sandbox at all, as far as one can tell without that one's memory.
  bool is_open(const Device& device) const {
    if (!device.healthy || device.reserved) return false;
    if (device.has_token()) return true;
    return device.start_slots_held < options_.starts_outside_tokens && device.gives_tokens();
  }
  // Whether a cold start of this memory would hold a start slot. As many as there are tokens run
  // meanwhile, and one more is fetched: beside what starts they have to fit if each takes as much
  // as this one, or starts would drive out what is warm. None where a token will never come.
  bool has_start_slot(const Device& device, Bytes memory) const {
    if (device.start_slots_held >= options_.starts_outside_tokens) return false;
    if (!device.gives_tokens() || device.reserved) return false;
    const uint64_t beside = device.options.most_tokens() + uint64_t{2};
    return device.starting + memory * beside <= device.capacity();
  }

 private:
  Bytes at_work_on(const Device& device) const {
    const bool moves_idle = scheduling::moves_idle(options_.memory_rule);
    return moves_idle ? device.committed : device.committed - device.idle_memory;
  }

  const FleetOptions& options_;
};

}  // namespace lambent::scheduling
