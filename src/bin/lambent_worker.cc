// lambent-worker: reads its flags, builds the objects, runs the loop until it is told to stop.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "bin/host_memory.h"
#include "bin/installation.h"
#include "bin/scheduler_settings.h"
#include "bin/worker_config.h"
#include "catalog/catalog.h"
#include "device/device_monitor.h"
#include "frontend/native_error.h"
#include "frontend/peer_objects.h"
#include "frontend/router.h"
#include "http/server.h"
#include "journal_store/segment_store.h"
#include "metrics/worker_metrics.h"
#include "objects/object_socket.h"
#include "objects/object_store.h"
#include "sandbox/launcher.h"
#include "slice_scheduling/make_policy.h"
#include "worker/cpu_list.h"
#include "worker/file_thread.h"
#include "worker/slice_choice.h"
#include "worker/worker.h"

extern char** environ;

namespace lambent {
namespace {

constexpr Duration kInventoryWait = seconds(15);
constexpr size_t kPeerThreads = 4;
constexpr std::string_view kSlicePolicy = "slo";

// Runs a program of ours and waits for it; for set-up, before the loop runs.
Result<void> run_program(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  if (const int error = posix_spawn(&pid, argv[0], nullptr, nullptr, argv.data(), environ)) {
    return error_from_errno("start " + arguments[0], error);
  }
  int status = 0;
  if (waitpid(pid, &status, 0) != pid || status != 0) {
    return Error{ErrorCode::kInternal, arguments[0] + " failed; its message is above"};
  }
  return {};
}

// The folders that the worker needs, and the lock that keeps a second worker out of them.
Result<OwnedFd> make_folders(const WorkerConfig& config) {
  for (const std::string& folder : {config.state_folder, config.run_folder}) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) {
      return Error{ErrorCode::kPermissionDenied, "create " + folder + ": " + error.message() +
                                                     "; choose others with --state and --run"};
    }
  }
  const std::string path = config.run_folder + "/worker.lock";
  OwnedFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return error_from_errno("open " + path, errno);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return Error{ErrorCode::kAlreadyExists, "another worker runs in " + config.run_folder};
  }
  return lock;
}

std::string find_nvidia_driver() {
  for (const char* folder :
       {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/nvidia/lib64"}) {
    if (std::filesystem::exists(std::string(folder) + "/libcuda.so.1")) return folder;
  }
  return "";
}

Result<worker::GpuDriver> find_driver(const WorkerConfig& config,
                                      const Installation& installation) {
  worker::GpuDriver driver;
  if (config.gpu == GpuKind::kNone) return driver;
  if (config.gpu == GpuKind::kEmulated) {
    driver.folder = installation.emulated_driver();
    driver.emulated_node = config.run_folder + "/gpu-node";
    std::error_code ignored;
    std::filesystem::remove(driver.emulated_node, ignored);
    RETURN_IF_ERROR(run_program({installation.program("emulated-gpu"), "create", "--node",
                                 driver.emulated_node, "--config", config.gpu_preset,
                                 "--time-scale", std::to_string(config.time_scale),
                                 "--memory-scale", std::to_string(config.memory_scale)}));
    return driver;
  }
  driver.folder =
      config.nvidia_driver_folder.empty() ? find_nvidia_driver() : config.nvidia_driver_folder;
  if (driver.folder.empty()) {
    return Error{ErrorCode::kNotFound,
                 "no libcuda.so.1 was found; name its folder with --nvidia-driver, or use --gpu "
                 "emulated"};
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("nvidia") && entry.is_character_file()) {
      driver.device_files.push_back(entry.path());
    }
  }
  return driver;
}

// For device memory that moves to the host. On an emulated GPU the amounts are scaled ones.
Bytes usual_host_memory(const WorkerConfig& config) {
  const Bytes half(available_host_memory().count / 2);
  if (config.gpu != GpuKind::kEmulated || config.memory_scale <= 1) return half;
  return Bytes(static_cast<uint64_t>(static_cast<double>(half.count) * config.memory_scale));
}

