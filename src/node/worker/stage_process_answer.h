// What the worker and a stage process of a pipeline say to each other about a job: the payload of
// its invocation, and its answer (docs/decisions/0016). Pure functions; what a stage process says
// is checked.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "decide/pipeline/dag.h"
#include "decide/slice_scheduling/events.h"

namespace lambent::worker {

// `events`: JSON, one of each request; none: the stage process needs none. `turn`: the job's number
// among its instance's, by which stage processes with replicas take turns.
std::string stage_process_payload(slice_scheduling::JobId job, size_t requests, uint64_t turn,
                                  const std::vector<std::string_view>& events);

// What one component did for one job.
struct ComponentReading {
  size_t component = 0;  // in the DAG
  unsigned ran = 0;      // for so many of the requests
  Duration time{};       // for all of them
  Bytes memory;          // of the stage process while it ran, its weights included
  Bytes weights;
  Bytes output;           // of one request
  bool together = false;  // the requests that it ran for were one batch

  bool operator==(const ComponentReading&) const = default;
};

struct RequestAnswer {
  bool succeeded = true;
  std::string payload;  // the result, or Lambda's error JSON
  std::string error_type;

  bool operator==(const RequestAnswer&) const = default;
};

struct StageProcessAnswer {
  std::vector<ComponentReading> components;
  Duration queue{};  // for the job before, which was at work or on its way out
  Duration wait{};   // for what it received
  Duration receive{};
  Duration send{};
  std::vector<RequestAnswer> results;  // of the stage process that gathers: one for each request
  bool is_broken = false;  // a channel is of no more use: the instance is to be replaced

  bool operator==(const StageProcessAnswer&) const = default;
};

// INVALID_ARGUMENT: it is no answer of a stage process that was to work on these components for so
// many requests, and, if it `gathers`, to give their results.
Result<StageProcessAnswer> parse_stage_process_answer(std::string_view json,
                                                      const pipeline::Dag& dag,
                                                      const std::vector<size_t>& components,
                                                      size_t requests, bool gathers);

// Whether a request's payload can be an event of a pipeline: JSON, not nested too deeply.
Result<void> check_event(std::string_view payload);

}  // namespace lambent::worker
