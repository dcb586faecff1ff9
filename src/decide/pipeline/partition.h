// Partition: one way to cut a pipeline function into stages, and Placement: a partition on slices.
// Values; made by the planner, carried out where processes start.
#pragma once

#include <cstddef>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::pipeline {

// One process: components that run one after the other on one slice.
struct StageProcess {
  std::vector<size_t> components;  // into Dag::components, ascending

  bool operator==(const StageProcess&) const = default;
};

// Stage processes of one stage run at the same time, on slices of their own.
struct Stage {
  std::vector<StageProcess> stage_processes;  // at least one

  bool operator==(const Stage&) const = default;
};

struct Partition {
  std::vector<Stage> stages;  // at least one; one stage of one stage process is no pipeline at all

  size_t stage_processes() const {
    size_t count = 0;
    for (const Stage& stage : stages) count += stage.stage_processes.size();
    return count;
  }
  bool operator==(const Partition&) const = default;
};

// What a job of several requests takes.
struct BatchTiming {
  size_t requests = 1;
  Duration latency{};
  Duration bottleneck{};

  bool operator==(const BatchTiming&) const = default;
};

// A partition with a slice for each stage process, in the order of stages and stage processes; or,
// for a stage process that would hold the others up, with several: its replicas take jobs in turn.
struct Placement {
  Partition partition;
  std::vector<DeviceId> slices;  // of a stage process's replicas one after the other
  Duration latency{};            // of a single request, hand-overs included
  Duration bottleneck{};         // of the slowest stage: the time between two results at full load
  Duration load{};               // until its weights are on their slices, from host memory
  // By stage process, as many processes as have it, all on slices of one shape; empty: one each. Of
  // an instance's jobs, each stage process's replica number `job % replicas` takes a job.
  std::vector<size_t> replicas = {};
  // Of jobs of more than one request, ascending, where some component was measured on several
  // together. Empty: as long as its requests one after the other.
  std::vector<BatchTiming> batches = {};

  // Of a job of so many requests: between those of `batches` in proportion.
  Duration latency_of(size_t requests) const {
    return of_job(requests, latency, &BatchTiming::latency);
  }
  Duration bottleneck_of(size_t requests) const {
    return of_job(requests, bottleneck, &BatchTiming::bottleneck);
  }
  size_t replicas_of(size_t stage_process) const {
    return replicas.empty() ? 1 : replicas[stage_process];
  }
  bool operator==(const Placement&) const = default;

 private:
  Duration of_job(size_t requests, Duration alone, Duration BatchTiming::*time) const {
    BatchTiming below;
    below.*time = alone;
    for (const BatchTiming& each : batches) {
      if (requests <= each.requests) {
        const auto more = static_cast<int64_t>(requests - below.requests);
        const auto step = static_cast<int64_t>(each.requests - below.requests);
        return below.*time + (each.*time - below.*time) * more / step;
      }
      below = each;
    }
    return below.*time * static_cast<int64_t>(requests) / static_cast<int64_t>(below.requests);
  }
};

}  // namespace lambent::pipeline
