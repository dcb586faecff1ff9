// Where the time of one request of a pipeline function went: what it waited for, and what each
// stage did, as JSON for those who ask. Values and pure functions; kept by PipelineHost.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/domain/invocation.h"
#include "decide/slice_scheduling/slice_wait.h"
#include "node/worker/pipeline_instance.h"

namespace lambent::worker {

// A job that ended, as its instance saw it; of all requests that it was made of.
struct JobRecord {
  std::shared_ptr<const PipelinePackage> package;
  slice_scheduling::InstanceId instance;
  size_t requests = 1;
  std::vector<JobEnd::StageProcessTime> stage_processes;
  std::vector<std::pair<DeviceId, ComponentReading>> readings;
};

struct RequestRecord {
  InvocationId invocation;
  FunctionName name;
  std::string state = "queued";  // "running", or what name_of(Outcome) calls its end
  Duration took{};               // until now, or until it ended
  StartClass start = StartClass::kWarm;
  slice_scheduling::Waits waits;  // the longest first
  slice_scheduling::SliceWait waits_now = slice_scheduling::SliceWait::kNone;
  // In instances that ended under it: it was begun again.
  Duration lost{};
  Duration run{};                        // of the job that it ended with
  std::shared_ptr<const JobRecord> job;  // none: it ended with none
  std::string error;
};

// As Phases has it: the queue, the start of its instance, the way of its weights, and the run.
Phases phases_of(const RequestRecord& record);

// As GET /v1/invocations/ID/trace gives it. `name_of_function`: what a function is called to those
// who ask; empty: it is none of their business.
std::string json_of(const RequestRecord& record,
                    const std::function<std::string(FunctionId)>& name_of_function);

// The last kMost requests that ended.
class RequestTraces {
 public:
  static constexpr size_t kMost = 2048;

  void keep(RequestRecord record);
  const RequestRecord* find(InvocationId id) const;

 private:
  std::unordered_map<InvocationId, RequestRecord> records_;
  std::deque<InvocationId> order_;  // the oldest first
};

}  // namespace lambent::worker
