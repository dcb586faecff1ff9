// SliceWorld: everything that a policy may look at: slices, instances, functions and what they have
// queued. Kept by SliceDispatcher; policies read it between two events.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/time.h"
#include "domain/slice.h"
#include "pipeline/function.h"
#include "slice_scheduling/events.h"

namespace lambent::slice_scheduling {

// How an instance holds its slices.
enum class Tenure {
  kExclusive,    // exclusive hot: nobody else may have them
  kTimeSharing,  // others may take turns with it, while it is unloaded; a single slice
};

enum class Residence {
  kStarting,
  kLoaded,
  kUnloading,
  kUnloaded,  // warm: its weights are in host memory
  kLoading,
  kStopping,
};

struct Instance {
  InstanceId id;
  FunctionId function;
  pipeline::Placement placement;
  Tenure tenure = Tenure::kExclusive;
  Residence residence = Residence::kStarting;
  bool retiring = false;  // gets no more jobs; stopped when it is idle
  size_t jobs = 0;        // given and not finished
  size_t requests = 0;    // in them
  Instant started{};
  Instant last_used{};     // when its last job was given or finished
  Duration busy{};         // of its bottleneck stage, jobs given until now
  double utilisation = 0;  // 0..1: the share of the last window that its bottleneck was busy
};

struct QueuedRequest {
  InvocationId id;
  Instant submitted{};
  Instant deadline = kNever;  // submitted + SLO
  unsigned attempts = 0;      // instances that ended under it
};

struct FunctionState {
  std::shared_ptr<const pipeline::PipelineFunction> function;
  std::deque<QueuedRequest> queue;  // in the order of submission
  double arrivals_per_s = 0;        // over the last window
  Instant last_arrival{};
  std::vector<InstanceId> instances;
};

struct SliceState {
  Slice slice;
  bool lost = false;
  // Who has it to itself, or none.
  std::optional<InstanceId> exclusive;
  // Who takes turns on it; at most one of them is not unloaded.
  std::vector<InstanceId> sharing;

  bool is_free() const { return !lost && !exclusive && sharing.empty(); }
};

struct SliceWorld {
  std::map<DeviceId, SliceState> slices;
  std::map<FunctionId, FunctionState> functions;
  std::map<InstanceId, Instance> instances;
  bool draining = false;

  std::vector<Slice> free_slices() const;  // ascending by id
};

}  // namespace lambent::slice_scheduling
