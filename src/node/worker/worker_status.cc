// The part of Worker that tells what is going on: status for `lambent ls` and `ps`, gauges, learnt
// statistics.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/domain/slice.h"
#include "node/worker/worker.h"

namespace lambent::worker {
namespace {

constexpr Duration kStatisticsPeriod = seconds(5);

catalog::FunctionStatistics statistics_of(FunctionId id, const scheduling::Flow& flow) {
  catalog::FunctionStatistics statistics;
  statistics.tenant = flow.tenant;
  statistics.function = id;
  statistics.mean_execution = flow.execution.mean();
  statistics.mean_interarrival = flow.interarrival.mean();
  statistics.mean_cold_start = flow.cold_start.mean();
  statistics.executions = flow.execution.samples();
  statistics.arrivals = flow.interarrival.samples();
  statistics.cold_starts = flow.cold_start.samples();
  statistics.mean_host_execution = flow.host_execution.mean();
  statistics.mean_host_cold_start = flow.host_cold_start.mean();
  statistics.host_executions = flow.host_execution.samples();
  statistics.host_cold_starts = flow.host_cold_start.samples();
  return statistics;
}

std::string place_of_memory(const scheduling::Sandbox& sandbox) {
  switch (sandbox.memory_state) {
    case scheduling::MemoryState::kIn:
      return "in";
    case scheduling::MemoryState::kMovingOut:
      return "moving out";
    case scheduling::MemoryState::kOut:
      return sandbox.deep ? "out with context" : "out";
    case scheduling::MemoryState::kMovingIn:
      return "moving in";
  }
  return "in";
}

}  // namespace

const scheduling::Flow* Worker::flow_of(FunctionId id) const {
  const auto& flows = dispatcher_->flows();
  return id.value < flows.size() && flows[id.value].registered ? &flows[id.value] : nullptr;
}

std::vector<SandboxStatus> Worker::all_sandboxes() const {
  std::vector<SandboxStatus> all = host_.status();
  for (SandboxStatus& instance : executors_.status()) all.push_back(std::move(instance));
  return all;
}

FunctionTotals Worker::function_totals(TenantId tenant) const { return functions_.totals(tenant); }

std::vector<FunctionStatus> Worker::function_status(TenantId tenant, const std::string& after,
                                                    size_t limit) const {
  std::vector<FunctionStatus> all;
  std::unordered_map<std::string, uint64_t> sandboxes;
  for (const SandboxStatus& sandbox : all_sandboxes()) {
    if (sandbox.function.tenant == tenant) ++sandboxes[sandbox.function.name];
  }
  for (FunctionSpec& spec : functions_.list(tenant, after, limit)) {
    FunctionStatus status;
    if (const scheduling::Flow* flow = flow_of(spec.id)) {
      status.queued = flow->pending;
      status.running = flow->in_flight + flow->on_host;
      status.completed = flow->execution.samples() + flow->host_execution.samples();
    }
    if (spec.kind == FunctionKind::kWorkflow) {
      const WorkflowHost::Counts counts = workflows_.counts(spec.id);
      status.queued = counts.waiting;
      status.running = counts.running;
      status.completed = counts.completed;
    }
    if (spec.kind == FunctionKind::kPipeline) {
      const PipelineHost::Counts counts = pipelines_.counts(spec.id);
      status.queued += counts.queued;  // beside those that dispatch serves
      status.running += counts.running;
      status.completed = counts.completed;
    }
    if (const auto found = sandboxes.find(spec.name.name); found != sandboxes.end()) {
      status.sandboxes = found->second;
    }
    status.spec = std::move(spec);
    all.push_back(std::move(status));
  }
  return all;
}

std::vector<SandboxStatus> Worker::sandbox_status(TenantId tenant) const {
  std::vector<SandboxStatus> all = all_sandboxes();
  std::erase_if(all, [&](const SandboxStatus& each) { return each.function.tenant != tenant; });
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  const scheduling::Fleet& fleet = dispatcher_->fleet();
  for (SandboxStatus& each : all) {
    const auto slot = fleet.find(each.id);
    if (slot) each.device_memory_place = place_of_memory(fleet.sandbox(*slot));
  }
  return all;
}

// Others' functions are nobody's business; that somebody runs, and for how long at most, is.
Result<std::string> Worker::explain_json(TenantId tenant, InvocationId id) const {
  using nlohmann::json;
  const Instant now = loop_.clock().now();
  const auto live = live_.find(id);
  if (const auto record = pipelines_.explain(id); record && record->name.tenant == tenant) {
    return json{{"state", "pending"},
                {"phase", record->state},
                {"waited_seconds", to_seconds(record->took - record->run)},
                {"wait_reason", slice_scheduling::name_of(record->waits_now)},
                {"token_holders", json::array()}}
        .dump();
  }
  const auto explained = dispatcher_->explain(id, now);
  if (live == live_.end() || live->second.request.function.tenant != tenant || !explained) {
    return Error{ErrorCode::kNotFound, "no such invocation waits or runs"};
  }
  json holders = json::array();
  const FunctionSpec* own = functions_.find(explained->function);
  const bool wants_gpu =
      own != nullptr && dispatcher_->flows()[own->id.value].device_memory > Bytes(0);
  for (const dispatch::TokenHolder& holder : dispatcher_->token_holders(now)) {
    if (!wants_gpu || explained->state != dispatch::InvocationState::kQueued) break;
    const FunctionSpec* spec = functions_.find(holder.function);
    const bool is_theirs = spec != nullptr && spec->name.tenant == tenant;
    holders.push_back(
        {{"gpu", place_name(holder.device)},
         {"function", is_theirs ? json(spec->name.name) : json()},
         {"invocation", is_theirs && holder.invocation != InvocationId{}
                            ? json(to_string(holder.invocation))
                            : json()},
         {"held_seconds", to_seconds(holder.held)},
         {"most_left_seconds", holder.most_left ? json(to_seconds(*holder.most_left)) : json()}});
  }
  json text = {{"state", "pending"},
               {"phase", name_of(explained->state)},
               {"waited_seconds", to_seconds(explained->waited)},
               {"wait_reason", scheduling::name_of(explained->reason)},
               {"token_holders", holders}};
  return text.dump(-1, ' ', false, json::error_handler_t::replace);
}

void Worker::update_gauges() {
  const Instant now = loop_.clock().now();
  for (const FunctionSpec& spec : functions_.all()) {
    const scheduling::Flow* flow = flow_of(spec.id);
    if (flow == nullptr) continue;
    metrics_.set_flow(spec.name, {.pending = flow->pending,
                                  .running = flow->in_flight + flow->on_host,
                                  .virtual_time = dispatcher_->status(spec.id, now).virtual_time});
  }
  const std::vector<ExecutorKey> executors = executors_.ready_executors();
  for (const scheduling::Device& device : dispatcher_->fleet().devices()) {
    metrics::WorkerMetrics::DeviceGauges gauges;
    gauges.executors = static_cast<uint64_t>(
        std::ranges::count(executors, device.options.id, &ExecutorKey::device));
    gauges.memory_total = device.options.memory;
    gauges.memory_committed = device.committed;
    gauges.memory_resident = device.resident;
    gauges.memory_taken = device.taken;
    gauges.utilisation = device.utilisation;
    gauges.tokens = device.tokens();
    gauges.tokens_held = device.tokens_held;
    gauges.healthy = device.healthy;
    gauges.memory_used = care_.status(device.options.id).reading.memory_used;
    metrics_.set_device(device.options.id, gauges);
  }
  for (const protocol::DeviceInventory& device : options_.devices) {
    const DeviceId id(device.index + 1);
    metrics_.set_xids(id, care_.status(id).xids);
  }
  const ExecutorEnds& ends = executors_.executor_ends();
  for (const auto& [how, count] : {std::pair("unused", ends.unused), std::pair("fault", ends.fault),
                                   std::pair("hang", ends.hang), std::pair("died", ends.died),
                                   std::pair("unstarted", ends.unstarted)}) {
    metrics_.set_executor_ends(how, count);
  }
  for (const SliceStatus& slice : pipelines_.status()) {
    metrics_.set_slice(slice.slice.id, slice.slice.shape.name, slice.busy, !slice.holders.empty());
  }
  for (const auto& [gpu, busy] : pipelines_.gpu_time()) metrics_.set_gpu_time(gpu, busy);
  std::map<std::string, uint64_t> by_state = {
      {"starting", 0}, {"idle", 0}, {"busy", 0}, {"stopping", 0}};
  for (const SandboxStatus& sandbox : all_sandboxes()) ++by_state[sandbox.state];
  metrics_.set_sandboxes(by_state);
  metrics_.set_queued(dispatcher_->queued());
  metrics_.set_memory_on_host(dispatcher_->fleet().memory().on_host());
  metrics::WorkerMetrics::ObjectMoves moves{.on_devices = executors_.objects_on_devices(),
                                            .ways = {{{"reader"}, {"neighbour"}, {"host"}}},
                                            .reads = {{{"device"}, {"neighbour"}, {"host"}}}};
  const auto count = [](auto& ways, const auto& counted) {
    for (size_t i = 0; i < ways.size(); ++i) {
      ways[i].objects = counted[i].objects;
      ways[i].bytes = counted[i].bytes;
    }
  };
  count(moves.ways, executors_.object_moves());
  count(moves.reads, executors_.object_reads());
  metrics_.set_object_moves(moves);
}

void Worker::save_statistics() {
  std::vector<catalog::FunctionStatistics> changed;
  for (const FunctionSpec& spec : functions_.all()) {
    const scheduling::Flow* flow = flow_of(spec.id);
    if (flow == nullptr) continue;
    const auto statistics = statistics_of(spec.id, *flow);
    if (const auto known = learnt_.find(spec.id);
        known != learnt_.end() && known->second == statistics) {
      continue;
    }
    learnt_[spec.id] = statistics;
    changed.push_back(statistics);
  }
  if (!changed.empty()) {
    catalog_.save_statistics(std::move(changed), [this](Result<void> saved) {
      if (!saved.ok()) log_.warning("statistics_not_saved", {{"error", to_string(saved.error())}});
    });
  }
  catalog_.expire_results(loop_.clock().wall_now(), [](Result<uint64_t>) {});
  statistics_timer_ = loop_.call_after(kStatisticsPeriod, [this] { save_statistics(); });
}

}  // namespace lambent::worker
