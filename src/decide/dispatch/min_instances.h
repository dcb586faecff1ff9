// MinInstances: keeps as many sandboxes of a function ready as its min_instances says. Owned by
// Dispatcher, on the thread that handles events.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/state_archive.h"
#include "decide/dispatch/admission.h"
#include "decide/dispatch/device_pools.h"
#include "decide/dispatch/dispatcher.h"
#include "decide/dispatch/placements.h"
#include "decide/dispatch/queues.h"
#include "decide/dispatch/tenant_room.h"
#include "decide/scheduling/deadlines.h"

namespace lambent::dispatch {

// Where there are too few, by a deployment, an exit or an eviction, one is started
// - where there is room: beside what works and waits, and beside what others are promised. Other
//   idle sandboxes are evicted for it;
// - at most two at once on a device, because what is called starts there too; one that takes
// several
//   devices holds a token of each while it starts, so it does only where no call waits for one;
// - not before its back-off has passed, if those before it ended without having served a call.
// A call that comes meanwhile takes a start over. One that is evicted before a call came is not
// started again at once: there would be no more room for it then.
//
// When a function changes, those of before serve calls until as many new ones are ready, or one of
// these has failed, there is no room for them, or a start has taken too long: the hand-over.
class MinInstances {
 public:
  // All outlive it.
  MinInstances(const DispatchOptions& options, const scheduling::Flows& flows, const Queues& queues,
               Admission& admission, DevicePools& pools, TenantRoom& room, Placements& placements,
               ActionLog& log)
      : options_(options),
        flows_(flows),
        queues_(queues),
        admission_(admission),
        pools_(pools),
        room_(room),
        placements_(placements),
        log_(log) {}

  // The function has another revision or another number now. `serves`: sandboxes of before are
  // there that can serve its calls until new ones are; returns whether they stay for that.
  bool registered(FunctionId function, bool changed, bool serves);
  void removed(FunctionId function);
  // A sandbox of it ended, or did not start, and not because it was told to. `served`: how many
  // calls.
  void ended(FunctionId function, uint64_t revision, uint64_t served);

  // Whether this idle sandbox stays although it has rested for long enough.
  bool keeps(const DevicePool& pool, const scheduling::Sandbox& sandbox) const;
  // Whether sandboxes of before serve calls of the function.
  bool hands_over(FunctionId function) const;

  // Once an event was decided about.
  void look();
  // Last of all: what has changed since is looked at when a timer says so, soon.
  void note_later_changes() { note_changes(kSoon); }
  Instant next_look(Instant limit) { return looks_.earliest(limit); }

  InstanceStatus status(FunctionId function) const;

  // Whether a snapshot has to tell of it.
  bool is_state() const;
  void archive(StateArchive& archive);

 private:
  struct Known {
    uint32_t failures = 0;      // one after the other
    Instant failed_at{};        // the last of them
    Instant not_before{};       // the next start
    Instant hand_over_until{};  // zero: there is none
    uint32_t searches = 0;      // for a place, in vain since the last start
    uint32_t evictions = 0;     // before a call came, one after the other
    Instant evicted_at{};       // the last of them
  };
  struct Count {
    unsigned starting = 0, ready = 0;
    unsigned all() const { return starting + ready; }
  };

  Known& known(FunctionId function);
  Count count(const DevicePool& pool, FunctionId function) const;
  bool is_kept_here(FunctionId function) const;
  static constexpr Duration kSoon = milliseconds(1);

  void note_changes(Duration later);
  void look_at(FunctionId function);
  void note_eviction(Known& now);
  std::optional<scheduling::Place> place_for(DevicePool& pool, FunctionId function);
  unsigned most_starts_ahead_on(const DevicePool& pool, const scheduling::Place& place) const;
  void end_hand_over(FunctionId function);

  const DispatchOptions& options_;
  const scheduling::Flows& flows_;
  const Queues& queues_;
  Admission& admission_;
  DevicePools& pools_;
  TenantRoom& room_;
  Placements& placements_;
  ActionLog& log_;
  std::vector<Known> known_;     // by FunctionId, of those that ever had a number
  scheduling::Deadlines looks_;  // by FunctionId
  uint64_t started_ = 0;
};

}  // namespace lambent::dispatch
