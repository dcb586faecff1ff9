// Places: where an invocation of a flow could go now, or why it has no place. Owned by Fleet;
// policies ask it at every decision, on the loop thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "decide/scheduling/cold_places.h"
#include "decide/scheduling/device_table.h"
#include "decide/scheduling/fleet_options.h"
#include "decide/scheduling/flow.h"
#include "decide/scheduling/gang_places.h"
#include "decide/scheduling/idle_sandboxes.h"
#include "decide/scheduling/no_place.h"
#include "decide/scheduling/place.h"
#include "decide/scheduling/sandbox_table.h"

namespace lambent::scheduling {

class Places {
 public:
  // All outlive it.
  Places(const FleetOptions& options, const SandboxTable& sandboxes, const IdleSandboxes& idle,
         const DeviceTable& devices, const FleetChanges& changes)
      : options_(options),
        sandboxes_(sandboxes),
        idle_(idle),
        devices_(devices),
        cold_(devices, changes),
        gangs_(options, sandboxes, idle, devices) {}

  // The present, before anything is asked.
  void set_time(Instant now) {
    now_ = now;
    next_move_ = kNever;
  }
  Instant now() const { return now_; }
  // When time by itself gives a place to a flow that was asked about since then and refused one as
  // kWarmElsewhere or kAtWork; the earliest, or kNever.
  Instant next_move() const { return next_move_; }
  // Whether that instant has come; if not, next_move() is not later.
  bool is_time(Instant then) const {
    if (now_ >= then) return true;
    next_move_ = std::min(next_move_, then);
    return false;
  }

  // Late binding: the warm sandbox if its device has a token. A flow whose warm sandboxes are all
  // on busy devices waits for them unless another device has nothing to do, and the first of its
  // queue has waited for as long as its cold start takes (FleetOptions::move_grace_period):
  // whenever the warm one would have come free, that is at most twice the least that this had to
  // take. One whose sandboxes are all at work or starting waits for these as long
  // (second_grace_period). Where several may be in one sandbox, those for which the ones that start
  // will have room wait for these.
  PlaceOrReason find(FunctionId function, const Flow& flow, bool idle_devices_only) const;
  // The same on one device. A new sandbox beside warm ones elsewhere only if it has nothing to do.
  PlaceOrReason find_on(uint32_t device, FunctionId function, const Flow& flow) const;
  // A new sandbox of this memory, whatever warm ones there are.
  PlaceOrReason find_new(Bytes memory) const { return cold_.find(memory, false); }
  // For functions that take several devices together.
  const GangPlaces& gangs() const { return gangs_; }
  // As find() for one of these, on devices that are reserved as well: for whom they are.
  PlaceOrReason find_on_reserved(FunctionId function, const Flow& flow) const {
    return find_together(function, flow, false, true);
  }
  // Whether any device with nothing to do takes a new sandbox of this memory.
  bool any_on_idle_device(Bytes memory) const { return cold_.any(memory, true); }

  // For a caller that was just told that there is none, and will ask again.
  NoPlace note_none(FunctionId function, const Flow& flow, bool idle_devices_only) const;
  // Whether it follows from the note that there is still none; `answer` is then what find() would
  // say. Only while neither the flow has changed since it was made, nor, by
  // FleetChanges, its sandboxes or a device where one of them is idle.
  bool still_none(const NoPlace& note, FunctionId function, bool idle_devices_only,
                  PlaceOrReason& answer) const;
  // Whether it may be another thing now because of this device, on which the function of the note
  // has an idle sandbox.
  bool may_end_wait(uint32_t device, const NoPlace& note) const;

 private:
  PlaceOrReason find_together(FunctionId function, const Flow& flow, bool idle_devices_only,
                              bool on_reserved) const;
  bool is_worth_a_second(FunctionId function, const Flow& flow) const;
  bool fits_into_starts(FunctionId function, const Flow& flow) const;
  Instant worth_another_start(const Flow& flow, double grace_period) const;
  WaitReason warm_obstacle(const Sandbox& sandbox) const;

  const FleetOptions& options_;
  const SandboxTable& sandboxes_;
  const IdleSandboxes& idle_;
  const DeviceTable& devices_;
  ColdPlaces cold_;
  GangPlaces gangs_;
  Instant now_{};
  mutable Instant next_move_ = kNever;
};

}  // namespace lambent::scheduling
