#include "edge/frontend/activity_json.h"

#include <nlohmann/json.hpp>

#include "core/domain/slice.h"

namespace lambent::frontend {

using nlohmann::json;

json to_json(const EndedInvocation& invocation) {
  const Phases& phases = invocation.phases;
  json gpus = json::array();
  if (invocation.device && *invocation.device != DeviceId(0)) {
    gpus.push_back(place_name(*invocation.device));
  }
  for (const DeviceId other : invocation.beside) gpus.push_back(place_name(other));
  return {
      {"sequence", invocation.sequence},
      {"invocation", to_string(invocation.id)},
      {"function", invocation.function},
      {"version", invocation.version},
      {"outcome", name_of(invocation.outcome)},
      {"error_type", invocation.error_type},
      {"error", invocation.error},
      {"start", name_of(invocation.start)},
      {"phases_ms",
       {{"queue", to_milliseconds(phases.queue)},
        {"sandbox", to_milliseconds(phases.sandbox)},
        {"init", to_milliseconds(phases.init)},
        {"memory", to_milliseconds(phases.memory)},
        {"run", to_milliseconds(phases.run)}}},
      {"took_ms", to_milliseconds(phases.total())},
      {"wait_reason", invocation.wait_reason},
      {"gpu", invocation.device ? json(place_name(*invocation.device)) : json()},
      {"gpus", std::move(gpus)},
      {"ended", to_seconds(invocation.ended)},
      {"in_time", invocation.in_time ? json(*invocation.in_time) : json()},
      {"device_memory_peak_bytes", invocation.device_memory_peak.count},
      {"host_memory_peak_bytes", invocation.host_memory_peak.count},
      {"run", invocation.run > 0 ? json(invocation.run) : json()},
      {"again_in_seconds", invocation.again_in ? json(to_seconds(*invocation.again_in)) : json()}};
}

json to_json(const LiveInvocationStatus& invocation) {
  return {{"invocation", to_string(invocation.id)},
          {"function", invocation.function},
          {"phase", invocation.phase},
          {"waited_seconds", to_seconds(invocation.waited)},
          {"wait_reason", invocation.wait_reason},
          {"run", invocation.run > 0 ? json(invocation.run) : json()},
          {"due_in_seconds",
           invocation.phase == "waiting" ? json(to_seconds(invocation.due_in)) : json()},
          {"last_failure", invocation.last_failure}};
}

json to_json(const GpuRun& run) {
  return {{"gpu", place_name(run.device)},
          {"function", run.function ? json(*run.function) : json()},
          {"invocation", run.invocation ? json(to_string(*run.invocation)) : json()},
          {"held_seconds", to_seconds(run.held)}};
}

json to_json(const FunctionActivity& activity) {
  return {{"name", activity.name},
          {"kind", name_of(activity.kind)},
          {"serves_model", activity.serves_model},
          {"queued", activity.queued},
          {"running", activity.running},
          {"sandboxes", activity.sandboxes},
          {"cold", activity.cold},
          {"gpu_cold", activity.gpu_cold},
          {"warm", activity.warm},
          {"failed", activity.failed},
          {"refused", activity.refused},
          {"in_time", activity.in_time},
          {"late", activity.late},
          {"p50_ms", to_milliseconds(activity.p50)},
          {"p95_ms", to_milliseconds(activity.p95)},
          {"p99_ms", to_milliseconds(activity.p99)},
          {"ahead_ms", to_milliseconds(activity.ahead)}};
}

json to_json(const LatencyHistogram& histogram) {
  json buckets = json::array();
  for (size_t i = 0; i < LatencyHistogram::kBuckets; ++i) {
    const uint32_t count = histogram.buckets()[i];
    if (count == 0) continue;
    buckets.push_back({to_milliseconds(LatencyHistogram::upper_bound(i)), count});
  }
  return buckets;
}

json to_json(const FunctionGraph& graph) {
  json nodes = json::array();
  for (const FunctionGraph::Node& node : graph.nodes) {
    nodes.push_back({{"name", node.name},
                     {"function", node.function},
                     {"for_each", node.for_each},
                     {"conditional", node.conditional}});
  }
  json edges = json::array();
  for (const auto& [from, to] : graph.edges) edges.push_back({from, to});
  return {{"nodes", std::move(nodes)}, {"edges", std::move(edges)}};
}

}  // namespace lambent::frontend
