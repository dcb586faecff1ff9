// MemoryPressure: which idle sandboxes leave a GPU so that others find room there, and whose memory
// is fetched ahead. Owned by Dispatcher, on the thread that handles events.
#pragma once

#include <optional>
#include <vector>

#include "decide/dispatch/action_log.h"
#include "decide/dispatch/device_pool.h"
#include "decide/dispatch/options.h"
#include "decide/scheduling/memory_victims.h"

namespace lambent::dispatch {

class MemoryPressure {
 public:
  MemoryPressure(const DispatchOptions& options, const scheduling::Flows& flows, DevicePool& pool,
                 const ActionLog& log)
      : options_(options), flows_(flows), pool_(pool), log_(log) {}

  // For the memory that admitted sandboxes will yet bring: planned ones, and running ones whose
  // memory is out; and for what is taken of the device. The sandboxes that leave report it in an
  // event, after which the others start and move in.
  void make_room();
  // Moves memory out whose place no other needs, where the rule says so (kMoveEarly).
  void move_out_early();
  // Where no memory moves, what is taken of a device crowds idle sandboxes out. Whether any was.
  bool make_room_beside_taken();
  // Fetches memory of flows whose turn comes soon.
  void prefetch();
  // The same for one function of which a call is likely soon.
  void bring_in(FunctionId function) { prefetch_for(function); }

  // By the accounting there was room for this one, so something else takes it: one more sandbox
  // leaves the device, and when it is gone (FleetMemory::may_move_in) the move is tried once again.
  void move_in_failed(scheduling::SandboxSlot slot);
  // It keeps its place on the device, unless others need that.
  void move_out_failed(scheduling::SandboxSlot slot);

 private:
  bool relieve(const std::optional<scheduling::MemoryVictim>& victim);
  void prefetch_for(FunctionId function);
  scheduling::SandboxSlot next_outside_of(FunctionId function) const;
  bool may_prefetch_more(uint32_t device) const;
  void move_out_unwanted(scheduling::SandboxSlot next);

  const DispatchOptions& options_;
  const scheduling::Flows& flows_;
  DevicePool& pool_;
  const ActionLog& log_;
  std::vector<FunctionId> look_ahead_;  // kept only so that its memory is used again
};

}  // namespace lambent::dispatch
