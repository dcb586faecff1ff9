// Lanes of an instance as the simulated machine has them: which values each waits for and hands on,
// by channels that hold one value. Made from a placement; changed by Machine alone.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "pipeline/function.h"
#include "pipeline/hand_over.h"
#include "slice_scheduling/events.h"

namespace lambent::slice_simulator {

using slice_scheduling::JobId;

// From one lane to another; carries one component's output.
struct Channel {
  size_t from = 0, to = 0;  // lanes
  Bytes bytes;              // of one request
  // The value that lies in it, whole or while it is being sent; the next has to wait.
  std::optional<JobId> value;
  bool whole = false;
  // The receiver copies it on; it began before all had been sent.
  bool receiving = false, overlapped = false, received = false;
  // Copies that are under way.
  uint64_t send = 0, receive = 0;

  void empty() { *this = Channel{from, to, bytes, {}, false, false, false, false, 0, 0}; }
};

struct RunningLane {
  enum class State { kIdle, kReceiving, kExecuting, kHandingOver, kSending };
  std::vector<size_t> components;
  DeviceId slice;
  size_t stage = 0;
  pipeline::Process process;
  Bytes weights;
  Bytes memory;  // with the process's context
  // Channels of each value: with one of the other lane's replicas, or with each of them in turn.
  std::vector<std::vector<size_t>> receives, sends;
  std::deque<JobId> jobs;  // in front the one that it is at
  State state = State::kIdle;
  size_t at = 0;         // which of its receives or sends
  bool waiting = false;  // for another lane
  Instant since{};       // of what it is doing

  // For the instance's job of this number, which has to do with this lane.
  size_t receive_of(uint64_t job) const { return receives[at][job % receives[at].size()]; }
  size_t send_of(uint64_t job) const { return sends[at][job % sends[at].size()]; }
  bool is_working() const {
    return state == State::kExecuting || state == State::kSending ||
           (state == State::kReceiving && !waiting);
  }
};

struct Wiring {
  std::vector<RunningLane> lanes;
  std::vector<Channel> channels;
};

// A lane of the wiring is one process. The last lane gathers outputs that others make.
Wiring wire(const pipeline::PipelineFunction& function, const pipeline::Placement& placement);

}  // namespace lambent::slice_simulator
