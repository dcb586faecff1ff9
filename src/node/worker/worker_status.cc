#include "node/worker/worker_status.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "core/base/json_text.h"
#include "core/domain/slice.h"
#include "node/worker/flow_of.h"
#include "node/worker/slice_choice.h"
#include "node/worker/workflow_steps.h"

namespace lambent::worker {
namespace {

using nlohmann::json;

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

json xids_json(const DeviceStatus& status) {
  json xids = json::object();
  for (const auto& [xid, count] : status.xids) xids[std::to_string(xid)] = count;
  return xids;
}

json text_or_null(const std::string& text) { return text.empty() ? json() : json(text); }

// A device of dispatch has more to show than one of pipelines.
void add_concurrency(const scheduling::Device& device, json& row) {
  row["tokens"] = device.tokens();
  row["tokens_held"] = device.tokens_held;
  row["reserved"] = device.reserved;
  row["tokens_by"] = device.concurrency ? "utilization" : "setting";
  row["sandboxes"] = device.sandboxes;
  row["memory_taken_bytes"] = device.taken.count;
}

}  // namespace

std::vector<FunctionStatus> WorkerStatus::functions(TenantId tenant, const std::string& after,
                                                    size_t limit) const {
  std::vector<FunctionStatus> all;
  std::unordered_map<std::string, uint64_t> sandboxes;
  for (const SandboxStatus& sandbox : uses_.backends.status(Metering::kNone, tenant)) {
    ++sandboxes[sandbox.function.name];
  }
  for (FunctionSpec& spec : uses_.functions.list(tenant, after, limit)) {
    FunctionStatus& status = all.emplace_back();
    status.spec = std::move(spec);
    const Counts counted = counts(status.spec);
    status.queued = counted.queued;
    status.running = counted.running;
    status.completed = counted.completed;
    status.instances = instances(status.spec.id);
    const auto found = sandboxes.find(status.spec.name.name);
    if (found != sandboxes.end()) status.sandboxes = found->second;
  }
  return all;
}

InstanceReport WorkerStatus::instances(FunctionId function) const {
  InstanceReport report;
  const dispatch::InstanceStatus status = uses_.dispatcher.instances(function);
  report.wanted = status.wanted;
  report.ready = status.ready;
  report.starting = status.starting;
  report.failures = status.failures;
  report.next_start_in = std::max(Duration(0), status.next_start - uses_.loop.clock().now());
  return report;
}

WorkerStatus::Counts WorkerStatus::counts(const FunctionSpec& spec) const {
  Counts counted;
  if (const scheduling::Flow* flow = flow_of(uses_.dispatcher, spec.id)) {
    counted = {flow->pending, flow->in_flight + flow->on_host + uses_.dispatcher.joined(spec.id),
               flow->execution.samples() + flow->host_execution.samples()};
  }
  if (spec.kind == FunctionKind::kWorkflow) {
    const WorkflowHost::Counts counts = uses_.workflows.counts(spec.id);
    counted = {counts.waiting, counts.running, counts.completed};
  }
  if (spec.kind == FunctionKind::kPipeline) {
    const PipelineStatus::Counts counts = uses_.pipelines.status().counts(spec.id);
    counted.queued += counts.queued;  // beside those that dispatch serves
    counted.running += counts.running;
    counted.completed = counts.completed;
  }
  return counted;
}

std::vector<SandboxStatus> WorkerStatus::sandboxes(Metering metering,
                                                   std::optional<TenantId> tenant) const {
  std::vector<SandboxStatus> all = uses_.backends.status(metering, tenant);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  const scheduling::Fleet& fleet = uses_.dispatcher.fleet();
  for (SandboxStatus& each : all) {
    const auto slot = fleet.find(each.id);
    if (slot) each.device_memory_place = place_of_memory(fleet.sandbox(*slot));
  }
  return all;
}

uint64_t WorkerStatus::invocations() const {
  return uses_.mounts.count() + uses_.dispatcher.queued() + uses_.dispatcher.in_flight() +
         uses_.pipelines.live();
}

// Functions of other tenants are not named; that one of them runs, and for how long at most, is
// told.
Result<std::string> WorkerStatus::explain_json(TenantId tenant, InvocationId id) const {
  const Instant now = uses_.loop.clock().now();
  if (const auto record = uses_.pipelines.explain(id); record && record->name.tenant == tenant) {
    return json{{"state", "pending"},
                {"phase", record->state},
                {"waited_seconds", to_seconds(record->took - record->run)},
                {"wait_reason", slice_scheduling::name_of(record->waits_now)},
                {"token_holders", json::array()}}
        .dump();
  }
  if (const FollowUps::Waiting* waiting = uses_.follow_ups.find(tenant, id)) {
    const Duration left = waiting->due_at - uses_.loop.clock().wall_now();
    return json_text(json{{"state", "pending"},
                          {"phase", "waiting"},
                          {"run", waiting->runs + 1},
                          {"most_runs", uses_.follow_ups.most_runs(waiting->function)},
                          {"due_in_seconds", to_seconds(std::max(left, Duration(0)))},
                          {"last_failure", waiting->last_failure}});
  }
  const LiveInvocation* live = uses_.live.find(id);
  const auto waits = uses_.mounts.waited(id);
  if (live != nullptr && live->request.function.tenant == tenant && waits) {
    return json_text(json{{"state", "pending"},
                          {"phase", "queued"},
                          {"waited_seconds", to_seconds(*waits)},
                          {"wait_reason", kFilesComing},
                          {"token_holders", json::array()}});
  }
  const auto explained = uses_.dispatcher.explain(id, now);
  if (live == nullptr || live->request.function.tenant != tenant || !explained) {
    return Error{ErrorCode::kNotFound, "no such invocation waits or runs"};
  }
  json holders = json::array();
  const FunctionSpec* own = uses_.functions.find(explained->function);
  const bool wants_gpu =
      own != nullptr && uses_.dispatcher.flows()[own->id.value].device_memory > Bytes(0);
  const bool waits_for_gpu = wants_gpu && explained->state == dispatch::InvocationState::kQueued;
  for (const dispatch::TokenHolder& holder : uses_.dispatcher.token_holders(now)) {
    if (!waits_for_gpu) break;
    const FunctionSpec* spec = uses_.functions.find(holder.function);
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
  return json_text(json{{"state", "pending"},
                        {"phase", name_of(explained->state)},
                        {"waited_seconds", to_seconds(explained->waited)},
                        {"wait_reason", scheduling::name_of(explained->reason)},
                        {"token_holders", holders}});
}

std::string WorkerStatus::devices_json() const {
  const scheduling::Fleet& fleet = uses_.dispatcher.fleet();
  const Duration now = uses_.loop.clock().wall_now();
  json devices = json::array();
  for (const protocol::DeviceInventory& device : uses_.health.devices()) {
    const DeviceId id = device_id_of(device);
    const DeviceStatus& status = uses_.care.status(id);
    const auto index = fleet.device_index(id);
    const bool has_report = status.since != Duration(0);
    const auto& errors = status.reading.uncorrected_errors;
    json row = {{"gpu", place_name(id)},
                {"uuid", device.uuid},
                {"name", device.name},
                {"state", name_of(status.state)},
                {"reason", text_or_null(status.reason)},
                {"since_seconds", has_report ? json(to_seconds(status.since)) : json()},
                {"for_seconds", has_report ? json(to_seconds(now - status.since)) : json()},
                {"notice", text_or_null(status.notice)},
                {"xids", xids_json(status)},
                {"uncorrected_errors", errors ? json(*errors) : json()},
                {"memory_total_bytes", device.memory_total.count},
                {"memory_used_bytes", status.reading.memory_used.count},
                {"serves", index ? "functions" : "pipelines"},
                {"utilization", nullptr}};
    if (status.reading.knows_utilisation) {
      row["utilization"] = status.reading.busy_percent / 100.0;
    }
    if (index) add_concurrency(fleet.devices()[*index], row);
    devices.push_back(std::move(row));
  }
  return json_text(json{{"devices", devices}});
}

std::vector<bool> WorkerStatus::gpus_lost() const {
  std::vector<bool> lost;
  for (const scheduling::Device& device : uses_.dispatcher.fleet().devices()) {
    const DeviceState state = uses_.care.status(device.options.id).state;
    lost.push_back(state == DeviceState::kLost || state == DeviceState::kDrained);
  }
  return lost;
}

std::string WorkerStatus::slices_json(TenantId tenant) const {
  return uses_.pipelines.status().slices_json(tenant);
}

std::vector<FunctionName> WorkerStatus::served_pipelines() const {
  return uses_.pipelines.status().served();
}

std::vector<FunctionName> WorkerStatus::pipelines_served_later() const {
  return uses_.pipelines.status().served_later();
}

bool WorkerStatus::serves_pipeline(FunctionId function) const {
  return uses_.pipelines.status().serves(function);
}

std::vector<const FunctionSpec*> WorkerStatus::steps_of(const FunctionSpec& workflow) const {
  return worker::steps_of(
      workflow, [this](FunctionId id) { return uses_.workflows.graph(id); },
      [this](const FunctionName& name) { return uses_.functions.find(function_of(name)); });
}

void WorkerStatus::update_gauges() const {
  set_flows();
  set_devices();
  set_executors();
  set_slices();
  set_objects();
  uses_.metrics.set_waiting_for_retry(uses_.follow_ups.waiting());
  std::map<std::string, uint64_t> by_state = {
      {"starting", 0}, {"idle", 0}, {"busy", 0}, {"stopping", 0}};
  Bytes host_memory;
  for (const SandboxStatus& sandbox : uses_.backends.status(Metering::kMemory)) {
    ++by_state[sandbox.state];
    host_memory += sandbox.host_memory;
  }
  uses_.metrics.set_sandboxes(by_state);
  uses_.metrics.set_host_memory(host_memory);
  uses_.metrics.set_schedules(uses_.schedules.gauges());
}

void WorkerStatus::set_flows() const {
  const Instant now = uses_.loop.clock().now();
  const auto set = [&](const FunctionName& name, FunctionId id) {
    const scheduling::Flow* flow = flow_of(uses_.dispatcher, id);
    if (flow == nullptr) return;
    uses_.metrics.set_flow(
        name, {.pending = flow->pending,
               .running = flow->in_flight + flow->on_host + uses_.dispatcher.joined(id),
               .virtual_time = uses_.dispatcher.status(id, now).virtual_time});
  };
  // Those that something waits or runs of, and those of which something is shown already.
  for (const FunctionId id : uses_.live.functions()) {
    if (const FunctionSpec* spec = uses_.functions.find(id)) set(spec->name, id);
  }
  for (const FunctionName& name : uses_.metrics.functions()) {
    if (const FunctionSpec* spec = uses_.functions.find(name)) set(name, spec->id);
  }
  uses_.metrics.set_queued(uses_.dispatcher.queued());
}

void WorkerStatus::set_devices() const {
  const std::vector<ExecutorKey> executors = uses_.executors.ready_executors();
  for (const scheduling::Device& device : uses_.dispatcher.fleet().devices()) {
    metrics::WorkerMetrics::DeviceGauges gauges;
    gauges.executors = static_cast<uint64_t>(
        std::ranges::count(executors, device.options.id, &ExecutorKey::device));
    gauges.memory_total = device.options.memory;
    gauges.memory_committed = device.committed;
    gauges.memory_resident = device.resident;
    gauges.memory_taken = device.taken;
    // As it was read, whatever dispatch goes by.
    gauges.utilisation = uses_.care.status(device.options.id).reading.busy_percent / 100.0;
    gauges.tokens = device.tokens();
    gauges.tokens_held = device.tokens_held;
    if (device.reserved && device.has_token_left()) {
      gauges.tokens_reserved = device.tokens() - device.tokens_held;
    }
    gauges.healthy = device.healthy;
    gauges.memory_used = uses_.care.status(device.options.id).reading.memory_used;
    uses_.metrics.set_device(device.options.id, gauges);
  }
  for (const protocol::DeviceInventory& device : uses_.health.devices()) {
    const DeviceId id = device_id_of(device);
    uses_.metrics.set_xids(id, uses_.care.status(id).xids);
  }
  uses_.metrics.set_memory_on_host(uses_.dispatcher.fleet().memory().on_host());
}

void WorkerStatus::set_executors() const {
  const ExecutorEnds& ends = uses_.executors.executor_ends();
  uses_.metrics.set_executor_ends("unused", ends.unused);
  uses_.metrics.set_executor_ends("fault", ends.fault);
  uses_.metrics.set_executor_ends("hang", ends.hang);
  uses_.metrics.set_executor_ends("died", ends.died);
  uses_.metrics.set_executor_ends("unstarted", ends.unstarted);
}

void WorkerStatus::set_slices() const {
  for (const SliceStatus& slice : uses_.pipelines.status().slices()) {
    uses_.metrics.set_slice(slice.slice.id, slice.slice.shape.name, slice.busy,
                            !slice.holders.empty());
  }
  for (const auto& [gpu, busy] : uses_.pipelines.status().gpu_time())
    uses_.metrics.set_gpu_time(gpu, busy);
}

void WorkerStatus::set_objects() const {
  metrics::WorkerMetrics::ObjectMoves moves{
      .on_devices = uses_.executors.objects().on_devices(),
      .ways = {{{"reader"}, {"neighbour"}, {"host"}}},
      .reads = {{{"device"}, {"neighbour"}, {"host"}}},
      .kept = {{{"kept"}, {"read"}, {"evicted"}, {"avoided"}, {"lost"}}}};
  const auto count = [](auto& ways, const auto& counted) {
    for (size_t i = 0; i < ways.size(); ++i) {
      ways[i].objects = counted[i].objects;
      ways[i].bytes = counted[i].bytes;
    }
  };
  count(moves.ways, uses_.executors.objects().moves());
  count(moves.reads, uses_.executors.objects().reads());
  count(moves.kept, uses_.executors.objects().kept());
  uses_.metrics.set_object_moves(moves);
}

}  // namespace lambent::worker
