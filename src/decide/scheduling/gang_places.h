// GangPlaces: where a function goes that takes several devices, all together or none. Owned by
// Places, on the loop thread; asked by policies, and by dispatch, which keeps devices for one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/base/ids.h"
#include "core/base/units.h"
#include "decide/scheduling/device_table.h"
#include "decide/scheduling/fleet_options.h"
#include "decide/scheduling/idle_sandboxes.h"
#include "decide/scheduling/place.h"
#include "decide/scheduling/sandbox_table.h"

namespace lambent::scheduling {

// It takes a token of each of its devices, and its memory on each, in one decision: none holds some
// and waits for the others, so no two wait for each other. Questions change nothing.
class GangPlaces {
 public:
  // All outlive it.
  GangPlaces(const FleetOptions& options, const SandboxTable& sandboxes, const IdleSandboxes& idle,
             const DeviceTable& devices)
      : options_(options), sandboxes_(sandboxes), idle_(idle), devices_(devices) {}

  struct Wanted {
    FunctionId function;
    unsigned count = 2;
    Bytes memory;  // on each
    bool idle_devices_only = false;
    bool on_reserved = false;  // devices that are reserved are so for this one
  };
  // The idle sandbox of the function that was used last of those whose devices have a token each,
  // and of these one whose memory is there before others. `is_warm`: there is one on healthy
  // devices, whatever they do.
  std::optional<Place> warm(const Wanted& wanted, bool& is_warm) const;
  // Devices for a new sandbox: the least loaded; of equals those with most memory that is not at
  // work, then the first.
  PlaceOrReason cold(const Wanted& wanted) const;
  // Which devices to keep for it, as bits by their index, until all have what it takes: those of
  // its idle sandbox; else those that take it now, and then the least loaded. 0: it has no place
  // whatever ends.
  uint64_t to_reserve(const Wanted& wanted) const;

 private:
  struct Chosen {
    std::array<uint32_t, kMostDevicesOfGangs> devices{};
    unsigned count = 0;
  };

  uint32_t devices() const;
  bool gives_token(const Device& device, const Wanted& wanted) const;
  bool takes_run(const Sandbox& sandbox, const Wanted& wanted) const;
  bool takes_start(const Device& device, const Wanted& wanted) const;
  template <typename Before>
  void keep_first(Chosen& chosen, unsigned count, Before before) const;

  const FleetOptions& options_;
  const SandboxTable& sandboxes_;
  const IdleSandboxes& idle_;
  const DeviceTable& devices_;
};

}  // namespace lambent::scheduling
