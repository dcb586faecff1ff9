// lambent-worker: reads its flags, builds the objects, runs the loop until it is told to stop.
#include <signal.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "bin/device_watch.h"
#include "bin/environment_settings.h"
#include "bin/grpc_front.h"
#include "bin/image_settings.h"
#include "bin/installation.h"
#include "bin/journal_programs.h"
#include "bin/kept_descriptors.h"
#include "bin/kept_node.h"
#include "bin/listening_sockets.h"
#include "bin/node_cluster.h"
#include "bin/node_shared_catalog.h"
#include "bin/node_telemetry.h"
#include "bin/node_volumes.h"
#include "bin/open_files.h"
#include "bin/service_manager.h"
#include "bin/worker_config.h"
#include "bin/worker_run.h"
#include "bin/worker_settings.h"
#include "bin/worker_setup.h"
#include "core/domain/slice.h"
#include "core/http/server.h"
#include "core/loop/work_thread.h"
#include "core/metrics/worker_metrics.h"
#include "core/tls/node_identity.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/peer_objects.h"
#include "edge/frontend/router.h"
#include "edge/inference/shared_memory_regions.h"
#include "gpu/monitor/served_devices.h"
#include "node/catalog/catalog.h"
#include "node/journal_store/segment_store.h"
#include "node/objects/object_socket.h"
#include "node/objects/object_store.h"
#include "node/sandbox/launcher.h"
#include "node/tenants/access_control.h"
#include "node/tenants/audit_log.h"
#include "node/tenants/node_key.h"
#include "node/tenants/secret_store.h"
#include "node/worker/kernel_graphs.h"
#include "node/worker/storage_watch.h"
#include "node/worker/worker.h"

