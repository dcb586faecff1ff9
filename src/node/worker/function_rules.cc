#include "node/worker/function_rules.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "core/domain/function_limits.h"
#include "core/domain/gpu_fit.h"
#include "core/domain/kernel_graph_service.h"
#include "core/domain/sandbox_concurrency.h"
#include "decide/scheduling/overload_watch.h"

namespace lambent::worker {
namespace {

// Whole seconds are what timeouts mostly are.
std::string seconds_in_words(Duration duration) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g s", to_seconds(duration));
  return text;
}

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

Result<void> check_pipeline(const FunctionSpec& spec) {
  if (spec.gpu.runtime == GpuRuntime::kShared || spec.gpu.share != 100) {
    return invalid(
        "the stages of a pipeline have slices of their own: no shared GPU runtime and no share");
  }
  const bool limited =
      spec.max_concurrency != limits::kDefaultConcurrency && spec.max_concurrency != 1;
  if (limited || spec.weight != 1) {
    return invalid(
        "a pipeline has neither max_concurrency nor weight: its SLO says how much of it there is "
        "to be");
  }
  if (spec.runtime != Runtime::kPython) return invalid("a pipeline is a Python function");
  return {};
}

Result<void> check_network(const FunctionSpec& spec, const FunctionRules& rules) {
  if (spec.network.is_none()) return {};
  RETURN_IF_ERROR(check_within(spec.network, rules.network));
  if (rules.network_reason.empty()) return {};
  return Error{ErrorCode::kFailedPrecondition,
               "network: this machine can give functions none: " + rules.network_reason};
}

// What an error says of the rest of the cluster.
std::string nor_elsewhere(const OtherNodes& others) {
  return others.gpus.empty() ? "" : ", and no other node of the cluster has what it takes";
}

// What takes several GPUs together.
Result<void> check_gang(const FunctionSpec& spec, const FunctionRules& rules,
                        const OtherNodes& others) {
  if (spec.gpu.count <= 1) return {};
  const std::string count = "gpu.count is " + std::to_string(spec.gpu.count) + ", but ";
  if (!rules.no_gangs.empty()) return Error{ErrorCode::kFailedPrecondition, count + rules.no_gangs};
  const Bytes needed = spec.gpu.memory + rules.context_memory;
  const auto large =
      std::ranges::count_if(rules.devices, [&](const Bytes& memory) { return needed <= memory; });
  if (large >= static_cast<int64_t>(spec.gpu.count)) return {};
  return invalid(count + "this worker has " + std::to_string(large) + " GPU" +
                 (large == 1 ? "" : "s") + " with " + to_string(spec.gpu.memory) +
                 " for a function" + nor_elsewhere(others) +
                 "; take fewer, or less gpu.memory of each");
}

// That this worker's GPUs are as many and as large as the function asks for.
Result<void> check_gpus(const FunctionSpec& spec, const FunctionRules& rules,
                        const OtherNodes& others) {
  // Where no GPU is large enough, the host serves a function that has a CPU variant.
  const bool host_serves = spec.cpu_variant && rules.host_overflow;
  if (takes_turns_on_a_gpu(spec) && !host_serves && rules.device_memory == Bytes(0)) {
    return Error{ErrorCode::kFailedPrecondition,
                 (!rules.has_slices
                      ? "the function asks for a GPU, but this worker has none; start it with --gpu"
                      : "the function asks for a GPU, but this worker keeps all of its own for "
                        "pipelines; give it fewer with --pipeline-slices") +
                     nor_elsewhere(others)};
  }
  const Bytes most = most_device_memory(spec.kind, rules);
  if (!host_serves && spec.gpu.memory > most) {
    return invalid("the function asks for " + to_string(spec.gpu.memory) +
                   " of device memory; the largest GPU here has " + to_string(most) +
                   " for a function" + nor_elsewhere(others));
  }
  return check_gang(spec, rules, others);
}

}  // namespace

ClusterGpus::ClusterGpus(const FunctionRules& rules, const std::vector<Slice>& slices)
    : own_(rules.devices) {
  for (Bytes& memory : own_) memory -= rules.context_memory;
  for (const Slice& slice : slices) own_slices_.push_back(slice.shape);
}

bool OtherNodes::could_run(Bytes memory, unsigned count) const {
  return judged || std::ranges::any_of(gpus, [&](const std::vector<Bytes>& node) {
           return have_room(node, memory, count);
         });
}

Bytes OtherNodes::most() const {
  if (judged) return Bytes(UINT64_MAX);
  Bytes most(0);
  for (const std::vector<Bytes>& node : gpus) {
    for (const Bytes gpu : node) most = std::max(most, gpu);
  }
  return most;
}

bool takes_turns_on_a_gpu(const FunctionSpec& spec) {
  if (spec.kind == FunctionKind::kPipeline || spec.kind == FunctionKind::kWorkflow) return false;
  return spec.gpu.memory > Bytes(0) || spec.kind == FunctionKind::kKernel;
}

