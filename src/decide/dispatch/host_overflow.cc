#include "decide/dispatch/host_overflow.h"

#include <algorithm>
#include <utility>

namespace lambent::dispatch {

using scheduling::Flow;
using scheduling::HostReason;
using scheduling::HybridRule;

HostOverflow::HostOverflow(const DispatchOptions& options, scheduling::Flows& flows,
                           scheduling::Tenants& tenants, Queues& queues, PoolScheduler& gpus,
                           const scheduling::Fleet& host)
    : options_(options),
      flows_(flows),
      tenants_(tenants),
      queues_(queues),
      gpus_(gpus),
      host_(host) {
  unhealthy_since_.resize(gpus_.fleet().devices().size());
}

bool HostOverflow::may_wait(const Flow& flow) const {
  if (processor_of(flow) == Processor::kHost) return true;
  if (gpus_.fleet().device_table().could_ever_fit(flow.device_memory, flow.gpu_count)) return true;
  return may_go_to_host(flow);
}

unsigned HostOverflow::concurrency_of(const Flow& flow, bool outside_top_share) const {
  const bool host_only =
      may_go_to_host(flow) && (outside_top_share || !gpus_.fleet().device_table().could_ever_fit(
                                                        flow.device_memory, flow.gpu_count));
  return host_only ? 0 : flow.declared_concurrency;
}

void HostOverflow::add_function(const Flow& flow) {
  if (processor_of(flow) == Processor::kHost) ++functions_without_gpu_;
  ranks_stale_ = ranks();
}

void HostOverflow::remove_function(const Flow& flow) {
  if (processor_of(flow) == Processor::kHost) --functions_without_gpu_;
  ranks_stale_ = ranks();
}

void HostOverflow::rank_again(Instant now) {
  ranks_stale_ = false;
  const std::vector<bool> outside =
      scheduling::outside_top_share(flows_, options_.hybrid.gpu_share, now);
  for (uint32_t id = 0; id < flows_.size(); ++id) {
    Flow& flow = flows_[id];
    if (!flow.registered || !flow.has_cpu_variant) continue;
    const unsigned concurrency = concurrency_of(flow, outside[id]);
    if (concurrency == flow.max_concurrency) continue;
    flow.max_concurrency = concurrency;
    gpus_.flow_changed(FunctionId{id});
  }
}

std::optional<scheduling::HostChoice> HostOverflow::choose(bool may_go, Instant now) {
  ask_again_ = kNever;
  if (!may_go || queues_.waiting_variants().empty()) return std::nullopt;
  const scheduling::View gpu = gpus_.view();
  const std::vector<scheduling::GpuRun> runs = runs_on_gpus();
  const scheduling::HybridView view{.gpu = gpu,
                                    .host = host_,
                                    .waiting = queues_.waiting(),
                                    .waiting_variants = queues_.waiting_variants(),
                                    .runs = runs,
                                    .reserved = reserved(),
                                    .away_since = unhealthy_since_};
  const auto advice = scheduling::choose_for_host(options_.hybrid, view, now);
  ask_again_ = advice.ask_again;
  return advice.choice;
}

// What variants leave to functions that have no other place: a quarter, and of two or three one.
unsigned HostOverflow::reserved() const {
  if (functions_without_gpu_ == 0 || options_.host_concurrency < 2) return 0;
  return std::max(1U, options_.host_concurrency / 4);
}

std::vector<scheduling::GpuRun> HostOverflow::runs_on_gpus() const {
  std::vector<scheduling::GpuRun> runs;
  gpu_runs_.for_each([&](InvocationSlot slot) {
    runs.push_back({queues_[slot].function, queues_[slot].expected_end});
  });
  return runs;
}

void HostOverflow::dispatched_to_gpu(InvocationSlot slot, bool warm, Instant now) {
  gpu_runs_.add(slot);
  expect_end(slot, warm, now);
}

void HostOverflow::expect_end(InvocationSlot slot, bool warm, Instant now) {
  PendingInvocation& invocation = queues_[slot];
  const Flow& flow = flows_[invocation.function.value];
  const Duration setup = warm ? Duration(0) : flow.cold_start.mean_or(seconds(1));
  invocation.expected_end = now + setup + scheduling::expected_gpu_time(flow).value_or(seconds(1));
}

void HostOverflow::hand_on(InvocationSlot from, InvocationSlot to) {
  if (queues_[from].expected_end == kNever) return;
  gpu_runs_.erase(from);
  gpu_runs_.add(to);
  queues_[to].expected_end = std::exchange(queues_[from].expected_end, kNever);
}

void HostOverflow::leave(InvocationSlot slot) {
  PendingInvocation& invocation = queues_[slot];
  Flow& flow = flows_[invocation.function.value];
  --(invocation.is_cpu_variant() ? flow.on_host : flow.in_flight);
  tenants_.run_ended(flow.tenant_slot);
  invocation.host_reason = HostReason::kNone;
  invocation.expected_with_gpu = {};
  invocation.expected_with_host = {};
  if (invocation.expected_end == kNever) return;
  gpu_runs_.erase(slot);
  invocation.expected_end = kNever;
}

void HostOverflow::learn_run(const PendingInvocation& invocation, Duration execution, Instant now) {
  Flow& flow = flows_[invocation.function.value];
  const bool uses_gpu = processor_of(flow) == Processor::kGpu;
  scheduling::RunningMean* mean = &flow.execution;
  if (uses_gpu && invocation.on_host) {
    mean = &flow.host_execution;
    flow.last_host_run = now;
  } else if (!uses_gpu && !invocation.on_host) {
    return;  // it had a GPU, and its function has none any more
  }
  mean->learn(execution);
  // Ranks follow what is learnt, less often the more is known.
  const bool is_news = (mean->samples() & (mean->samples() - 1)) == 0;
  if (is_news && flow.has_cpu_variant && ranks()) ranks_stale_ = true;
}

void HostOverflow::note_failure(const PendingInvocation& invocation, Instant now) {
  Flow& flow = flows_[invocation.function.value];
  if (!invocation.is_cpu_variant() || invocation.dispatched < flow.host_failed) return;
  flow.host_failed = now;
  ++flow.host_failures;
}

void HostOverflow::note_success(const PendingInvocation& invocation) {
  Flow& flow = flows_[invocation.function.value];
  if (!invocation.is_cpu_variant() || invocation.dispatched < flow.host_failed) return;
  flow.host_failures = 0;
}

void HostOverflow::archive(StateArchive& archive) {
  archive.field(ranks_stale_);
  archive.field(functions_without_gpu_);
  archive.list(unhealthy_since_);
  archive.expect(unhealthy_since_.size() == gpus_.fleet().devices().size());
}

void HostOverflow::find_again() {
  gpu_runs_.clear();
  const scheduling::Fleet& fleet = gpus_.fleet();
  for (const scheduling::SandboxSlot slot : fleet.all()) {
    const scheduling::Sandbox& sandbox = fleet.sandbox(slot);
    if (sandbox.has_invocation) gpu_runs_.add(sandbox.invocation);
  }
}

}  // namespace lambent::dispatch
