#include "node/worker/pipeline_trace.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/json_text.h"
#include "core/domain/slice.h"

namespace lambent::worker {
namespace {

using nlohmann::json;
using slice_scheduling::SliceWait;

// To the microsecond.
double rounded_ms(Duration duration) { return std::round(to_milliseconds(duration) * 1000) / 1000; }

// When the last stage process of the stage before had done its part, after the start of the job.
Duration ready_of(const JobRecord& job, size_t stage) {
  Duration ready{};
  for (const JobEnd::StageProcessTime& stage_process : job.stage_processes) {
    if (stage_process.stage + 1 == stage) ready = std::max(ready, stage_process.ended);
  }
  return ready;
}

json json_of(const JobRecord& job, const JobEnd::StageProcessTime& stage_process) {
  const auto& components = job.package->definition.dag.components;
  json worked = json::array();
  for (const auto& [device, reading] : job.readings) {
    if (device != stage_process.slice) continue;
    worked.push_back({{"component", components[reading.component].name},
                      {"ms", rounded_ms(reading.time)},
                      {"ran", reading.ran}});
  }
  // A stage process has its job ahead of its input: it was behind others only from when that was
  // there. And it has two in flight: there it tells itself.
  const Duration queued =
      std::max(Duration(0), stage_process.began - ready_of(job, stage_process.stage)) +
      stage_process.queue;
  return {{"stage", stage_process.stage},
          {"slice", place_name(stage_process.slice)},
          {"at_ms", rounded_ms(stage_process.began)},
          {"queue_ms", rounded_ms(queued)},
          {"wait_ms", rounded_ms(stage_process.wait)},
          {"receive_ms", rounded_ms(stage_process.receive)},
          {"work_ms", rounded_ms(stage_process.busy)},
          {"send_ms", rounded_ms(stage_process.send)},
          {"components", worked}};
}

}  // namespace

Phases phases_of(const RequestRecord& record) {
  Phases phases;
  for (const auto& [cause, waited] : record.waits) {
    if (cause.reason == SliceWait::kStarting) phases.sandbox += waited;
    if (cause.reason == SliceWait::kMemoryMoving) phases.memory += waited;
  }
  phases.run = record.run;
  // What is left, with what was lost: together they are the latency.
  phases.queue = std::max(Duration(0), record.took - phases.sandbox - phases.memory - phases.run);
  return phases;
}

std::string json_of(const RequestRecord& record,
                    const std::function<std::string(FunctionId)>& name_of_function) {
  const Phases phases = phases_of(record);
  json text = {{"invocation", to_string(record.invocation)},
               {"function", record.name.name},
               {"kind", "pipeline"},
               {"state", record.state},
               {"took_ms", rounded_ms(record.took)},
               {"queue_ms", rounded_ms(phases.queue)},
               {"sandbox_ms", rounded_ms(phases.sandbox)},
               {"memory_ms", rounded_ms(phases.memory)},
               {"run_ms", rounded_ms(phases.run)},
               {"waits", json::array()},
               {"stages", json::array()}};
  for (const auto& [cause, waited] : record.waits) {
    json wait = {{"reason", slice_scheduling::name_of(cause.reason)}, {"ms", rounded_ms(waited)}};
    if (cause.other != FunctionId{}) {
      const std::string name = name_of_function(cause.other);
      wait["other"] = name.empty() ? json() : json(name);
    }
    text["waits"].push_back(std::move(wait));
  }
  if (record.lost > Duration(0)) text["lost_ms"] = rounded_ms(record.lost);
  if (!record.error.empty()) text["failed"] = record.error;
  if (record.job != nullptr) {
    text["start"] = name_of(record.start);
    text["instance"] = record.job->instance.value;
    text["requests_in_job"] = record.job->requests;
    for (const JobEnd::StageProcessTime& stage_process : record.job->stage_processes) {
      text["stages"].push_back(json_of(*record.job, stage_process));
    }
  }
  return json_text(text);
}

void RequestTraces::keep(RequestRecord record) {
  if (order_.size() == kMost) {
    records_.erase(order_.front());
    order_.pop_front();
  }
  const InvocationId id = record.invocation;
  if (records_.insert_or_assign(id, std::move(record)).second) order_.push_back(id);
}

const RequestRecord* RequestTraces::find(InvocationId id) const {
  const auto found = records_.find(id);
  return found == records_.end() ? nullptr : &found->second;
}

}  // namespace lambent::worker