namespace lambent {
namespace {

constexpr size_t kPeerThreads = 4;
// In a cluster; another node begins to bring an object within milliseconds of the request that
// needs it, and asks for a part of 16 MiB at a time.
constexpr Duration kRemovedObjectLinger = seconds(10);

objects::Disk disk_of(loop::WorkThread& thread) {
  return [&thread](std::function<void()> work, std::function<void()> completion) {
    return thread.run(std::move(work), std::move(completion));
  };
}

// Threads that wait for peers, so that one that is slow holds up only a part of the objects.
std::vector<objects::Disk> lanes_of(const std::vector<http::Endpoint>& peers,
                                    const WorkerConfig& config, loop::EventLoop& loop,
                                    std::vector<std::unique_ptr<loop::WorkThread>>& threads) {
  std::vector<objects::Disk> lanes;
  const bool has_others = !peers.empty() || !config.cluster_key.empty();
  while (has_others && lanes.size() < kPeerThreads) {
    threads.push_back(std::make_unique<loop::WorkThread>(loop));
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

metrics::WorkerMetrics::TlsGauges gauges_of(const tls::IdentityStatistics& statistics) {
  const tls::HandshakeCounts& handshakes = statistics.handshakes;
  return {.expires_at = statistics.expires_at,
          .full_handshakes = handshakes.finished - handshakes.resumed,
          .resumed_handshakes = handshakes.resumed,
          .failed_handshakes = handshakes.failed,
          .reloads = statistics.reloads,
          .failed_reloads = statistics.failed_reloads};
}

// Null: the worker is in no cluster. Else objects are shared with its other nodes.
Result<std::unique_ptr<NodeCluster>> open_cluster(
    const WorkerConfig& config, const std::vector<protocol::DeviceInventory>& devices,
    const NodeCluster::Dependencies& uses, frontend::PeerObjects& objects,
    frontend::ObjectsFrontend& removing) {
  ASSIGN_OR_RETURN(auto cluster, NodeCluster::open(config, devices, uses));
  if (cluster == nullptr) return cluster;
  cluster->seek_objects(objects, uses.access);
  removing.set_linger(kRemovedObjectLinger);
  return cluster;
}

Result<void> recover(worker::Worker& worker, std::optional<DeviceWatch>& watch) {
  RETURN_IF_ERROR(worker.recover());
  if (watch) watch->tell(worker);
  return {};
}

// What is encrypted here, if anything is; peers of https get what they need of it.
Result<std::unique_ptr<tls::NodeIdentity>> open_identity(const WorkerConfig& config,
                                                         std::vector<http::Endpoint>& peers,
                                                         loop::EventLoop& loop, LogSink& log,
                                                         loop::WorkThread& thread) {
  std::unique_ptr<tls::NodeIdentity> identity;
  if (!uses_tls(config, peers)) return identity;
  ASSIGN_OR_RETURN(identity,
                   tls::NodeIdentity::open(config.listen.tls, loop, log, disk_of(thread)));
  for (http::Endpoint& peer : peers) peer.encrypt = identity->connector();
  return identity;
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
  auto store = journal_store::SegmentStore::open(
      {.folder = config.journal_folder, .most_size = config.journal_size}, clock, log);
  if (!store.ok() && config.journal_is_usual) {
    log.warning("no_journal", {{"error", to_string(store.error())}});
    return journal;
  }
  if (!store.ok()) return store.error();
  journal.store = std::move(*store);
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

std::unique_ptr<JournalPrograms> journal_programs(const WorkerConfig& config,
                                                  const Installation& installation,
                                                  const WorkerJournal& journal,
                                                  loop::EventLoop& loop) {
  if (journal.recorder == nullptr) return nullptr;
  return std::make_unique<JournalPrograms>(
      loop, JournalPrograms::Options{.why = installation.program("lambent-why"),
                                     .simulator = installation.program("lambent-simulator"),
                                     .journal = config.journal_folder});
}

// Those that the program before this one left, with the sandboxes that they have.
std::vector<sandbox::HandedOverLauncher> launchers_of(worker::KeptSandboxes& kept) {
  std::vector<sandbox::HandedOverLauncher> launchers;
  for (const worker::KeptLauncher& each : kept.record.launchers) {
    launchers.push_back({.channel = kept.take(each.channel), .pid = each.pid});
  }
  for (const worker::KeptSandbox& each : kept.record.sandboxes) {
    launchers[each.launcher].kept.push_back({each.number, each.number});
  }
  return launchers;
}

Result<std::unique_ptr<sandbox::Launcher>> start_launcher(const WorkerConfig& config,
                                                          const Installation& installation,
                                                          loop::EventLoop& loop, LogSink& log,
                                                          worker::KeptSandboxes& kept) {
  sandbox::LauncherOptions options;
  options.program = installation.program("lambent-launcher");
  options.pool = config.sandbox_pool;
  options.zygotes = config.zygotes;
  options.require_strong_limits = config.require_strong_limits;
  ASSIGN_OR_RETURN(auto launcher, sandbox::start_launcher(loop, log, options, launchers_of(kept)));
  for (const std::string& sentence : sandbox::weaker_limits(launcher->capabilities())) {
    log.warning("weaker_limit", {{"what", sentence}});
  }
  return launcher;
}

// A lock that says to `lambent slices` that a worker has the devices; none without GPUs.
Result<OwnedFd> mark_devices(const WorkerConfig& config, worker::GpuDriver& driver, LogSink& log) {
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

Result<std::unique_ptr<catalog::Catalog>> open_catalog(const WorkerConfig& config,
                                                       loop::EventLoop& loop,
                                                       worker::StorageWatch& storage,
                                                       FaultPoints* faults) {
  return catalog::Catalog::open(
      config.state_folder + "/catalog.db",
      {.on_storage_full = [&storage] { storage.suspect(); }, .faults = faults},
      [&loop](auto task) { return loop.post(std::move(task)); });
}

// Null, unless a test asks for one.
std::unique_ptr<FaultPoints> fault_points(const WorkerConfig& config, LogSink& log) {
  if (config.fault_point.empty()) return nullptr;
  const auto parsed = FaultPoints::parse(config.fault_point);
  if (!parsed.ok()) return nullptr;  // the command line was refused
  log.warning("fault_point", {{"point", config.fault_point}, {"what", "this worker stops there"}});
  return std::make_unique<FaultPoints>(parsed->first, parsed->second);
}

// Its clients are the default tenant; they have no token to show.
Result<std::unique_ptr<objects::ObjectSocket>> serve_objects(const WorkerConfig& config,
                                                             loop::EventLoop& loop, LogSink& log,
                                                             objects::ObjectStore& objects,
                                                             Random& random,
                                                             ListeningSockets& sockets) {
  const mode_t mode = config.auth == frontend::AuthMode::kTokens ? 0600 : 0660;
  const std::string path = config.run_folder + "/objects.sock";
  ASSIGN_OR_RETURN(OwnedFd listener,
                   sockets.unix_socket(path, [&] { return listen_packets(path, mode); }));
  return std::make_unique<objects::ObjectSocket>(loop, log, objects, random, kDefaultTenant,
                                                 std::move(listener));
}

// Where changes and refusals are written down.
Result<std::unique_ptr<tenants::AuditLog>> open_audit_log(const WorkerConfig& config,
                                                          loop::EventLoop& loop, LogSink& log) {
  if (config.audit_log.empty()) return std::unique_ptr<tenants::AuditLog>();
  return tenants::AuditLog::open({.path = config.audit_log}, log,
                                 [&loop](auto task) { return loop.post(std::move(task)); });
}

AuditSink sink_of(tenants::AuditLog* audit) {
  if (audit == nullptr) return [](AuditRecord, const AuditWritten& written) { written({}); };
  return [audit](AuditRecord record, AuditWritten written) {
    audit->append(std::move(record), std::move(written));
  };
}

worker::KernelGraphs::Dependencies graph_uses(worker::Worker& worker, loop::EventLoop& loop,
                                              LogSink& log, catalog::Catalog& catalog,
                                              const worker::WorkerOptions& options) {
  return {
      .loop = loop,
      .log = log,
      .catalog = catalog,
      .service = worker,
      .quotas = worker.deployments().quotas(),
      .used_disk = [&worker](TenantId tenant) { return worker.deployments().used(tenant).disk; },
      .is_at_work =
          [&worker](FunctionId function) {
            return worker.status().uses().live.count(function) > 0;
          },
      .longest_gpu_run = options.longest_gpu_run};
}

tenants::TenantObserver observer_of(worker::Worker& worker, worker::KernelGraphs& graphs,
                                    tenants::SecretStore& secrets, NodeVolumes& volumes,
                                    inference::SharedMemoryRegions& shared_memory) {
  return {.changed = [&worker](const Tenant& tenant) { worker.set_tenant(tenant); },
          .shared = [&worker](const Tenant& tenant) { worker.set_tenant(tenant, &tenant.quotas); },
          .removed =
              [&worker, &graphs, &secrets, &volumes, &shared_memory](TenantId tenant) {
                graphs.remove_all(tenant);
                worker.remove_tenant(tenant);
                secrets.forget_tenant(tenant);
                volumes.forget_tenant(tenant);
                shared_memory.remove_all(tenant);
              }};
}

void warn_of_unreadable(const tenants::SecretStore& secrets, const WorkerConfig& config,
                        LogSink& log) {
  const size_t unreadable = secrets.unreadable();
  if (unreadable == 0) return;
  log.warning("secrets_unreadable",
              {{"secrets", static_cast<int64_t>(unreadable)},
               {"remedy", "the node's key " + config.node_key +
                              " is not the one that they were kept with: bring that back, or keep "
                              "them again"}});
}

tenants::SecretUsers users_of(worker::Worker& worker) {
  return {.functions =
              [&worker](TenantId tenant, const std::string& name) {
                return worker.deployments().users_of_secret(tenant, name);
              },
          .changed =
              [&worker](TenantId tenant, const std::string& name, std::function<void()> renewed) {
                worker.deployments().secret_changed(tenant, name, std::move(renewed));
              }};
}

// What keeps things for functions learns which of them use it, and schedules whom they may serve.
void connect(worker::Worker& worker, tenants::AccessControl& access, tenants::SecretStore& secrets,
             NodeVolumes& volumes, NodeSharedCatalog* shared, loop::WorkThread& files) {
  secrets.set_users(users_of(worker));
  if (shared != nullptr) shared->access().connect(access, secrets, disk_of(files));
  volumes.connect(worker, access);
  worker.schedules().admit_by([&access](TenantId tenant) -> Result<void> {
    auto admission = access.admit_request(tenant);
    return admission.refusal ? *std::move(admission.refusal) : Result<void>{};
  });
}

// Without the catalog that nodes share, functions run.
frontend::ReadyCheck check_of(const NodeSharedCatalog& shared) {
  frontend::ReadyCheck check{"shared_catalog", {}, false};
  if (!shared.reachable()) {
    check.failure =
        shared.unreachable() + "; functions run, changes and asynchronous invocations are refused";
  }
  return check;
}

// What our own API asks of the worker beside the InvocationService.
frontend::NativeOptions native_options(worker::Worker& worker, metrics::WorkerMetrics& metrics,
                                       objects::ObjectStore& objects,
                                       const worker::StorageWatch& storage,
                                       const tls::NodeIdentity* identity,
                                       const NodeTelemetry& telemetry, NodeCluster* cluster,
                                       const NodeSharedCatalog* shared,
                                       frontend::WorkerFacts facts) {
  return {
      .version = LAMBENT_VERSION,
      .metrics =
          [&worker, &metrics, &objects, &storage, identity, &telemetry,
           cluster](std::optional<TenantId> tenant) {
            worker.status().update_gauges();
            if (tenant) return metrics.text_of(*tenant);
            metrics.set_state_disk(storage.free(), storage.full().has_value());
            metrics.set_objects(gauges_of(objects.statistics()));
            if (identity != nullptr && identity->has_server()) {
              metrics.set_tls(gauges_of(identity->statistics()));
            }
            return metrics.text() + telemetry.metrics() +
                   (cluster == nullptr ? "" : cluster->metrics_text());
          },
      .ready = [&worker] { return !worker.draining(); },
      .checks =
          [&storage, shared] {
            frontend::ReadyCheck disk{"state_disk", {}};
            if (storage.full()) disk.failure = storage.full()->message;
            std::vector<frontend::ReadyCheck> checks{disk};
            if (shared != nullptr) checks.push_back(check_of(*shared));
            return checks;
          },
      .about = std::move(facts),
      .trace = [&worker](TenantId tenant,
                         InvocationId invocation) { return worker.trace(tenant, invocation); },
      .explain = [&worker](TenantId tenant,
                           InvocationId id) { return worker.status().explain_json(tenant, id); },
      .cancel = [&worker](TenantId tenant, InvocationId id) { return worker.cancel(tenant, id); },
      .devices = [&worker] { return worker.status().devices_json(); },
      .drain_devices = [&worker](
                           const std::string& gpu, const std::string& reason,
                           auto done) { worker.devices().drain(gpu, reason, std::move(done)); },
      .undrain_devices = [&worker](const std::string& gpu,
                                   auto done) { worker.devices().undrain(gpu, std::move(done)); },
      .slices = [&worker](TenantId tenant) { return worker.status().slices_json(tenant); },
      .schedules = [&worker](TenantId tenant,
                             auto done) { worker.schedules().json(tenant, std::move(done)); },
      .pipeline = [&worker](const FunctionName& name) { return worker.describe_pipeline(name); },
      .measure =
          [&worker](const FunctionName& name, std::string event, unsigned repeat, auto done) {
            worker.measure_pipeline(name, std::move(event), repeat, std::move(done));
          }};
}

cluster::ClusterNode* node_of(NodeCluster* cluster) {
  return cluster == nullptr ? nullptr : &cluster->node();
}

// Without what our own API asks.
frontend::RouterOptions router_options(worker::Worker& worker, const WorkerConfig& config,
                                       loop::WorkThread& offload, JournalService* journal,
                                       NodeCluster* cluster, tenants::AuditLog* audit) {
  return {.native = {},
          .auth = {.mode = config.auth, .own_user = geteuid()},
          .offload = disk_of(offload),
          .audit = sink_of(audit),
          .usage = [&worker](TenantId tenant) { return worker.usages_of({tenant}).at(tenant); },
          .function_domain = config.listen.function_domain,
          .trusted_proxies = config.listen.trusted_proxies,
          .activity = &worker.activity(),
          .journal = journal,
          .report = reports_of(cluster),
          .package = packages_in(config.state_folder),
          .cluster = node_of(cluster),
          .shared_memory = config.shared_memory};
}

std::function<void(TenantId, http::Request, std::string_view, http::Responder)> objects_of_handlers(
    frontend::ObjectsFrontend& objects) {
  return [&objects](TenantId tenant, http::Request request, std::string_view path,
                    http::Responder responder) {
    objects.handle({.tenant = tenant}, std::move(request), path, std::move(responder));
  };
}

http::ServerOptions server_options(const frontend::Router& router, const ListenOptions& listen) {
  http::ServerOptions options;
  options.header_timeout = listen.head_timeout;
  options.body_timeout = listen.body_timeout;
  options.streams = [&router](const http::Request& head) { return router.streams(head); };
  options.error_response = [](int status, std::string_view reason, const http::Request&) {
    return frontend::server_error(status, reason);
  };
  options.max_connections = share_of(open_files_limit()).connections;
  return options;
}

// What this process was started with says whether a service manager asks. Processes that it starts
// are not asked.
Result<ServiceManager> open_service_manager(LogSink& log) {
  ASSIGN_OR_RETURN(ServiceSettings settings,
                   read_service_settings(getenv("NOTIFY_SOCKET"), getenv("WATCHDOG_USEC"),
                                         getenv("WATCHDOG_PID"), getpid()));
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(name);
  return ServiceManager::open(std::move(settings), log);
}

// From the program before this one to this, and from this one to the next.
struct Succession {
  ListeningSockets sockets;
  worker::KeptSandboxes kept;
  std::vector<std::string> program;  // the next one, and its arguments
};

// From the first request that is accepted to the last that is answered.
Result<WorkerRun::End> serve(const WorkerConfig& config, const Installation& installation,
                             Succession& next, const ServedNode& node, Serving serving) {
  ASSIGN_OR_RETURN(
      const std::string endpoint,
      listen_all(config.listen, serving.identity, serving.server, next.sockets, serving.log));
  RETURN_IF_ERROR(next.sockets.check_all_taken());
  serving.sockets = &next.sockets;
  if (endpoint.starts_with("http")) serving.log.info("dashboard", {{"address", endpoint + "/"}});
  // For the process that started the worker with port 0.
  RETURN_IF_ERROR(write_file_atomically(config.run_folder + "/endpoint", endpoint + "\n", false));
  serving.drain_time = config.drain_time;
  serving.program = next.program;
  serving.status = "serving at " + endpoint;
  serving.service.ready(serving.status);
  serving.service.watch(serving.loop);
  std::optional<GrpcFront> grpc;
  if (!config.listen.grpc.empty()) {
    grpc.emplace(serving.loop, serving.log,
                 GrpcFrontOptions{.arguments = grpc_arguments(installation.program("lambent-grpc"),
                                                              config.listen, endpoint),
                                  .address_file = config.run_folder + "/grpc-endpoint"});
  }
  const WorkerRun::End end = WorkerRun(serving).run();
  if (end == WorkerRun::End::kReplaced) {
    next.kept = serving.hand_over.finish();
    keep_node(node, next.kept);
  }
  serving.log.info(end == WorkerRun::End::kReplaced ? "gives_way" : "stopped");
  return end;
}

// "0: Tesla V100-SXM2-16GB, 16 GiB, emulated; 1: ...": the first of them.
std::string gpus_in_words(const std::vector<protocol::DeviceInventory>& devices, GpuKind kind) {
  constexpr size_t kMostNamed = 8;
  std::string words;
  for (size_t i = 0; i < devices.size() && i < kMostNamed; ++i) {
    const protocol::DeviceInventory& device = devices[i];
    words += (i == 0 ? "" : "; ") + place_name(worker::device_id_of(device)) + ": " + device.name +
             ", " + to_string(device.memory_total) +
             (kind == GpuKind::kEmulated ? ", emulated" : "");
  }
  if (devices.size() > kMostNamed) {
    words += "; and " + std::to_string(devices.size() - kMostNamed) + " more";
  }
  return devices.empty() ? "none" : words;
}

// A GPU that is there and is not used is worth a warning.
void tell_gpus(const std::vector<protocol::DeviceInventory>& devices, const WorkerConfig& config,
               LogSink& log) {
  const std::string words = gpus_in_words(devices, config.gpu);
  if (config.leaves_gpu) {
    log.warning("gpus", {{"gpus", words}, {"why", config.gpu_reason}});
  } else if (!config.gpu_reason.empty()) {
    log.info("gpus", {{"gpus", words}, {"why", config.gpu_reason}});
  } else {
    log.info("gpus", {{"gpus", words}});
  }
}

// The devices that are there; the log says which, before anything else, then what limits leave out.
Result<std::vector<protocol::DeviceInventory>> watched_devices(
    std::optional<DeviceWatch>& watch, WorkerConfig& config, worker::GpuDriver& driver,
    const Installation& installation, loop::EventLoop& loop, LogSink& log) {
  std::vector<protocol::DeviceInventory> devices;
  if (config.gpu != GpuKind::kNone) {
    watch.emplace(loop, log, monitor_options(config, driver, installation));
    auto found = watch->find();
    if (!found.ok()) return gpu_missing(found.error(), config, installation);
    devices = std::move(*found);
  }
  tell_gpus(devices, config, log);
  tell_of_few_files(log);
  leave_integrated_memory(devices, config, log);
  RETURN_IF_ERROR(describe_devices(config, devices, driver, log));
  return devices;
}

// What a worker with these options asks others, and tells them.
Result<void> connect(worker::WorkerOptions& options, const WorkerConfig& config,
                     const worker::GpuDriver& driver, frontend::ObjectsFrontend& objects,
                     NodeTelemetry& telemetry) {
  ASSIGN_OR_RETURN(options.executors.cublas, find_cublas(config, driver));
  options.on_object = objects_of_handlers(objects);
  options.observe = telemetry.observer();
  options.on_output = telemetry.listener();
  return {};
}

frontend::RequestGuard guard_of(const WorkerConfig& config) {
  return frontend::RequestGuard(host_policy(config.listen));
}

frontend::Router::Services services_of(worker::Worker& worker, worker::KernelGraphs& graphs,
                                       tenants::AccessControl& access,
                                       tenants::SecretStore& secrets,
                                       frontend::ObjectsFrontend& objects, NodeVolumes& volumes,
                                       NodeCluster* cluster,
                                       inference::SharedMemoryRegions& shared_memory) {
  return {worker,
          worker.versions(),
          access,
          secrets,
          objects,
          worker.relays(),
          volumes.store(),
          node_of(cluster),
          &volumes.layers(),
          &graphs,
          &shared_memory,
          &volumes.shared(),
          &volumes.images().shared()};
}

// What functions need beside their code.
struct Builds {
  std::unique_ptr<environments::EnvironmentStore> environments;
  std::unique_ptr<images::ImageStore> images;
};

Result<Builds> open_builds(const WorkerConfig& config, const Installation& installation,
                           loop::EventLoop& loop, LogSink& log, loop::WorkThread& files,
                           worker::SandboxSetting& sandboxes) {
  Builds builds;
  ASSIGN_OR_RETURN(builds.environments,
                   open_environments(config, installation, loop, log, disk_of(files), sandboxes));
  ASSIGN_OR_RETURN(builds.images,
                   open_images(config, installation, loop, log, disk_of(files), sandboxes));
  return builds;
}

// The files that a worker may open, and the folders that are its own.
Result<OwnedFd> prepare(const WorkerConfig& config, LogSink& log) {
  allow_many_files(log);
  return make_folders(config);
}

bool can_reload(const ServiceManager& service, const WorkerConfig& config) {
  return service.asked() || !config.listen.tls.server.certificate.empty();
}

Result<WorkerRun::End> run(WorkerConfig config, const Installation& installation,
                           Succession& next) {
  SystemClock clock;
  ASSIGN_OR_RETURN(const auto telemetry, NodeTelemetry::open(config, clock));
  LogSink& log = telemetry->log();
  ASSIGN_OR_RETURN(const OwnedFd lock, prepare(config, log));
  ASSIGN_OR_RETURN(ServiceManager service, open_service_manager(log));
  ASSIGN_OR_RETURN(const OwnedFd signals, open_signals(can_reload(service, config)));
  SystemRandom random;
  loop::EventLoop loop(clock);
  ASSIGN_OR_RETURN(worker::GpuDriver driver, find_driver(config, installation));
  ASSIGN_OR_RETURN(const auto node, serve_emulated_node(config, driver, loop, log, next.kept));
  ASSIGN_OR_RETURN(auto launcher, start_launcher(config, installation, loop, log, next.kept));
  worker::SandboxHandOver stays(*launcher, std::exchange(next.kept, {}));
  ASSIGN_OR_RETURN(const OwnedFd served, mark_devices(config, driver, log));
  std::optional<DeviceWatch> watch;
  ASSIGN_OR_RETURN(const auto devices,
                   watched_devices(watch, config, driver, installation, loop, log));
  ASSIGN_OR_RETURN(const auto shares, worker::share_devices(devices, config.pipeline_slices));
  worker::StorageWatch storage(loop, log, config.state_folder);
  const std::unique_ptr<FaultPoints> faults = fault_points(config, log);
  ASSIGN_OR_RETURN(const auto shared, NodeSharedCatalog::open(config, loop, log, faults.get()));
  ASSIGN_OR_RETURN(const auto catalog, open_catalog(config, loop, storage, faults.get()));
  ASSIGN_OR_RETURN(const std::string node_key, tenants::read_or_make_node_key(config.node_key));
  ASSIGN_OR_RETURN(const catalog::AccessRecords records, catalog->load_access());
  tenants::SecretStore secrets(*catalog, clock, node_key, records.secrets);
  warn_of_unreadable(secrets, config, log);
  ASSIGN_OR_RETURN(const auto settings, scheduler_settings(config, shares.dispatched, log));
  ASSIGN_OR_RETURN(auto policy, scheduling::make_policy(config.policy, settings.policy));
  metrics::WorkerMetrics metrics(LAMBENT_VERSION);
  loop::WorkThread object_disk(loop);
  objects::ObjectStore objects(loop, log, disk_of(object_disk), object_options(config));
  std::vector<std::unique_ptr<loop::WorkThread>> peer_threads;
  ASSIGN_OR_RETURN(auto peers, peers_of(config));
  ASSIGN_OR_RETURN(const auto identity, open_identity(config, peers, loop, log, object_disk));
  frontend::PeerObjects peer_objects(objects, peers, lanes_of(peers, config, loop, peer_threads));
  loop::WorkThread copies(loop);
  frontend::ObjectsFrontend objects_frontend(objects, disk_of(copies), loop, random);
  ASSIGN_OR_RETURN(const auto local_objects,
                   serve_objects(config, loop, log, objects, random, next.sockets));
  worker::WorkerOptions options = worker_options(config, installation, driver, devices, shares);
  RETURN_IF_ERROR(connect(options, config, driver, objects_frontend, *telemetry));
  ASSIGN_OR_RETURN(auto slices, slice_dispatcher(config, options.pipelines.planner.costs));
  ASSIGN_OR_RETURN(const WorkerJournal journal, open_journal(config, settings, clock, random, log));
  loop::WorkThread environment_files(loop);
  ASSIGN_OR_RETURN(const Builds builds, open_builds(config, installation, loop, log,
                                                    environment_files, options.sandboxes));
  ASSIGN_OR_RETURN(auto volumes, NodeVolumes::open(config, loop, log, options, *builds.images));
  worker::Worker worker(
      {loop, log, random, *launcher, *catalog, metrics, journal.recorder.get(), &objects,
       watch ? &*watch : nullptr, &secrets, builds.environments.get(), builds.images.get(),
       shared.get(), &stays, faults.get()},
      options, std::make_unique<dispatch::Dispatcher>(settings.dispatch, std::move(policy)),
      std::move(slices));
  worker::KernelGraphs graphs(graph_uses(worker, loop, log, *catalog, options), {});
  inference::SharedMemoryRegions shared_memory;
  tenants::AccessControl access(*catalog, clock, node_key, records,
                                observer_of(worker, graphs, secrets, *volumes, shared_memory));
  connect(worker, access, secrets, *volumes, shared.get(), environment_files);
  ASSIGN_OR_RETURN(const auto audit, open_audit_log(config, loop, log));
  RETURN_IF_ERROR(recover(worker, watch));
  ASSIGN_OR_RETURN(const auto cluster,
                   open_cluster(config, devices,
                                {loop, log, random, *catalog, worker, access, disk_of(copies),
                                 identity.get(), shared.get(), volumes.get()},
                                peer_objects, objects_frontend));
  const auto programs = journal_programs(config, installation, journal, loop);
  auto answers = router_options(worker, config, copies, programs.get(), cluster.get(), audit.get());
  answers.native = native_options(worker, metrics, objects, storage, identity.get(), *telemetry,
                                  cluster.get(), shared.get(), facts_of(config, shares.dispatched));
  frontend::Router router(services_of(worker, graphs, access, secrets, objects_frontend, *volumes,
                                      cluster.get(), shared_memory),
                          loop, random, std::move(answers), guard_of(config));
  ASSIGN_OR_RETURN(const auto access_log, AccessLogFile::open(config, loop, log));
  http::Server server(loop, server_options(router, config.listen),
                      AccessLogFile::wrap(access_log.get(), router.handler()));
  return serve(
      config, installation, next, node,
      {signals, loop, log, worker, server, service, identity.get(), stays, node_of(cluster.get())});
}

// What the service manager told this process is told to the program that it becomes.
class ServiceVariables {
 public:
  ServiceVariables() {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) {
      if (const char* value = getenv(name)) values_.emplace_back(name, value);
    }
  }
  void restore() const {
    for (const auto& [name, value] : values_) setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

Result<ListeningSockets> inherit_sockets() {
  auto sockets = ListeningSockets::inherit(
      {getenv("LISTEN_PID"), getenv("LISTEN_FDS"), getenv("LAMBENT_LISTENERS")}, getpid());
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LAMBENT_LISTENERS"}) {
    unsetenv(name);
  }
  return sockets;
}

// What cannot be read ends, and the worker starts without.
worker::KeptSandboxes inherit_kept_sandboxes() {
  auto kept = inherit_kept(getenv(kKeptVariable), getpid());
  unsetenv(kKeptVariable);
  if (kept.ok()) return std::move(*kept);
  std::cerr << "lambent serve: sandboxes were not kept: " << to_string(kept.error()) << "\n";
  return {};
}

// For the program that this process becomes. Their numbers begin after those of the listeners.
Result<void> hand_over(ListeningSockets& sockets, worker::KeptSandboxes kept) {
  constexpr int kFirst = 3;
  const int after = kFirst + static_cast<int>(sockets.count());
  RETURN_IF_ERROR(move_kept(kept, after));
  RETURN_IF_ERROR(sockets.hand_over(kFirst));
  if (kept.record.sandboxes.empty()) return {};
  ASSIGN_OR_RETURN(const std::string variable, leave_kept(std::move(kept), getpid(), after));
  setenv(kKeptVariable, variable.c_str(), 1);
  return {};
}

// Returns only with an error, or when the worker was told to stop.
Result<void> run_or_become(WorkerConfig config, std::vector<std::string> words) {
  const ServiceVariables variables;
  ASSIGN_OR_RETURN(ListeningSockets sockets, inherit_sockets());
  Succession succession{std::move(sockets), inherit_kept_sandboxes(), std::move(words)};
  ASSIGN_OR_RETURN(const Installation installation, find_installation());
  succession.program.front() = installation.program("lambent-worker");
  choose_gpu(config, installation);
  ASSIGN_OR_RETURN(const WorkerRun::End end, run(std::move(config), installation, succession));
  if (end == WorkerRun::End::kStopped) return {};
  RETURN_IF_ERROR(hand_over(succession.sockets, std::move(succession.kept)));
  variables.restore();
  std::vector<char*> arguments;
  for (std::string& word : succession.program) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(succession.program.front().c_str(), arguments.data());
  return error_from_errno("become " + succession.program.front(), errno);
}

}  // namespace
}  // namespace lambent

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == lambent::kKeptFormatFlag) {
    std::cout << lambent::worker::kept_record_format() << "\n";
    return 0;
  }
  lambent::WorkerConfig config;
  if (const auto exit_code = lambent::parse_worker_config(argc, argv, config)) return *exit_code;
  if (!config.host_memory) config.host_memory = lambent::usual_host_memory(config);
  const auto result = lambent::run_or_become(std::move(config), {argv, argv + argc});
  if (result.ok()) return 0;
  std::cerr << "lambent serve: " << lambent::to_string(result.error()) << "\n";
  return lambent::exit_code_of(result.error().code);
}
