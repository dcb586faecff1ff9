#include "node/worker/workflow_trace.h"

#include <cmath>
#include <cstdio>

#include "core/domain/slice.h"
#include "decide/workflow/value.h"

namespace lambent::worker {
namespace {

using workflow::Value;

std::string milliseconds_text(Duration duration) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", to_milliseconds(duration));
  return text;
}

// To the microsecond.
double rounded_ms(Duration duration) { return std::round(to_milliseconds(duration) * 1000) / 1000; }

Value json_of(const CallRecord& call) {
  Value json = {{"component", call.component},
                {"function", call.function},
                {"invocation", to_string(call.invocation)},
                {"at_ms", rounded_ms(call.began)},
                {"took_ms", rounded_ms(call.took)}};
  if (call.attempt > 1) json["attempt"] = call.attempt;
  if (!call.failure.empty()) json["failed"] = call.failure;
  if (!call.ran) return json;
  json["start"] = name_of(call.start);
  json["queue_ms"] = rounded_ms(call.phases.queue);
  json["sandbox_ms"] = rounded_ms(call.phases.sandbox);
  json["init_ms"] = rounded_ms(call.phases.init);
  json["memory_ms"] = rounded_ms(call.phases.memory);
  json["run_ms"] = rounded_ms(call.phases.run);
  if (!call.wait_reason.empty()) json["wait_reason"] = call.wait_reason;
  if (call.device) json["device"] = place_name(*call.device);
  if (call.is_on_gpu()) {
    json["gpu"] = gpu_of(*call.device);
    json["gpus"] = Value::array();
    json["gpus"].push_back(place_name(*call.device));
    for (const DeviceId other : call.beside) json["gpus"].push_back(place_name(other));
  }
  return json;
}

}  // namespace

std::string line_of(const CallRecord& call) {
  std::string line = call.component + "  at " + milliseconds_text(call.began) + " ms, took " +
                     milliseconds_text(call.took) + " ms";
  if (call.ran) {
    const Phases& phases = call.phases;
    line += " (queue " + milliseconds_text(phases.queue);
    if (!call.wait_reason.empty()) line += " " + call.wait_reason;
    const Duration start = phases.sandbox + phases.init;
    if (start > Duration(0)) line += ", start " + milliseconds_text(start);
    if (phases.memory > Duration(0)) line += ", memory " + milliseconds_text(phases.memory);
    line += ", run " + milliseconds_text(phases.run) + ")  " + std::string(name_of(call.start));
    if (call.is_on_gpu()) line += "  gpu " + place_names(*call.device, call.beside);
  }
  line += "  " + to_string(call.invocation);
  if (call.attempt > 1) line += "  attempt " + std::to_string(call.attempt);
  if (!call.failure.empty()) line += "  failed: " + call.failure;
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return line + "\n";
}

std::string json_of(const RunRecord& run) {
  Value json = {{"invocation", to_string(run.invocation)},
                {"function", run.function.name},
                {"state", run.state},
                {"took_ms", rounded_ms(run.took)},
                {"calls_ended", run.calls_ended},
                {"calls", Value::array()}};
  for (const CallRecord& call : run.calls) json["calls"].push_back(json_of(call));
  return workflow::to_text(json);
}

void RunTraces::keep(RunRecord record) {
  if (order_.size() == kMost) {
    records_.erase(order_.front());
    order_.pop_front();
  }
  const InvocationId run = record.invocation;
  if (records_.insert_or_assign(run, std::move(record)).second) order_.push_back(run);
}

const RunRecord* RunTraces::find(InvocationId run) const {
  const auto found = records_.find(run);
  return found != records_.end() ? &found->second : nullptr;
}

}  // namespace lambent::worker
