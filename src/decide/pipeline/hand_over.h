// What the stage processes of a partition hand over to each other. Pure functions; used by the
// planner for what that costs, and by who sets up the channels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "decide/pipeline/dag.h"
#include "decide/pipeline/partition.h"

namespace lambent::pipeline {

// The output of a component goes from the stage process that makes it to one that needs it: one
// channel. Stage processes are numbered in the order of stages and of stage processes in them.
struct HandOver {
  size_t component = 0;
  size_t from = 0;
  size_t to = 0;

  bool operator==(const HandOver&) const = default;
};

// Ascending by receiver, then by component. What the function returns goes to the gathering stage
// process.
std::vector<HandOver> hand_overs(const Dag& dag, const Partition& partition);

// The stage process that answers with the results: the last. It makes an output itself: none
// comes after it, and a value that none needs is an output.
inline size_t gathering_stage_process(const Partition& partition) {
  return partition.stage_processes() - 1;
}

// The stage processes, numbered as above.
std::vector<const StageProcess*> stage_processes_of(const Partition& partition);

// Jobs whose values a channel holds. Together a sender's channels for one value to one stage
// process hold as many as it may be ahead, or one for each replica: their memory is the sender's.
inline constexpr size_t kJobsAhead = 3;
constexpr size_t slots_of_channel(size_t receivers) {
  return (kJobsAhead + receivers - 1) / receivers;
}

// Jobs that a stage process is given and has not answered: one is computed while the input of the
// next comes in, or the result of the last goes out.
inline constexpr size_t kJobsInFlight = 2;

// What runs on a slice of a placement: a stage process, or one of its replicas.
struct Process {
  size_t stage_process = 0;
  size_t stage = 0;
  size_t replica = 0;   // of its stage process
  size_t replicas = 1;  // that its stage process has

  // Whether the instance's job of this number passes through it.
  bool takes(uint64_t job) const { return job % replicas == replica; }
  bool operator==(const Process&) const = default;
};
// One for each of its slices, in their order.
std::vector<Process> processes_of(const Placement& placement);

}  // namespace lambent::pipeline
