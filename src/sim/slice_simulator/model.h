// What a simulated world of slices is made of: links, costs, faults and arrivals. Values; read by
// SliceWorldRun.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/base/time.h"
#include "core/base/units.h"
#include "core/domain/slice.h"
#include "decide/pipeline/function.h"

namespace lambent::slice_simulator {

// Something that goes wrong at a moment that was set before.
struct Fault {
  enum class Kind {
    kInstanceDeath,  // every instance that has a stage process on the slice
    kSliceLost,
    kSliceBack,  // one that was lost
  };
  Instant at{};
  Kind kind = Kind::kInstanceDeath;
  DeviceId slice;

  bool operator==(const Fault&) const = default;
};

// How the parts of a machine behave beside what a profile says. GB are 10^9 bytes.
struct MachineModel {
  double copy_gb_per_s = 12;   // of one copy, in either direction
  double gpu_gb_per_s = 25;    // of all copies to, or from, one GPU together
  double node_gb_per_s = 100;  // of all copies to, or from, the GPUs of one node together
  // A hand-over goes by such pieces: one is copied on while the next is copied in.
  Bytes chunk = Bytes::mib(4);
  Duration handover = microseconds(200);  // of each value that is handed over, beside its copies
  Duration edge = milliseconds(2);        // of each job: half its input's way in, half its result's
  Duration stop = milliseconds(100);      // from StopInstance to its end
  // What every other process that starts all the while adds to a process's start: host processors
  // are shared. One that starts for part of that time adds that part.
  Duration start_beside{};
  // Executions take up to this share more or less than their profile says, evenly; drawn again for
  // each request and component, the same under every policy.
  double spread = 0;
  double failed_starts = 0;  // the share of starts that end in the middle
  // Memory that leaves a device is copied to the host (docs/decisions/0010); otherwise it is only
  // given back, as weights could be of which the host has a copy.
  bool unload_copies = true;
  // Of what a profile calls weights, the share that has to be copied: the rest are buffers that
  // stay allocated while it is on the device.
  double moved_share = 1;
  // A move out or in takes all device memory of its stage processes but their contexts, as those of
  // a process do that moves what it has allocated (docs/decisions/0010); moved_share is then only
  // of starts.
  bool moves_take_all = false;
  // How many times as long as profiled a function really takes; those not named: 1.
  std::map<FunctionId, double> slowdown;

  bool operator==(const MachineModel&) const = default;
};

struct Arrival {
  Instant at{};
  FunctionId function;

  bool operator==(const Arrival&) const = default;
};

struct Scene {
  std::vector<Slice> slices;
  std::vector<std::shared_ptr<const pipeline::PipelineFunction>> functions;
  std::vector<Arrival> arrivals;  // ascending
  std::vector<Fault> faults;      // in any order
  MachineModel machine;
  uint64_t seed = 1;
  // RunResult::watched is of the time from then to the last arrival.
  Instant watched_from{};
  // How long after the last arrival to go on for requests that are not complete.
  Duration drain = seconds(600);
};

}  // namespace lambent::slice_simulator
