// What stage processes and placements cost: memory, time, hand-overs. Pure functions, any thread;
// used by the planner and by who judges placements of its own.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "decide/pipeline/function.h"
#include "decide/pipeline/hand_over.h"

namespace lambent::pipeline {

// What moving data costs between stages, and weights onto slices.
struct TransferCosts {
  double copies_gb_per_s = 12;  // of one copy, device to host or host to device
  Duration handover{};          // beside the copies
  double load_gb_per_s = 12;    // weights from host memory

  bool operator==(const TransferCosts&) const = default;
};

// What a stage process needs on its slice's device: the process's context, all weights, and at the
// worst moment what a component works with and the values that wait for later ones or for the
// answer, for a full batch; and the input of another job in flight, or its output and what its
// answer is made of. With a component that was not measured, at least what the function declares.
Bytes memory_of(const PipelineFunction& function, const StageProcess& stage_process);
// The same with one job in flight: no process of the stage process needs less.
Bytes least_memory_of(const PipelineFunction& function, const StageProcess& stage_process);

// How long a stage process works on one request on a slice of this shape; optional components by
// their probability. None if a component of it that ever runs was not measured on any shape.
std::optional<Duration> time_of(const PipelineFunction& function, const StageProcess& stage_process,
                                const SliceShape& shape);

// The same, but components that were not measured are taken to be as long as the others are on
// average, or kAssumedTime if none was: a function has to run before it can be measured.
constexpr Duration kAssumedTime = milliseconds(100);
// `requests`: of a job of so many.
Duration expected_time(const PipelineFunction& function, const StageProcess& stage_process,
                       const SliceShape& shape, size_t requests = 1);

struct Timing {
  Duration latency{};     // of a single request, hand-overs included
  Duration bottleneck{};  // between two results of the stage process that takes longest for one
};
// With one shape for each stage process (hand_over.h says in which order). A value is copied to the
// host by the stage process that made it and from there by the one that needs it, once for each
// that needs it: of one request these are taken not to overlap, as they need not. A stage process
// has two in flight: the copies of one go beside the work on the other.
Timing timing_of(const PipelineFunction& function, const Partition& partition,
                 std::span<const SliceShape* const> shapes, const TransferCosts& costs);

// Of a job of so many requests; stage processes have so many replicas, as in Placement.
BatchTiming job_timing(const PipelineFunction& function, const Partition& partition,
                       std::span<const SliceShape* const> shapes, std::span<const size_t> replicas,
                       const TransferCosts& costs, size_t requests);

// Batch sizes as variants: what jobs of 2, 4, 8 and so on up to function.most_batch requests take.
// Empty if no component was measured on several together.
std::vector<size_t> batch_sizes(const PipelineFunction& function);
std::vector<BatchTiming> batch_timings(const PipelineFunction& function, const Partition& partition,
                                       std::span<const SliceShape* const> shapes,
                                       std::span<const size_t> replicas,
                                       const TransferCosts& costs);

// Whether a request that comes while such a job is at work, and then is in the next one, keeps the
// SLO; zero: there is none.
constexpr bool keeps_slo(Duration slo, Duration latency, Duration bottleneck) {
  return slo <= Duration{} || latency + bottleneck <= slo;
}

// What an instance can do at most: with jobs of so many requests it has a result every so many
// seconds.
struct Capacity {
  size_t requests = 1;
  double seconds_a_result = 0;

  double per_s() const { return 1 / std::max(1e-6, seconds_a_result); }
};
// Of jobs of one request and of these sizes, those with the most results a second that keep the SLO
// (one request may miss it); of two as good the smaller. Jobs take `pace` times as long as these
// say (Instance::pace). The one measure of what instances give, for all who ask how many are
// needed, where, and who serves what.
Capacity capacity_of(Duration bottleneck, std::span<const BatchTiming> batches, Duration slo,
                     double pace = 1);
Capacity capacity_of(const Placement& placement, Duration slo, double pace = 1);

// Of these stage processes, the time between two results of each that always has something to do.
std::vector<Duration> busy_of(const PipelineFunction& function, const Partition& partition,
                              std::span<const SliceShape* const> shapes,
                              const TransferCosts& costs);

// Both at once, of stage processes that work so long on one request, or on a job of so many, in a
// partition of these hand-overs: for who asks for many shapes.
struct StageProcessTimes {
  Duration latency{};
  std::vector<Duration> busy;
};
StageProcessTimes stage_process_times(const PipelineFunction& function, const Partition& partition,
                                      std::span<const HandOver> crossing,
                                      std::span<const Duration> work, const TransferCosts& costs,
                                      size_t requests = 1);

// Until all weights are on their slices, one for each of the placement's processes. Slices of one
// GPU share its link. Of the placement, partition and replicas count.
Duration load_time(const PipelineFunction& function, const Placement& placement,
                   std::span<const Slice* const> slices, const TransferCosts& costs);

}  // namespace lambent::pipeline
