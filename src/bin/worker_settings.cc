#include "bin/worker_settings.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "bin/host_memory.h"
#include "bin/node_cluster.h"
#include "bin/open_files.h"
#include "core/domain/model_function.h"
#include "decide/slice_scheduling/make_policy.h"
#include "node/worker/cpu_list.h"

namespace lambent {
namespace {

constexpr std::string_view kSlicePolicy = "slo";
// Connections that may wait for an answer in a queue, where the open files allow it: idle ones cost
// little, and half are left for others.
constexpr size_t kQueuedSynchronous = 8'192;
// Clients give up after a minute as a rule, and what waits when load ends is to be gone soon.
constexpr Duration kQueueWait = seconds(10);

// Unless it is told: at most half a GiB, and less on a small device.
Bytes context_memory(const WorkerConfig& config, Bytes device_memory) {
  if (config.context_memory) return std::min(*config.context_memory, device_memory);
  return std::min(Bytes::mib(512), Bytes(device_memory.count / 48));
}

// The index of a real device changes with the devices that a process sees; its UUID does not.
std::string visible_name(const WorkerConfig& config, const protocol::DeviceInventory& device) {
  const bool is_real = config.gpu == GpuKind::kNvidia;
  return is_real && !device.uuid.empty() ? device.uuid : worker::visible_name(device);
}

// What goes from stage to stage lies in memory, where there is a place for that; a folder only of
// this run, whose lock keeps others out of it.
std::string channel_folder(const WorkerConfig& config) {
  const std::string run = std::filesystem::absolute(config.run_folder);
  std::error_code error;
  if (!std::filesystem::is_directory("/dev/shm", error)) return run + "/channels";
  return "/dev/shm/lambent-" + std::to_string(getuid()) + "-" +
         std::to_string(std::hash<std::string>()(run));
}

// Unless it is said, three quarters of what memory that moves off GPUs leaves.
Bytes sandbox_memory_of(const WorkerConfig& config) {
  if (config.sandbox_memory) return *config.sandbox_memory;
  const Bytes all = available_host_memory();
  // On an emulated GPU the amount may be a scaled one.
  const Bytes moved = config.gpu == GpuKind::kNone
                          ? Bytes(0)
                          : std::min(config.host_memory.value_or(Bytes(0)), Bytes(all.count / 2));
  return Bytes((all - moved).count / 4 * 3);
}

}  // namespace

Bytes usual_host_memory(const WorkerConfig& config) {
  const Bytes half(available_host_memory().count / 2);
  if (config.gpu != GpuKind::kEmulated || config.memory_scale <= 1) return half;
  return Bytes(static_cast<uint64_t>(static_cast<double>(half.count) * config.memory_scale));
}

monitor::DeviceMonitorOptions monitor_options(const WorkerConfig& config,
                                              const worker::GpuDriver& driver,
                                              const Installation& installation) {
  monitor::DeviceMonitorOptions options;
  options.program = installation.program("lambent-device");
  options.nvml = driver.folder + "/libnvidia-ml.so.1";
  options.driver_folder = driver.folder;
  options.host_memory = *config.host_memory;
  // Of memory at a scale little is ever written: its leases cost what is.
  options.sparse_leases = config.gpu == GpuKind::kEmulated && config.memory_scale > 1;
  if (!driver.emulated_node.empty()) {
    options.environment = {"EMULATED_CUDA_NODE=" + driver.emulated_node};
  }
  return options;
}

Result<void> describe_devices(const WorkerConfig& config,
                              const std::vector<protocol::DeviceInventory>& devices,
                              worker::GpuDriver& driver, LogSink& log) {
  for (const auto& device : devices) {
    driver.visible[worker::device_id_of(device)] = visible_name(config, device);
    if (!config.near_gpu) continue;
    const auto near = worker::parse_cpu_list(device.near_cpus);
    if (near.ok() && !near->empty()) {
      driver.near[worker::device_id_of(device)] = *near;
    } else if (!near.ok()) {
      log.warning("gpu_processors_unknown", {{"gpu", place_name(worker::device_id_of(device))},
                                             {"error", to_string(near.error())}});
    }
  }
  if (config.gpu != GpuKind::kNvidia) return {};
  ASSIGN_OR_RETURN(driver.nodes, worker::find_device_nodes("", devices));
  return {};
}

void leave_integrated_memory(const std::vector<protocol::DeviceInventory>& devices,
                             WorkerConfig& config, LogSink& log) {
  for (const auto& device : devices) {
    if (!device.integrated) continue;
    log.info("gpu_memory_stays", {{"gpu", place_name(worker::device_id_of(device))},
                                  {"name", device.name},
                                  {"why", "it is integrated: its memory is the host's own"}});
  }
  const bool all_stays = !devices.empty() && std::ranges::all_of(devices, [](const auto& device) {
    return device.integrated;
  });
  if (all_stays) config.host_memory = Bytes(0);
}

Result<SchedulerSettings> scheduler_settings(const WorkerConfig& config,
                                             const std::vector<protocol::DeviceInventory>& devices,
                                             LogSink& log) {
  SchedulerSettings settings = default_settings();
  dispatch::DispatchOptions& options = settings.dispatch;
  if (*config.host_memory > Bytes(0)) {
    options.fleet.memory_rule = scheduling::MemoryRule::kMoveIdle;
    options.fleet.host_memory = *config.host_memory;
  }
  for (const auto& device : devices) {
    scheduling::DeviceOptions each;
    each.id = DeviceId(device.index + 1);
    each.memory = device.memory_total;
    each.tokens = config.concurrency;
    each.contexts = config.most_sandboxes;
    each.memory_moves = !device.integrated;
    if (device.knows_utilisation) {
      each.by_utilisation = config.by_utilisation;
    } else if (config.by_utilisation) {
      log.warning("gpu_concurrency_fixed",
                  {{"gpu", place_name(each.id)},
                   {"concurrency", static_cast<int64_t>(each.tokens)},
                   {"what",
                    "NVML does not tell the utilisation of this device (it tells none of MIG "
                    "instances), so --concurrency auto cannot set D by it"}});
    }
    options.fleet.devices.push_back(each);
  }
  options.fleet.most_sandboxes = config.most_sandboxes;
  options.host_sandboxes = config.most_sandboxes;
  options.keep_alive = config.keep_alive;
  // Clients that wait leave half of the connections to others.
  options.queued_synchronous =
      std::min(kQueuedSynchronous, share_of(open_files_limit()).connections / 2);
  options.queue_wait = kQueueWait;
  options.max_queue_time = *queue_time_from(config.max_queue_time);
  RETURN_IF_ERROR(apply_settings(config.settings, settings));
  if (config.gpu == GpuKind::kEmulated) scale_time(config.time_scale, config.policy, settings);
  return settings;
}

Result<std::unique_ptr<slice_scheduling::SliceDispatcher>> slice_dispatcher(
    const WorkerConfig& config, const pipeline::TransferCosts& costs) {
  slice_scheduling::SlicePolicyOptions options;
  options.costs = costs;
  const std::string_view name =
      config.slice_policy.empty() ? kSlicePolicy : std::string_view(config.slice_policy);
  ASSIGN_OR_RETURN(auto policy, slice_scheduling::make_slice_policy(name, options));
  return std::make_unique<slice_scheduling::SliceDispatcher>(
      std::move(policy), slice_scheduling::SliceDispatcherOptions{});
}

objects::ObjectStoreOptions object_options(const WorkerConfig& config) {
  objects::ObjectStoreOptions options;
  options.index.memory = config.object_memory;
  options.index.disk = config.object_disk;
  options.index.tenant_quota =
      config.object_quota.value_or(config.object_memory + config.object_disk);
  if (config.object_disk > Bytes(0)) options.folder = config.state_folder + "/objects";
  options.index.most_in_memory = share_of(open_files_limit()).objects;
  return options;
}

Result<std::vector<http::Endpoint>> peers_of(const WorkerConfig& config) {
  std::vector<http::Endpoint> peers;
  for (const std::string& text : config.peers) {
    ASSIGN_OR_RETURN(http::Endpoint peer, http::parse_endpoint(text));
    peers.push_back(std::move(peer));
  }
  return peers;
}

bool uses_tls(const WorkerConfig& config, const std::vector<http::Endpoint>& peers) {
  return !config.listen.tls.server.certificate.empty() ||
         std::any_of(peers.begin(), peers.end(),
                     [](const http::Endpoint& peer) { return peer.encrypted; });
}

worker::WorkerOptions worker_options(const WorkerConfig& config, const Installation& installation,
                                     const worker::GpuDriver& driver,
                                     const std::vector<protocol::DeviceInventory>& all_devices,
                                     const worker::DeviceShares& shares) {
  worker::WorkerOptions options;
  options.state_folder = config.state_folder;
  options.run_folder = config.run_folder + "/sandboxes";
  if (config.function_log_size > Bytes()) {
    options.logs = {.folder = config.state_folder + "/logs",
                    .per_function = config.function_log_size,
                    .age = config.function_log_age};
  }
  options.sandboxes.python_program = config.python;
  options.sandboxes.network = config.network;
  options.sandboxes.python_folder = installation.python();
  options.sandboxes.model_server = installation.program(std::string(kModelServer));
  options.sandboxes.shim_folder = installation.shim();
  if (std::filesystem::exists(installation.forwarded_driver() + "/libcuda.so.1")) {
    options.sandboxes.forward_folder = installation.forwarded_driver();
  }
  if (!driver.emulated_node.empty() &&
      std::filesystem::exists(installation.emulated_runtime() + "/libcudart.so.13")) {
    options.sandboxes.emulated_runtime_folder = installation.emulated_runtime();
  }
  options.sandboxes.gpu = driver;
  options.executors.program = installation.program("lambent-executor");
  options.executors.built_in = installation.kernels();
  options.executors.gpu = driver;
  options.executors.pool = config.executor_pool;
  options.executors.pool_hold = config.executor_pool_hold;
  options.executors.transfers_take_turns = config.executor_transfers_take_turns;
  options.executors.share_objects = config.executor_objects != ExecutorObjects::kHost;
  options.executors.elastic_objects = config.executor_objects == ExecutorObjects::kElastic;
  options.keeps_packages = !config.cluster_key.empty();
  options.devices = all_devices;
  options.gpu_serves_one_tenant = config.gpu == GpuKind::kEmulated;
  options.longest_gpu_run = config.longest_gpu_run;
  options.utilisation_average = config.utilisation_average;
  options.follow_ups.rules.retries = config.async_retries;
  options.follow_ups.rules.first_delay = config.async_retry_delay;
  for (const auto& device : shares.dispatched) {
    options.device_memory = std::max(options.device_memory, device.memory_total);
    if (!device.profile.empty()) {
      options.no_gangs =
          "GPUs of this worker are cut into slices (MIG), of which a program sees one; give this "
          "worker whole GPUs (lambent slices)";
    }
  }
  options.executors.device_memory = options.device_memory;
  options.context_memory = context_memory(config, options.device_memory);
  options.executors.context_memory = options.context_memory;
  options.sandbox_memory = sandbox_memory_of(config);
  options.sandboxes.memory_moves = *config.host_memory > Bytes(0);
  options.sandboxes.working_set = config.working_set;
  options.sandboxes.managed_memory = config.managed_memory;
  for (const auto& device : all_devices) {
    if (device.integrated) options.sandboxes.integrated.insert(worker::device_id_of(device));
  }
  if (!config.cluster_key.empty()) options.pipelines.node = node_name_of(config);
  options.pipelines.slices = shares.slices;
  options.pipelines.channel_folder = channel_folder(config);
  for (const Slice& slice : shares.slices) {
    options.pipelines.context_memory =
        std::max(options.pipelines.context_memory, context_memory(config, slice.shape.memory));
  }
  options.pipelines.shared.longest_run = config.longest_gpu_run;
  for (const auto& device : shares.dispatched) {
    if (device.memory_total < options.device_memory) continue;
    options.pipelines.shared.shape = {device.profile.empty() ? device.name : device.profile,
                                      device.multiprocessors, device.memory_total};
    options.pipelines.shared.context = options.context_memory;
  }
  return options;
}

namespace {

std::string text_of(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", number);
  return text;
}

std::string mib_of(Bytes amount) { return std::to_string(amount.count >> 20) + " MiB"; }

std::vector<frontend::WorkerFacts::Setting> settings_of(const WorkerConfig& config) {
  const std::string concurrency =
      config.by_utilisation ? "by utilisation, up to " + std::to_string(config.by_utilisation->most)
                            : std::to_string(config.concurrency);
  std::vector<frontend::WorkerFacts::Setting> settings = {
      {"--policy", config.policy, "which function's invocation goes next"},
      {"--concurrency", concurrency, "invocations at once on a GPU"},
      {"--pool", std::to_string(config.most_sandboxes), "sandboxes that may be there at once"},
      {"--max-queue-time", config.max_queue_time, "how long a synchronous invocation may wait"},
      {"--keep-alive", text_of(to_seconds(config.keep_alive)) + " s",
       "how long a sandbox stays without work"},
      {"--async-retries", std::to_string(config.async_retries),
       "how often an asynchronous invocation that failed is tried again, unless its function says"},
      {"--zygotes", std::to_string(config.zygotes), "processes that Python is forked from"},
      {"--host-memory", config.host_memory ? mib_of(*config.host_memory) : "",
       "for GPU memory that moves to the host"},
      {"--sandbox-memory", mib_of(sandbox_memory_of(config)),
       "host memory of sandboxes without a GPU, beyond which those at rest leave"},
      {"--object-memory", mib_of(config.object_memory), "host memory of objects"},
      {"--pipeline-slices", config.pipeline_slices, "devices that serve pipelines"},
      {"--journal", config.journal_folder.empty() ? "none" : config.journal_folder,
       "where events are recorded, for why and what-if"},
      {"--journal-size", mib_of(config.journal_size), "of it at most"},
      {"--auth", config.auth == frontend::AuthMode::kTokens ? "tokens" : "none",
       "who may use the API"}};
  if (!config.cluster_key.empty()) {
    settings.push_back({"--cluster-key", config.cluster_key, "the file of its cluster's key"});
    settings.push_back(
        {"--cluster-policy", config.cluster_policy, "which node runs an invocation"});
  }
  for (const std::string& each : config.settings) {
    settings.push_back({"--set", each, "of the scheduler"});
  }
  return settings;
}

}  // namespace

frontend::WorkerFacts facts_of(const WorkerConfig& config,
                               const std::vector<protocol::DeviceInventory>& devices) {
  const bool emulated = config.gpu == GpuKind::kEmulated;
  const Bytes memory = devices.empty() ? Bytes(0) : devices.front().memory_total;
  return {.policy = config.policy,
          .time_scale = emulated ? config.time_scale : 1,
          .devices = static_cast<unsigned>(devices.size()),
          .emulated = emulated,
          .gpu = devices.empty() ? "" : devices.front().name,
          .concurrency = config.by_utilisation ? config.by_utilisation->most : config.concurrency,
          .device_memory = memory,
          .context_memory = context_memory(config, memory),
          .object_socket = std::filesystem::absolute(config.run_folder) / "objects.sock",
          .settings = settings_of(config),
          .policies = {scheduling::policy_names().begin(), scheduling::policy_names().end()}};
}

}  // namespace lambent
