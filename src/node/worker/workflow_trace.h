// What a run of a workflow did and where its time went, call by call: as lines for its log, and as
// JSON for those who ask. Values and pure functions; kept by WorkflowHost.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/domain/invocation.h"

namespace lambent::worker {

// One call that ended.
struct CallRecord {
  std::string component;  // with its number in a for_each: "faces[3]"
  std::string function;
  InvocationId invocation;
  unsigned attempt = 1;
  Duration began{};  // after the start of the run
  Duration took{};
  // Whether it ran, and then how; otherwise it was refused.
  bool ran = false;
  StartClass start = StartClass::kWarm;
  Phases phases;
  std::string wait_reason;
  std::optional<DeviceId> device;  // of a workflow none
  std::vector<DeviceId> beside;    // its other devices, if its function takes several
  std::string failure;             // empty: it succeeded

  bool is_on_gpu() const { return device && *device != DeviceId{}; }
};

struct RunRecord {
  InvocationId invocation;
  FunctionName function;
  std::string state = "running";  // or what name_of(Outcome) calls its end
  Duration took{};                // until now, or until it ended
  std::vector<CallRecord> calls;  // in the order of their ends, the first ones
  size_t calls_ended = 0;         // all of them
};

// The last kMost runs that ended.
class RunTraces {
 public:
  static constexpr size_t kMost = 512;

  void keep(RunRecord record);
  const RunRecord* find(InvocationId run) const;

 private:
  std::unordered_map<InvocationId, RunRecord> records_;
  std::deque<InvocationId> order_;  // the oldest first
};

// "faces[3]  at 12.0 ms, took 8.1 ms (queue 0.2, run 7.9)  warm  gpu 0  ID", and why it failed if
// it did; with a line feed.
std::string line_of(const CallRecord& call);

// As GET /v1/invocations/ID/trace gives it.
std::string json_of(const RunRecord& run);

}  // namespace lambent::worker