Bytes most_device_memory(FunctionKind kind, const FunctionRules& rules) {
  const Bytes most = rules.device_memory - rules.context_memory;
  return kind == FunctionKind::kKernel ? most - rules.call_workspace : most;
}

bool could_run_here(const FunctionSpec& spec, const FunctionRules& rules) {
  return !takes_turns_on_a_gpu(spec) || check_gpus(spec, rules, {}).ok();
}

FunctionSpec as_function(FunctionSpec spec) {
  if (is_kept_graph(spec.name)) spec.name.name = "graph";
  spec.name = function_of(spec.name);
  return spec;
}

Result<void> check_function(const FunctionSpec& spec, const FunctionRules& rules,
                            const OtherNodes& others) {
  RETURN_IF_ERROR(validate(spec));
  if (spec.kind == FunctionKind::kWorkflow && spec.gpu.memory > Bytes(0)) {
    return invalid("a workflow uses no GPU itself; gpu.memory is for the functions that it calls");
  }
  if (spec.gpu.runtime == GpuRuntime::kShared && !rules.shared_runtimes) {
    return Error{ErrorCode::kUnimplemented,
                 "this installation has no driver for shared GPU runtimes (lib/forward)"};
  }
  RETURN_IF_ERROR(check_network(spec, rules));
  if (spec.kind == FunctionKind::kPipeline) return check_pipeline(spec);
  const bool wants_gpu = takes_turns_on_a_gpu(spec);
  const auto here = check_gpus(spec, rules, others);
  const bool runs_elsewhere = wants_gpu && others.could_run(spec.gpu.memory, spec.gpu.count);
  if (!here.ok() && !runs_elsewhere) return here.error();
  if (wants_gpu && spec.timeout > rules.longest_gpu_run) {
    return invalid("the timeout is " + seconds_in_words(spec.timeout) +
                   ", but a function that uses a GPU may run for " +
                   seconds_in_words(rules.longest_gpu_run) +
                   " at most here (lambent serve --longest-gpu-run)");
  }
  return {};
}

dispatch::FunctionProfile profile_of(const FunctionSpec& spec, uint64_t sandbox_revision,
                                     Bytes context_memory,
                                     const catalog::FunctionStatistics* learnt,
                                     FunctionId account) {
  dispatch::FunctionProfile profile;
  profile.account = account;
  profile.id = spec.id;
  profile.tenant = spec.name.tenant;
  profile.revision = sandbox_revision;
  profile.weight = spec.weight;
  profile.max_concurrency = spec.max_concurrency;
  if (sandbox_concurrency(spec) > 1) profile.sandbox_concurrency = sandbox_concurrency(spec);
  profile.device_memory = spec.gpu.memory;
  profile.gpu_count = spec.gpu.count;
  // Kernel functions and handlers that share a runtime have the context of their executor.
  const bool has_process = spec.kind == FunctionKind::kHandler ||
                           spec.kind == FunctionKind::kPipeline || spec.kind == FunctionKind::kHttp;
  const bool has_context = has_process && spec.gpu.runtime == GpuRuntime::kOwn;
  if (spec.gpu.memory > Bytes(0) && has_context) profile.device_memory += context_memory;
  // What runs in an executor counts for the executor.
  if (has_process) profile.host_memory = spec.memory;
  profile.timeout = spec.timeout;
  if (spec.max_queue_time_s >= 0) {
    profile.max_queue_time =
        spec.max_queue_time_s > 0 ? from_seconds(spec.max_queue_time_s) : scheduling::kNoQueueTime;
  }
  profile.min_instances = spec.min_instances;
  // The shortest that is one ends it once nothing waits for it.
  if (spec.keep_alive_s >= 0) {
    profile.keep_alive = std::max(from_seconds(spec.keep_alive_s), Duration(1));
  }
  const bool is_client =
      spec.kind == FunctionKind::kHandler && spec.gpu.runtime == GpuRuntime::kShared;
  // The worker does not know which memory of a client could move.
  profile.memory_moves = spec.gpu.memory_mode != MemoryMode::kOff && !is_client;
  profile.checkpoints = spec.gpu.checkpoint;
  profile.has_cpu_variant = spec.cpu_variant.has_value();
  if (spec.cpu_variant) profile.gpu_speedup = spec.cpu_variant->gpu_speedup;
  if (learnt == nullptr) return profile;
  profile.mean_execution = learnt->mean_execution;
  profile.mean_interarrival = learnt->mean_interarrival;
  profile.mean_cold_start = learnt->mean_cold_start;
  profile.cold_starts = learnt->cold_starts;
  profile.completed = learnt->executions;
  profile.mean_host_execution = learnt->mean_host_execution;
  profile.mean_host_cold_start = learnt->mean_host_cold_start;
  profile.host_cold_starts = learnt->host_cold_starts;
  profile.completed_on_host = learnt->host_executions;
  return profile;
}

}  // namespace lambent::worker
