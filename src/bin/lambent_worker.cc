// lambent-worker: reads its flags, builds the objects, runs the loop until it is told to stop.
#include <sys/signalfd.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>

#include "bin/device_watch.h"
#include "bin/installation.h"
#include "bin/worker_config.h"
#include "bin/worker_settings.h"
#include "bin/worker_setup.h"
#include "core/http/server.h"
#include "core/metrics/worker_metrics.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/peer_objects.h"
#include "edge/frontend/router.h"
#include "gpu/monitor/served_devices.h"
#include "node/catalog/catalog.h"
#include "node/journal_store/segment_store.h"
#include "node/objects/object_socket.h"
#include "node/objects/object_store.h"
#include "node/sandbox/launcher.h"
#include "node/worker/emulated_node_server.h"
#include "node/worker/file_thread.h"
#include "node/worker/worker.h"

namespace lambent {
namespace {

constexpr size_t kPeerThreads = 4;

objects::Disk disk_of(worker::FileThread& thread) {
  return [&thread](std::function<void()> work, std::function<void()> completion) {
    return thread.run(std::move(work), std::move(completion));
  };
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

Result<std::unique_ptr<sandbox::Launcher>> start_launcher(const WorkerConfig& config,
                                                          const Installation& installation,
                                                          loop::EventLoop& loop, LogSink& log) {
  sandbox::LauncherOptions options;
  options.program = installation.program("lambent-launcher");
  options.pool = config.sandbox_pool;
  options.require_strong_limits = config.require_strong_limits;
  ASSIGN_OR_RETURN(auto launcher, sandbox::start_launcher(loop, log, options));
  for (const std::string& sentence : sandbox::weaker_limits(launcher->capabilities())) {
    log.warning("weaker_limit", {{"what", sentence}});
  }
  return launcher;
}

// A lock that says to `lambent slices` that a worker has the devices; none without GPUs.
Result<OwnedFd> mark_devices(const WorkerConfig& config, const worker::GpuDriver& driver,
                             LogSink& log) {
  if (config.gpu == GpuKind::kNone) return OwnedFd();
  const std::string file =
      config.gpu == GpuKind::kEmulated ? driver.emulated_node : monitor::kDriverFile;
  ASSIGN_OR_RETURN(OwnedFd served, monitor::mark_served(file));
  if (!served.valid()) {
    log.warning(
        "devices_not_marked",
        {{"file", file},
         {"error", "it cannot be locked: 'lambent slices apply' does not see this worker"}});
  }
  return served;
}

// What our own API asks of the worker beside the InvocationService.
frontend::NativeOptions native_options(worker::Worker& worker, metrics::WorkerMetrics& metrics,
                                       objects::ObjectStore& objects, frontend::WorkerFacts facts) {
  return {
      .version = LAMBENT_VERSION,
      .metrics =
          [&worker, &metrics, &objects] {
            worker.update_gauges();
            metrics.set_objects(gauges_of(objects.statistics()));
            return metrics.text();
          },
      .ready = [&worker] { return !worker.draining(); },
      .about = std::move(facts),
      .trace = [&worker](TenantId tenant,
                         InvocationId invocation) { return worker.trace(tenant, invocation); },
      .explain = [&worker](TenantId tenant,
                           InvocationId id) { return worker.explain_json(tenant, id); },
      .devices = [&worker] { return worker.devices_json(); },
      .drain_devices = [&worker](const std::string& gpu, const std::string& reason,
                                 auto done) { worker.drain_devices(gpu, reason, std::move(done)); },
      .undrain_devices = [&worker](const std::string& gpu,
                                   auto done) { worker.undrain_devices(gpu, std::move(done)); },
      .slices = [&worker](TenantId tenant) { return worker.slices_json(tenant); },
      .pipeline = [&worker](const FunctionName& name) { return worker.describe_pipeline(name); },
      .measure =
          [&worker](const FunctionName& name, std::string event, unsigned repeat, auto done) {
            worker.measure_pipeline(name, std::move(event), repeat, std::move(done));
          }};
}

// Runs the loop until the worker is told to stop and has drained, or is told twice.
void run_until_told(const WorkerConfig& config, const OwnedFd& signals, loop::EventLoop& loop,
                    LogSink& log, worker::Worker& worker, http::Server& server) {
  bool stopping = false;
  const auto watch = loop.watch(signals.get(), true, false, [&](loop::Readiness) {
    signalfd_siginfo info{};
    if (read(signals.get(), &info, sizeof(info)) != sizeof(info)) return;
    if (std::exchange(stopping, true)) return loop.stop();  // asked twice: at once
    log.info("stopping", {{"signal", static_cast<int64_t>(info.ssi_signo)}});
    loop.call_after(config.drain_time, [&] { loop.stop(); });
    // The last answers leave before the loop does.
    worker.drain([&] {
      server.drain();
      loop.call_after(milliseconds(50), [&] { loop.stop(); });
    });
  });
  loop.run();
}

// Null: the GPU is a real one, or there is none.
Result<std::unique_ptr<worker::EmulatedNodeServer>> serve_emulated_node(
    const worker::GpuDriver& driver, loop::EventLoop& loop, LogSink& log) {
  if (driver.emulated_node.empty()) return std::unique_ptr<worker::EmulatedNodeServer>();
  return worker::EmulatedNodeServer::open(loop, log, node_image(driver), driver.emulated_node);
}

Result<void> run(WorkerConfig config) {
  SpdlogSink log(config.log_format, config.log_level);
  allow_many_files(log);
  ASSIGN_OR_RETURN(const Installation installation, find_installation());
  ASSIGN_OR_RETURN(const OwnedFd lock, make_folders(config));
  ASSIGN_OR_RETURN(const OwnedFd signals, open_signals());
  SystemClock clock;
  SystemRandom random;
  loop::EventLoop loop(clock);

  ASSIGN_OR_RETURN(worker::GpuDriver driver, find_driver(config, installation));
  ASSIGN_OR_RETURN(const auto emulated_node, serve_emulated_node(driver, loop, log));
  ASSIGN_OR_RETURN(std::vector<std::string> cublas, find_cublas(config, driver));
  ASSIGN_OR_RETURN(auto launcher, start_launcher(config, installation, loop, log));
  ASSIGN_OR_RETURN(const OwnedFd served, mark_devices(config, driver, log));
  std::optional<DeviceWatch> watch;
  std::vector<protocol::DeviceInventory> devices;
  if (config.gpu != GpuKind::kNone) {
    watch.emplace(loop, log, monitor_options(config, driver, installation));
    ASSIGN_OR_RETURN(devices, watch->find());
    leave_integrated_memory(devices, config, log);
  }
  RETURN_IF_ERROR(describe_devices(config, devices, driver, log));
  ASSIGN_OR_RETURN(const worker::DeviceShares shares,
                   worker::share_devices(devices, config.pipeline_slices));

  ASSIGN_OR_RETURN(auto catalog, catalog::Catalog::open(
                                     config.state_folder + "/catalog.db", {},
                                     [&loop](auto task) { return loop.post(std::move(task)); }));
  ASSIGN_OR_RETURN(const SchedulerSettings settings,
                   scheduler_settings(config, shares.dispatched, log));
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

  worker::WorkerOptions options = worker_options(config, installation, driver, devices, shares);
  options.executors.cublas = std::move(cublas);
  options.on_object = [&](TenantId tenant, http::Request request, std::string_view path,
                          http::Responder responder) {
    objects_frontend.handle({.tenant = tenant}, std::move(request), path, std::move(responder));
  };
  ASSIGN_OR_RETURN(auto slices, slice_dispatcher(config, options.pipelines.planner.costs));
  ASSIGN_OR_RETURN(const WorkerJournal journal, open_journal(config, settings, clock, random, log));
  worker::Worker worker(
      {loop, log, random, *launcher, *catalog, metrics, journal.recorder.get(), &objects,
       watch ? &*watch : nullptr},
      options, std::make_unique<dispatch::Dispatcher>(settings.dispatch, std::move(policy)),
      std::move(slices));
  RETURN_IF_ERROR(worker.recover());
  if (watch) watch->tell(worker);

  frontend::Router router(
      worker, objects_frontend, loop, random,
      native_options(worker, metrics, objects, facts_of(config, shares.dispatched)),
      frontend::RequestGuard(host_policy(config.listen)));
  http::ServerOptions server_options;
  server_options.error_response = frontend::server_error;
  server_options.max_connections = most_connections();
  http::Server server(loop, server_options, router.handler());
  ASSIGN_OR_RETURN(const std::string endpoint, listen_all(config.listen, server, log));
  // For the process that started the worker with port 0.
  RETURN_IF_ERROR(write_file_atomically(config.run_folder + "/endpoint", endpoint + "\n", false));
  run_until_told(config, signals, loop, log, worker, server);
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
