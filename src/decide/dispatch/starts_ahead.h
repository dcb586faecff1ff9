// StartsAhead: sandboxes started, and memory brought in, before calls that Foresight expects soon.
// Owned by Dispatcher, on the thread that handles events.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/state_archive.h"
#include "decide/dispatch/admission.h"
#include "decide/dispatch/device_pools.h"
#include "decide/dispatch/memory_pressure.h"
#include "decide/dispatch/placements.h"
#include "decide/dispatch/queues.h"

namespace lambent::dispatch {

// A function that has no sandbox gets one when a call is likely within what the start takes and a
// window after it, if
// - nothing of it waits or runs, and no quota of memory holds its tenant;
// - a device has a start slot for it, or has nothing to do and more than one token, and starts no
//   other ahead: what is called meanwhile starts beside it;
// - what that saves is expected to be more than what it costs: the starts of sandboxes that are
//   evicted for it, if they are called in the same time, and its own if no call comes.
//
// A call that another part foresees (CallForeseen) is looked at in the same way, at once, with the
// chance that it was given. Several such starts may be under way on a device, as far as it has
// start slots: a run of a workflow needs all of its functions soon.
class StartsAhead {
 public:
  StartsAhead(const DispatchOptions& options, const scheduling::Flows& flows,
              const scheduling::Tenants& tenants, const Queues& queues, Admission& admission,
              DevicePool& pool, Placements& placements, MemoryPressure& pressure, ActionLog& log)
      : options_(options),
        flows_(flows),
        tenants_(tenants),
        queues_(queues),
        admission_(admission),
        pool_(pool),
        placements_(placements),
        pressure_(pressure),
        log_(log) {}

  // Looked at once the event was decided about: what waits goes first.
  void foresee(const CallForeseen& call) {
    if (options_.fleet.foresight.starts_ahead) foreseen_ = call;
  }
  // Once an event was decided about: looks at the functions whose time has come.
  void look();
  Instant next_look(Instant limit) { return foresight().earliest_look(limit); }

  // What was started so far.
  uint64_t started() const { return started_; }

  void archive(StateArchive& archive) { archive.field(started_); }

 private:
  scheduling::Foresight& foresight() { return pool_.fleet().foresight(); }
  // How likely a call is, and within what time from now.
  struct Outlook {
    Duration within{};
    double chance = 0;
  };

  void look_at(FunctionId function);
  void look_at_foreseen(const CallForeseen& call);
  // Whether it has a GPU, and nothing that waits, runs or starts.
  bool may_start(FunctionId function) const;
  void start(FunctionId function, const scheduling::Place& place, const Outlook& outlook);
  // Whether a start of it is under way on the device without a call.
  bool starts_ahead_on(uint32_t device) const;
  // `saves`: what a call waits less.
  bool is_worth(FunctionId function, const scheduling::Place& place, const Outlook& outlook,
                Duration saves, bool is_foreseen) const;
  Outlook outlook_of(FunctionId function) const;
  Duration silence_of(const scheduling::Flow& flow) const;
  double chance(FunctionId function, Duration ahead) const;
  Duration cold_start_of(const scheduling::Flow& flow) const;

  const DispatchOptions& options_;
  const scheduling::Flows& flows_;
  const scheduling::Tenants& tenants_;
  const Queues& queues_;
  Admission& admission_;
  DevicePool& pool_;
  Placements& placements_;
  MemoryPressure& pressure_;
  ActionLog& log_;
  std::optional<CallForeseen> foreseen_;  // by the event that is handled
  uint64_t started_ = 0;
};

}  // namespace lambent::dispatch
