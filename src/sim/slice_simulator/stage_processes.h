// Stage processes of an instance as the simulated machine has them: what each does for a job, in
// which parts, and the channels between them. Made from a placement; changed only by Machine.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "decide/pipeline/function.h"
#include "decide/pipeline/hand_over.h"
#include "decide/slice_scheduling/events.h"

namespace lambent::slice_simulator {

using slice_scheduling::JobId;

// One component's output of one job, in a channel.
struct Value {
  JobId job;
  bool whole = false;  // all of it has been sent
  // The receiver copies it on; it began before all had been sent.
  bool receiving = false, overlapped = false, received = false;
  // Copies that are under way.
  uint64_t send = 0, receive = 0;
};

// From one stage process to another; carries one component's output.
struct Channel {
  size_t from = 0, to = 0;  // stage processes
  Bytes bytes;              // of one request
  size_t slots = 1;
  std::deque<Value> values;  // in the order of jobs; the next waits while all slots are taken
};

// What a stage process does for a job, one after the other.
struct Step {
  enum class Kind { kReceive, kSend, kEdge, kExecute } kind = Kind::kExecute;
  // Of the value that is received or sent: with one of the other stage process's replicas, or with
  // each of them in turn.
  std::vector<size_t> channels = {};

  size_t channel_of(uint64_t job) const { return channels[job % channels.size()]; }
};

// A job goes through a stage process in three parts, each of which has one at a time: its input
// comes, it is computed, its result goes (python/lambent/pipeline/overlap.py).
struct Part {
  std::vector<Step> steps;
  std::deque<JobId> jobs;  // in front the one that it is at
  size_t at = 0;           // which of its steps
  bool begun = false;      // with that step
  bool waiting = false;    // for another stage process
  Instant since{};         // when it began with that step
};

struct RunningStageProcess {
  std::vector<size_t> components;
  DeviceId slice;
  size_t stage = 0;
  pipeline::Process process;
  Bytes weights;
  Bytes memory;            // with the process's context
  std::deque<JobId> jobs;  // that it has not begun
  std::array<Part, 3> parts;
  size_t in_flight = 0;  // jobs in its parts
  size_t at_alone = 0;   // those of them that run singly
  unsigned working = 0;  // parts that copy or compute
};

struct Wiring {
  std::vector<RunningStageProcess> stage_processes;
  std::vector<Channel> channels;
};

// A stage process of the wiring is one process. The last stage process gathers outputs that others
// make.
Wiring wire(const pipeline::PipelineFunction& function, const pipeline::Placement& placement);

}  // namespace lambent::slice_simulator