device::DeviceMonitorOptions monitor_options(const WorkerConfig& config,
                                             const worker::GpuDriver& driver,
                                             const Installation& installation) {
  device::DeviceMonitorOptions options;
  options.program = installation.program("lambent-device");
  options.nvml = driver.folder + "/libnvidia-ml.so.1";
  options.host_memory = *config.host_memory;
  // Of memory at a scale little is ever written: its leases cost what is.
  options.sparse_leases = config.gpu == GpuKind::kEmulated && config.memory_scale > 1;
  if (!driver.emulated_node.empty()) {
    options.environment = {"EMULATED_CUDA_NODE=" + driver.emulated_node};
  }
  return options;
}

// Every client and every sandbox is some descriptors, and the usual soft limit of 1,024 is for
// programs that call select(). Sandboxes get a limit of their own.
void allow_many_files(LogSink& log) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &files) != 0) {
    log.warning("file_limit", {{"error", to_string(error_from_errno("setrlimit", errno))}});
  }
}

// Readable requests to stop, once SIGTERM and SIGINT are blocked everywhere.
Result<OwnedFd> open_signals() {
  signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  OwnedFd fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return error_from_errno("signalfd", errno);
  return fd;
}

Result<SchedulerSettings> scheduler_settings(const WorkerConfig& config,
                                             const std::vector<protocol::DeviceInventory>& devices,
                                             LogSink& log) {
  SchedulerSettings settings;
  dispatch::DispatchOptions& options = settings.dispatch;
  settings.policy.fcfs_moves_off_after_run = false;
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
  RETURN_IF_ERROR(apply_settings(config.settings, settings));
  if (config.gpu == GpuKind::kEmulated) scale_time(config.time_scale, settings);
  return settings;
}

// Unless it is told: at most half a GiB, and less on a small device.
Bytes context_memory(const WorkerConfig& config, Bytes device_memory) {
  if (config.context_memory) return std::min(*config.context_memory, device_memory);
  return std::min(Bytes::mib(512), Bytes(device_memory.count / 48));
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

// What goes from stage to stage lies in memory, where there is a place for that; a folder of this
// run alone, whose lock keeps others out of it.
std::string channel_folder(const WorkerConfig& config) {
  const std::string run = std::filesystem::absolute(config.run_folder);
  std::error_code error;
  if (!std::filesystem::is_directory("/dev/shm", error)) return run + "/channels";
  return "/dev/shm/lambent-" + std::to_string(getuid()) + "-" +
         std::to_string(std::hash<std::string>()(run));
}

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
          .object_socket = std::filesystem::absolute(config.run_folder) / "objects.sock"};
}

objects::Disk disk_of(worker::FileThread& thread) {
  return [&thread](std::function<void()> work, std::function<void()> completion) {
    return thread.run(std::move(work), std::move(completion));
  };
}

Result<std::vector<http::Endpoint>> peers_of(const WorkerConfig& config) {
  std::vector<http::Endpoint> peers;
  for (const std::string& text : config.peers) {
    ASSIGN_OR_RETURN(http::Endpoint peer, http::parse_endpoint(text));
    peers.push_back(std::move(peer));
  }
  return peers;
}

// Threads that wait for peers, so that one that is slow holds up a part of the objects alone.
std::vector<objects::Disk> lanes_of(const std::vector<http::Endpoint>& peers, loop::EventLoop& loop,
                                    std::vector<std::unique_ptr<worker::FileThread>>& threads) {
  std::vector<objects::Disk> lanes;
  while (!peers.empty() && lanes.size() < kPeerThreads) {
    threads.push_back(std::make_unique<worker::FileThread>(loop));
    lanes.push_back(disk_of(*threads.back()));
  }
  return lanes;
}

objects::ObjectStoreOptions object_options(const WorkerConfig& config) {
  objects::ObjectStoreOptions options;
  options.index.memory = config.object_memory;
  options.index.disk = config.object_disk;
  options.index.tenant_quota =
      config.object_quota.value_or(config.object_memory + config.object_disk);
  if (config.object_disk > Bytes(0)) options.folder = config.state_folder + "/objects";
  // Each object in memory is an open file; clients and sandboxes need the others.
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
    options.index.most_in_memory = std::min<size_t>(limits::kObjects, files.rlim_cur / 2);
  }
  return options;
}

