// Gangs: sees to it that functions which take several devices together get them beside functions
// that take one. Owned by Dispatcher, on the thread that handles events.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/ids.h"
#include "core/base/state_archive.h"
#include "core/base/time.h"
#include "decide/dispatch/action_log.h"
#include "decide/dispatch/admission.h"
#include "decide/dispatch/device_pools.h"
#include "decide/dispatch/placements.h"
#include "decide/scheduling/flow.h"
#include "decide/scheduling/tenants.h"

namespace lambent::dispatch {

// A function that takes one device finds it free as soon as a run ends. One that takes several
// hardly ever finds as many free at once, and would wait for ever. So if its first call has waited
// for as long as its run takes (its grace period), and it is within T, as many devices are
// reserved: they begin nothing for others, and when all of them have what it takes, it runs. What
// runs there ends meanwhile, so each idles for the rest of one run at most.
//
// One reservation at a time, for the function whose call came first: so none waits for what another
// one keeps. A function that is more than T ahead of the others has none, so that those which take
// one device are kept from theirs no more than T.
class Gangs {
 public:
  static constexpr Duration kFirstGracePeriod = seconds(1);
  static constexpr Duration kLeastGracePeriod = milliseconds(50);
  static constexpr Duration kMostGracePeriod = seconds(10);

  Gangs(const scheduling::Flows& flows, const scheduling::Tenants& tenants, Admission& admission,
        DevicePools& pools, Placements& placements, ActionLog& log)
      : flows_(flows),
        tenants_(tenants),
        admission_(admission),
        pools_(pools),
        placements_(placements),
        log_(log) {}

  // The function was registered, perhaps with another count of devices.
  void registered(FunctionId function);
  // Before decisions: dispatches, or reserves, for the one whose turn has come.
  void look() {
    if (!functions_.empty()) [[unlikely]]
      look_at_all();
  }
  // The sooner of `earliest` and when time by itself brings the turn of one.
  Instant next_look(Instant earliest) const;

  // The function that devices are reserved for; these, as bits by their index, 0: none.
  FunctionId function() const { return function_; }
  uint64_t reserved() const { return reserved_; }

  // Whether there ever was a function that takes several: their sandboxes may be there longer.
  bool is_state() const { return any_ever_; }
  void archive(StateArchive& archive);

 private:
  void look_at_all();
  bool is_due(FunctionId function) const;
  bool waits(const scheduling::Flow& flow) const;
  bool dispatch(FunctionId function);
  bool stands() const;
  void release();
  static Duration grace_period_of(const scheduling::Flow& flow);

  const scheduling::Flows& flows_;
  const scheduling::Tenants& tenants_;
  Admission& admission_;
  DevicePools& pools_;
  Placements& placements_;
  ActionLog& log_;
  std::vector<FunctionId> functions_;  // that take several, in the order of their ids
  FunctionId function_;
  uint64_t reserved_ = 0;
  uint64_t reservations_ = 0;
  bool any_ever_ = false;
};

}  // namespace lambent::dispatch
