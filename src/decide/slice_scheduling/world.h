// SliceWorld: everything that a policy may look at: slices, instances, functions and what they have
// queued. Kept by SliceDispatcher; policies read it between two events.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/base/time.h"
#include "core/domain/slice.h"
#include "decide/pipeline/function.h"
#include "decide/slice_scheduling/events.h"
#include "decide/slice_scheduling/recent_rate.h"

namespace lambent::slice_scheduling {

// How an instance holds its slices.
enum class AllocationMode {
  kExclusive,    // exclusive hot: no other may have them
  kTimeSharing,  // others may take turns with it, while it is unloaded; a single slice
};

enum class LoadState {
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
  AllocationMode allocation_mode = AllocationMode::kExclusive;
  LoadState load_state = LoadState::kStarting;
  // Its weights are on its slices, or on their way there or away: all but one that is unloaded, and
  // one that was when it was stopped.
  bool on_slices = true;
  bool retiring = false;  // gets no more jobs; stopped when it is idle
  size_t jobs = 0;        // given and not finished
  size_t requests = 0;    // in them
  Instant started{};
  Instant ready{};      // when it was first loaded; the epoch before that
  Instant loaded{};     // when it came to its slices last
  Instant last_used{};  // when its last job was given or finished
  // How long its jobs take over what the placement says: 1 as profiled, 2 if that lies by half.
  // Learnt from the jobs of this instance.
  double pace = 1;
  // When its bottleneck stage will have done all that it was given, as far as is known.
  Instant busy_until{};
  Duration busy{};  // of its bottleneck stage: by the jobs given until now
  // Seconds of its bottleneck's work that it was given for each second recently.
  RecentRate given{seconds(1)};
  double utilisation = 0;  // 0..1: the share of the last window that its bottleneck was busy

  bool is_pipeline() const { return placement.slices.size() > 1; }
  // Takes jobs now.
  bool is_open() const { return load_state == LoadState::kLoaded && !retiring; }
  Duration latency() const { return scaled(placement.latency); }
  Duration bottleneck() const { return scaled(placement.bottleneck); }
  // Of a job of so many requests.
  Duration latency_of(size_t job_requests) const;
  Duration bottleneck_of(size_t job_requests) const;
  // When a job of so many requests would be finished if it were given now.
  Instant finish_of(size_t job_requests, Instant now) const;
  // How many jobs keep every stage of it busy: one where there is one stage, one more for each
  // bottleneck's time that a job is under way beyond.
  size_t most_jobs() const;
  // Whether it can take another job now: it has fewer than that; or it is one process, whose last
  // job will soon be done (from ahead_at() on), so that the input of the next comes in meanwhile.
  bool has_place(Instant now) const;
  Instant ahead_at() const;

 private:
  Duration scaled(Duration profiled) const;
};

struct QueuedRequest {
  InvocationId id;
  uint64_t sequence = 0;  // in the order of submission, over all functions
  Instant submitted{};
  Instant deadline = kNever;  // submitted + SLO
  unsigned attempts = 0;      // instances that ended under it
};

struct FunctionState {
  std::shared_ptr<const pipeline::PipelineFunction> function;
  uint64_t version = 0;  // of `function`: another one for each FunctionPut of any
  // In the order of submission; what comes back from an instance that ended takes its place again.
  std::deque<QueuedRequest> queue;
  double arrivals_per_s = 0;  // over the last window
  Instant last_arrival{};
  std::vector<InstanceId> instances;  // all that exist, retiring ones too, in order of start
  // Starts that failed one after the other, and what the last of them said. Policies start nothing
  // before `start_again_at`, which moves away with each failure; what is queued is counted an
  // attempt for each, so that a function that cannot start fails its requests in the end.
  unsigned failed_starts = 0;
  Instant start_again_at{};
};

struct SliceState {
  Slice slice;
  bool lost = false;
  bool returns = false;  // lost for a while: it counts where the question is what could ever fit
  // Who has it to itself, or none.
  std::optional<InstanceId> exclusive;
  // Starts that failed on it one after the other. Until `start_again_at` others come before it,
  // where there are others: which of all the slices of a start was at fault is not known.
  unsigned failed_starts = 0;
  Instant start_again_at{};
  // Who takes turns on it; at most one of them is on it.
  std::vector<InstanceId> sharing;

  // It is free. Time-shared slices are not free even while all their instances are unloaded.
  bool is_free() const { return !lost && !exclusive && sharing.empty(); }
  // It is there, or will be again.
  bool stays() const { return !lost || returns; }
};

// Where a queued request is to be found.
struct QueuePlace {
  FunctionId function;
  uint64_t sequence = 0;
};

struct SliceWorld {
  Instant now{};         // of the event that is being handled
  Duration window{};     // that utilisation and arrivals are of
  uint64_t windows = 0;  // that are over: with each, utilisation and arrivals are new
  std::map<DeviceId, SliceState> slices;
  std::map<FunctionId, FunctionState> functions;
  std::map<InstanceId, Instance> instances;
  std::unordered_map<InvocationId, QueuePlace> queued;  // all that is in the functions' queues
  bool draining = false;
  // Another number whenever a slice came, went, or passed to another, or a function was put:
  // a plan that did not fit need not be tried again before.
  uint64_t slices_version = 0;

  // The time-sharing instance of a function that stays, if it has one: there is one at most.
  const Instance* sharing_instance(const FunctionState& function) const;
  // Who is on a time-shared slice, or comes to it or leaves it; none if all are unloaded.
  const Instance* occupant(const SliceState& slice) const;
  const Instance* find(InstanceId id) const;
  const FunctionState* find(FunctionId id) const;
  std::vector<Slice> free_slices() const;  // ascending by id
  // Whether a start failed on it lately, and there are slices of which that cannot be said.
  bool rests(DeviceId slice) const;
  // Those of `slices` that do not rest.
  std::vector<Slice> rested(std::span<const Slice> slices) const;
};

}  // namespace lambent::slice_scheduling