metrics::WorkerMetrics::ObjectGauges gauges_of(const objects::StoreStatistics& statistics) {
  return {.objects = statistics.objects,
          .expected = statistics.expected,
          .waiting = statistics.waiting,
          .memory = statistics.memory,
          .disk = statistics.disk,
          .stored = statistics.stored,
          .failed = statistics.failed,
          .expired = statistics.expired,
          .spilled = statistics.spilled,
          .read_back = statistics.read_back,
          .lost = statistics.lost,
          .refused = statistics.refused,
          .waits = statistics.waits,
          .timed_out = statistics.timed_out};
}

// Members go in the opposite order: the recorder closes its segment while there is a store.
struct WorkerJournal {
  std::unique_ptr<journal_store::SegmentStore> store;
  std::unique_ptr<journal::Recorder> recorder;  // null: there is no journal
};

Result<WorkerJournal> open_journal(const WorkerConfig& config, const SchedulerSettings& settings,
                                   Clock& clock, Random& random, LogSink& log) {
  WorkerJournal journal;
  if (config.journal_folder.empty()) return journal;
  ASSIGN_OR_RETURN(
      journal.store,
      journal_store::SegmentStore::open(
          {.folder = config.journal_folder, .most_size = config.journal_size}, clock, log));
  journal.recorder = std::make_unique<journal::Recorder>(
      journal::RunFacts{.version = LAMBENT_VERSION,
                        .policy = config.policy,
                        .policy_options = settings.policy,
                        .options = settings.dispatch,
                        .run = random.next()},
      *journal.store,
      journal::RecorderOptions{journal_store::segment_size_of(config.journal_size)});
  return journal;
}

Result<void> listen_all(const WorkerConfig& config, http::Server& server, LogSink& log) {
  ASSIGN_OR_RETURN(OwnedFd tcp, http::listen_tcp(config.address, config.port));
  const std::string endpoint =
      "http://" + config.address + ":" + std::to_string(http::port_of(tcp));
  RETURN_IF_ERROR(server.listen(std::move(tcp)));
  if (!config.socket_path.empty()) {
    ASSIGN_OR_RETURN(OwnedFd unix_socket, http::listen_unix(config.socket_path, 0660));
    RETURN_IF_ERROR(server.listen(std::move(unix_socket)));
  }
  // For whoever started us with port 0.
  RETURN_IF_ERROR(write_file_atomically(config.run_folder + "/endpoint", endpoint + "\n", false));
  log.info("listening", {{"endpoint", endpoint}, {"socket", config.socket_path}});
  return {};
}

Result<void> run(const WorkerConfig& config) {
  SpdlogSink log(config.log_format, config.log_level);
  allow_many_files(log);
  ASSIGN_OR_RETURN(const Installation installation, find_installation());
  ASSIGN_OR_RETURN(const OwnedFd lock, make_folders(config));
  ASSIGN_OR_RETURN(const OwnedFd signals, open_signals());
  SystemClock clock;
  SystemRandom random;
  loop::EventLoop loop(clock);

  ASSIGN_OR_RETURN(worker::GpuDriver driver, find_driver(config, installation));
  sandbox::LauncherOptions launcher_options;
  launcher_options.program = installation.program("lambent-launcher");
  launcher_options.pool = config.sandbox_pool;
  launcher_options.require_strong_limits = config.require_strong_limits;
  ASSIGN_OR_RETURN(auto launcher, sandbox::start_launcher(loop, log, launcher_options));
  for (const std::string& sentence : sandbox::weaker_limits(launcher->capabilities())) {
    log.warning("weaker_limit", {{"what", sentence}});
  }

  worker::Worker* worker = nullptr;
  std::vector<protocol::DeviceInventory> devices;
  std::vector<protocol::DeviceFault> early_faults;
  std::unique_ptr<device::DeviceMonitor> monitor;
  if (config.gpu != GpuKind::kNone) {
    device::DeviceMonitorCallbacks callbacks;
    callbacks.devices_found = [&](const auto& found) {
      // What dispatch was told at the start stays; a device that went shows in the readings.
      if (worker == nullptr) devices = found;
    };
    callbacks.devices_read = [&](const auto& readings) {
      if (worker != nullptr) worker->devices_read(readings);
    };
    callbacks.devices_faulted = [&](const auto& faults) {
      if (worker != nullptr) return worker->devices_faulted(faults);
      // Those of the start wait for the worker: they are told once.
      early_faults.insert(early_faults.end(), faults.begin(), faults.end());
    };
    callbacks.devices_silent = [&](const Error& error) {
      log.warning("devices_silent", {{"error", to_string(error)}});
      if (worker != nullptr) worker->devices_silent();
    };
    monitor = std::make_unique<device::DeviceMonitor>(
        loop, log, monitor_options(config, driver, installation), std::move(callbacks));
    monitor->start();
    const Instant deadline = clock.now() + kInventoryWait;
    while (devices.empty() && clock.now() < deadline) loop.run_once(milliseconds(50));
    if (devices.empty()) return Error{ErrorCode::kUnavailable, "NVML told of no GPU within 15 s"};
  }
  const std::vector<protocol::DeviceInventory> all_devices = devices;
  for (const auto& device : devices) {
    driver.visible[worker::device_id_of(device)] = worker::visible_name(device);
    if (!config.near_gpu) continue;
    const auto near = worker::parse_cpu_list(device.near_cpus);
    if (near.ok() && !near->empty()) {
      driver.near[worker::device_id_of(device)] = *near;
    } else if (!near.ok()) {
      log.warning("gpu_processors_unknown", {{"gpu", place_name(worker::device_id_of(device))},
                                             {"error", to_string(near.error())}});
    }
  }
  ASSIGN_OR_RETURN(const worker::DeviceShares shares,
                   worker::share_devices(devices, config.pipeline_slices));
  devices = shares.dispatched;

  ASSIGN_OR_RETURN(auto catalog, catalog::Catalog::open(
                                     config.state_folder + "/catalog.db", {},
                                     [&loop](auto task) { return loop.post(std::move(task)); }));
  ASSIGN_OR_RETURN(const SchedulerSettings settings, scheduler_settings(config, devices, log));
  ASSIGN_OR_RETURN(auto policy, scheduling::make_policy(config.policy, settings.policy));
  metrics::WorkerMetrics metrics(LAMBENT_VERSION);
  worker::FileThread object_disk(loop);
  objects::ObjectStore objects(loop, log, disk_of(object_disk), object_options(config));
  std::vector<std::unique_ptr<worker::FileThread>> peer_threads;
  ASSIGN_OR_RETURN(const auto peers, peers_of(config));
  const frontend::PeerObjects peer_objects(objects, peers, lanes_of(peers, loop, peer_threads));
  worker::FileThread object_copies(loop);
  frontend::ObjectsFrontend objects_frontend(objects, disk_of(object_copies), loop, random);
  const std::string object_socket = config.run_folder + "/objects.sock";
  ASSIGN_OR_RETURN(OwnedFd object_listener, listen_packets(object_socket, 0660));
  const objects::ObjectSocket local_objects(loop, log, objects, random, kDefaultTenant,
                                            std::move(object_listener));
  worker::WorkerOptions options;
  options.state_folder = config.state_folder;
  options.run_folder = config.run_folder + "/sandboxes";
  options.sandboxes.python_program = config.python;
  options.sandboxes.python_folder = installation.python();
  options.sandboxes.shim_folder = installation.shim();
  if (std::filesystem::exists(installation.forwarded_driver() + "/libcuda.so.1")) {
    options.sandboxes.forward_folder = installation.forwarded_driver();
  }
  options.sandboxes.gpu = driver;
  options.executors.program = installation.program("lambent-executor");
  options.executors.built_in = installation.kernels();
  options.executors.gpu = driver;
  options.devices = all_devices;
  options.longest_gpu_run = config.longest_gpu_run;
  for (const auto& device : devices) {
    options.device_memory = std::max(options.device_memory, device.memory_total);
  }
  options.executors.device_memory = options.device_memory;
  options.context_memory = context_memory(config, options.device_memory);
  options.sandboxes.memory_moves = *config.host_memory > Bytes(0);
  if (monitor != nullptr) {
    options.serve_link = [&](SandboxId sandbox, DeviceId device, Bytes most_leased,
                             OwnedFd listener) {
      monitor->serve_sandbox(sandbox, gpu_of(device), most_leased, std::move(listener));
    };
    options.forget_link = [&](SandboxId sandbox) { monitor->forget_sandbox(sandbox); };
  }
  options.pipelines.slices = shares.slices;
  options.pipelines.channel_folder = channel_folder(config);
  for (const Slice& slice : shares.slices) {
    options.pipelines.context_memory =
        std::max(options.pipelines.context_memory, context_memory(config, slice.shape.memory));
  }
  ASSIGN_OR_RETURN(auto slices, slice_dispatcher(config, options.pipelines.planner.costs));
  options.on_object = [&](TenantId tenant, http::Request request, std::string_view path,
                          http::Responder responder) {
    objects_frontend.handle({.tenant = tenant}, std::move(request), path, std::move(responder));
  };
  ASSIGN_OR_RETURN(const WorkerJournal journal, open_journal(config, settings, clock, random, log));
  worker::Worker the_worker(
      {loop, log, random, *launcher, *catalog, metrics, journal.recorder.get(), &objects}, options,
      std::make_unique<dispatch::Dispatcher>(settings.dispatch, std::move(policy)),
      std::move(slices));
  worker = &the_worker;
  RETURN_IF_ERROR(the_worker.recover());
  the_worker.devices_faulted(early_faults);

  frontend::Router router(
      the_worker, objects_frontend, loop, random,
      {.version = LAMBENT_VERSION,
       .metrics =
           [&] {
             the_worker.update_gauges();
             metrics.set_objects(gauges_of(objects.statistics()));
             return metrics.text();
           },
       .ready = [&] { return !the_worker.draining(); },
       .about = facts_of(config, devices),
       .workflow_trace = [&](TenantId tenant,
                             InvocationId run) { return the_worker.workflow_trace(tenant, run); },
       .explain = [&](TenantId tenant,
                      InvocationId id) { return the_worker.explain_json(tenant, id); },
       .devices = [&] { return the_worker.devices_json(); },
       .drain_devices = [&](const std::string& gpu, const std::string& reason,
                            auto done) { the_worker.drain_devices(gpu, reason, std::move(done)); },
       .undrain_devices = [&](const std::string& gpu,
                              auto done) { the_worker.undrain_devices(gpu, std::move(done)); },
       .slices = [&](TenantId tenant) { return the_worker.slices_json(tenant); },
       .pipeline = [&](const FunctionName& name) { return the_worker.describe_pipeline(name); },
       .measure =
           [&](const FunctionName& name, std::string event, unsigned repeat, auto done) {
             the_worker.measure_pipeline(name, std::move(event), repeat, std::move(done));
           }});
  http::ServerOptions server_options;
  server_options.error_response = frontend::server_error;
  http::Server server(loop, server_options, router.handler());
  RETURN_IF_ERROR(listen_all(config, server, log));

  bool stopping = false;
  const auto watch = loop.watch(signals.get(), true, false, [&](loop::Readiness) {
    signalfd_siginfo info{};
    if (read(signals.get(), &info, sizeof(info)) != sizeof(info)) return;
    if (std::exchange(stopping, true)) return loop.stop();  // asked twice: at once
    log.info("stopping", {{"signal", static_cast<int64_t>(info.ssi_signo)}});
    loop.call_after(config.drain_time, [&] { loop.stop(); });
    // The last answers leave before the loop does.
    the_worker.drain([&] {
      server.drain();
      loop.call_after(milliseconds(50), [&] { loop.stop(); });
    });
  });
  loop.run();
  log.info("stopped");
  return {};
}

}  // namespace
}  // namespace lambent

int main(int argc, char** argv) {
  lambent::WorkerConfig config;
  if (const auto exit_code = lambent::parse_worker_config(argc, argv, config)) return *exit_code;
  if (!config.host_memory) config.host_memory = lambent::usual_host_memory(config);
  const auto result = lambent::run(config);
  if (result.ok()) return 0;
  std::cerr << "lambent serve: " << lambent::to_string(result.error()) << "\n";
  return lambent::exit_code_of(result.error().code);
}
