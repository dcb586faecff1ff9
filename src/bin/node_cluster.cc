#include "bin/node_cluster.h"

#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "bin/node_shared_catalog.h"
#include "bin/node_volumes.h"
#include "core/archive/zip.h"
#include "core/base/fd.h"
#include "core/domain/gpu_fit.h"
#include "core/domain/version_advice.h"
#include "node/worker/code_store.h"

namespace lambent {
namespace {

constexpr size_t kMostKey = 4096;
// Of a part of a file, or a page of a list.
constexpr Duration kVolumeTimeout = seconds(20);
// An idle sandbox with its GPU memory in place, or without any.
bool is_resident(const SandboxStatus& sandbox) {
  return sandbox.device_memory_place.empty() || sandbox.device_memory_place == "in" ||
         sandbox.device_memory_place == "moving in";
}

std::string machine_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

Result<ClusterTold> listed_nodes(const std::vector<std::string>& nodes) {
  ClusterTold told{.source = "file", .home = {}, .members = {}, .lease = {}};
  for (const std::string& text : nodes) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      return Error{ErrorCode::kInvalidArgument,
                   "--cluster-node " + text + ": NAME=URL is expected"};
    }
    told.members.push_back({.node = text.substr(0, equals), .address = text.substr(equals + 1)});
  }
  return told;
}

struct Sizes {
  uint32_t slots = 1;
  uint32_t slots_of_gpu = 0;  // of those, for each GPU
  Bytes device_memory;
  std::vector<GpuFacts> gpus;
  std::vector<Bytes> for_functions;
  std::vector<SliceShape> slices;
};

Sizes sizes_of(const WorkerConfig& config, const std::vector<protocol::DeviceInventory>& devices) {
  Sizes sizes;
  for (const protocol::DeviceInventory& device : devices) {
    sizes.device_memory += device.memory_total;
    sizes.gpus.push_back({device.name, device.memory_total});
  }
  sizes.slots_of_gpu = config.concurrency;
  sizes.slots = devices.empty() ? std::max(1U, std::thread::hardware_concurrency())
                                : static_cast<uint32_t>(devices.size()) * config.concurrency;
  return sizes;
}

// Of what each GPU has: of those that were lost or are drained, or of the others.
std::vector<Bytes> those_of(const std::vector<Bytes>& all, const worker::Worker& worker,
                            bool lost) {
  std::vector<Bytes> memory;
  const std::vector<bool> are_lost = worker.status().gpus_lost();
  for (size_t gpu = 0; gpu < all.size(); ++gpu) {
    const bool is_lost = gpu < are_lost.size() && are_lost[gpu];
    if (is_lost == lost) memory.push_back(all[gpu]);
  }
  return memory;
}

// Of what this node cannot read of the others', which has to be upgraded.
std::string advice_of(const std::vector<MemberStatus>& members) {
  std::string own;
  const MemberStatus* newest = nullptr;
  for (const MemberStatus& each : members) {
    if (each.is_self) own = each.version;
    const bool is_newer = newest == nullptr || compare_versions(newest->version, each.version) < 0;
    if (!each.is_self && is_newer) newest = &each;
  }
  if (newest == nullptr || compare_versions(own, newest->version) >= 0) return "";
  return version_advice(own, newest->member.node, newest->version);
}

// What functions find on the other nodes, also on those that are lost.
worker::OtherNodes gpus_of_others(cluster::ClusterNode& node) {
  // The first node takes changes while it answers. This one then only has copies.
  worker::OtherNodes others{.judged = node.is_replica() && node.home() != node.self() &&
                                      !node.is_lost(node.home())};
  for (cluster::OtherMembers::Hardware& other : node.others().hardware()) {
    if (!other.gpus) others.judged = true;
    others.gpus.push_back(std::move(other.gpus).value_or(std::vector<Bytes>()));
    others.slices.push_back(std::move(other.slices));
  }
  return others;
}

// Pipelines take parts of several GPUs, and a CPU variant needs none.
cluster::GpuRequest gpu_request_of(const FunctionSpec& spec) {
  const bool needs_whole_gpus = spec.gpu.memory > Bytes(0) && !spec.cpu_variant &&
                                spec.kind != FunctionKind::kPipeline &&
                                spec.kind != FunctionKind::kWorkflow;
  return {.memory = spec.gpu.memory, .gpus = needs_whole_gpus ? spec.gpu.count : 0};
}

// Whether a node with these GPUs has what an invocation takes of them.
bool holds(const std::vector<Bytes>& gpus, const FunctionSpec& spec) {
  const cluster::GpuRequest needs = gpu_request_of(spec);
  return have_room(gpus, needs.memory, needs.gpus);
}

// As other nodes know it.
uint64_t hash_of(const tenants::AccessControl& access, const FunctionName& function) {
  return routing::hash_of(access.tenant_name(function.tenant) + "/" + function.name);
}

bool can_run_here(worker::Worker& worker, const FunctionSpec& spec) {
  if (spec.kind == FunctionKind::kPipeline) return worker.status().serves_pipeline(spec.id);
  return holds(those_of(worker.deployments().gpus().own(), worker, false), spec);
}

// What runs of a workflow call, for the choice of their node.
std::vector<routing::Step> steps_of(const worker::Worker& worker,
                                    const tenants::AccessControl& access,
                                    const FunctionSpec& workflow) {
  std::vector<routing::Step> steps;
  const std::string tenant = access.tenant_name(workflow.name.tenant);
  for (const FunctionSpec* each : worker.status().steps_of(workflow)) {
    const cluster::GpuRequest needs = gpu_request_of(*each);
    steps.push_back({.function = routing::hash_of(tenant + "/" + each->name.name),
                     .memory = needs.memory,
                     .gpus = needs.gpus});
  }
  return steps;
}

uint32_t load_of(const worker::Worker& worker) {
  return static_cast<uint32_t>(worker.status().invocations());
}

// Invocations that this node has, and what is warm here.
cluster::NodeReport report_of(const worker::Worker& worker, const tenants::AccessControl& access,
                              const Sizes& sizes, cluster::FetchedFunctions& fetched,
                              const NodeQuotas* quotas, NodeVolumes* volumes,
                              const frontend::CatalogReplica* replica, Instant now) {
  cluster::NodeReport report{.version = LAMBENT_VERSION,
                             .takes_work = !worker.draining(),
                             .slots = sizes.slots,
                             .gpus = sizes.gpus,
                             .for_functions = sizes.for_functions,
                             .slices = sizes.slices};
  report.lost_for_functions = those_of(sizes.for_functions, worker, true);
  const auto slots_lost =
      static_cast<uint32_t>(report.lost_for_functions.size()) * sizes.slots_of_gpu;
  report.slots = std::max(sizes.slots, slots_lost + 1) - slots_lost;
  Bytes busy;
  for (const Bytes lost : report.lost_for_functions) busy += lost;
  if (quotas != nullptr) {
    report.tenants = quotas->uses();
  }
  report.load = load_of(worker);
  for (const SandboxStatus& sandbox : worker.status().sandboxes(Metering::kNone, std::nullopt)) {
    if (sandbox.state != "idle") {
      busy += sandbox.device_memory;
      continue;
    }
    const std::string tenant = access.tenant_name(sandbox.function.tenant);
    report.warm.emplace_back(
        routing::hash_of(tenant + "/" + sandbox.function.name),
        is_resident(sandbox) ? routing::Warmth::kResident : routing::Warmth::kSwappedOut);
  }
  std::sort(report.warm.begin(), report.warm.end());
  fetched.note(report.warm, now);
  report.fetched = fetched.list(report.warm);
  if (volumes != nullptr) {
    for (const FunctionName& function : volumes->lacking()) {
      report.absent.push_back(hash_of(access, function));
    }
  }
  if (replica != nullptr) {
    for (const auto& [tenant, function] : replica->not_copied()) {
      report.absent.push_back(routing::hash_of(tenant + "/" + function));
    }
  }
  std::ranges::sort(report.absent);
  const auto repeated = std::ranges::unique(report.absent);
  report.absent.erase(repeated.begin(), repeated.end());
  report.pipelines.emplace();
  for (const FunctionName& function : worker.status().served_pipelines()) {
    report.pipelines->push_back(hash_of(access, function));
  }
  std::ranges::sort(*report.pipelines);
  for (const FunctionName& function : worker.status().pipelines_served_later()) {
    report.pipelines_later.push_back(hash_of(access, function));
  }
  std::ranges::sort(report.pipelines_later);
  report.revoked = access.unagreed_revocations();
  report.memory_free = sizes.device_memory - std::min(busy, sizes.device_memory);
  return report;
}

}  // namespace

std::string node_name_of(const WorkerConfig& config) {
  return config.node_name.empty() ? machine_name() : config.node_name;
}

Result<std::unique_ptr<NodeCluster>> NodeCluster::open(
    const WorkerConfig& config, const std::vector<protocol::DeviceInventory>& devices,
    Dependencies uses) {
  std::unique_ptr<NodeCluster> made;
  if (config.cluster_key.empty()) {
    if (config.cluster_nodes.empty()) return made;
    return Error{ErrorCode::kInvalidArgument, "--cluster-node needs --cluster-key"};
  }
  ASSIGN_OR_RETURN(std::string key, read_file(config.cluster_key, kMostKey));
  const std::string name = node_name_of(config);
  auto credentials = cluster::NodeCredentials::make(name, std::move(key));
  if (!credentials.ok()) return credentials.error().with_context("--cluster-key");
  ASSIGN_OR_RETURN(auto policy, routing::make_policy(config.cluster_policy, {}));
  ASSIGN_OR_RETURN(ClusterTold told, listed_nodes(config.cluster_nodes));
  Sizes sizes = sizes_of(config, devices);
  sizes.for_functions = uses.worker.deployments().gpus().own();
  sizes.slices = uses.worker.deployments().gpus().own_slices();
  made.reset(new NodeCluster());
  worker::Worker& worker = uses.worker;
  tenants::AccessControl& access = uses.access;
  made->node_ = std::make_unique<cluster::ClusterNode>(
      cluster::ClusterNode::Dependencies{
          .loop = uses.loop,
          .log = uses.log,
          .random = uses.random,
          .offload = uses.disk,
          .connector = uses.identity != nullptr ? uses.identity->connector() : nullptr,
          .forwarded = [&metrics = made->metrics_](Duration took) { metrics.forwarded(took); }},
      *std::move(credentials), std::move(policy),
      cluster::NodeFacts{
          .report =
              [&worker, &access, sizes, &loop = uses.loop, made = made.get()] {
                return report_of(worker, access, sizes, made->fetched_, made->quotas_.get(),
                                 made->volumes_, made->replica_.get(), loop.now());
              },
          .load = [&worker] { return load_of(worker); },
          .find = [&worker, &access, made = made.get()](
                      const FunctionName& name) -> std::optional<cluster::NodeFacts::Known> {
            const auto spec = is_version_record(name) ? worker.versions().find_qualified(name)
                                                      : worker.find_function(name);
            if (!spec.ok()) return std::nullopt;
            cluster::NodeFacts::Known known{spec->name, gpu_request_of(*spec)};
            known.is_pipeline = spec->kind == FunctionKind::kPipeline;
            if (spec->kind == FunctionKind::kWorkflow) {
              known.steps = made->steps_.of(spec->name, worker.status().function_changes(),
                                            [&] { return steps_of(worker, access, *spec); });
            }
            return known;
          },
          .heard = [&access](
                       const cluster::NodeReport& told) { access.revoked_elsewhere(told.revoked); },
          .volumes_changed =
              [made = made.get()] {
                if (made->volumes_ != nullptr) made->volumes_->copies().look();
              }});
  cluster::ClusterNode& node = *made->node_;
  made->route_calls(uses);
  worker.deployments().gpus().regard_others([&node] { return gpus_of_others(node); });
  made->copy_catalog(config, uses);
  made->copy_volumes(uses);
  made->quotas_ = std::make_unique<NodeQuotas>(NodeQuotas::Dependencies{
      .loop = uses.loop, .worker = worker, .access = access, .others = [&node] {
        NodeQuotas::Told told;
        for (const auto& other : node.others().all()) {
          told.nodes.push_back(other.tenants);
          if (other.tenants != nullptr && other.node < node.self()) ++told.position;
        }
        return told;
      }});
  if (const auto taken = node.tell(std::move(told)); !taken.ok()) {
    return taken.error().with_context("--cluster-node");
  }
  return made;
}

// Calls that this node makes itself: those of schedules, and steps of workflows that it cannot run.
void NodeCluster::route_calls(const Dependencies& uses) {
  cluster::ClusterNode& node = *node_;
  worker::Worker& worker = uses.worker;
  calls_ = std::make_unique<frontend::RoutedCalls>(frontend::RoutedCalls::Uses{
      .loop = uses.loop, .nodes = node, .here = worker, .access = uses.access});
  frontend::RoutedCalls& calls = *calls_;
  // Other nodes have copies of the home's functions.
  worker.schedules().only_if([&node] { return node.begins_schedules(); }, uses.shared != nullptr);
  node.watch([&worker] { worker.schedules().look_again(); });
  worker.schedules().submit_by(
      [&calls](InvocationRequest request, auto done) {
        calls.submit(std::move(request), std::move(done));
      },
      [&calls](TenantId tenant, InvocationId id, auto done) {
        calls.async_result(tenant, id, std::move(done));
      });
  worker.call_elsewhere(
      {.takes = [&worker](const FunctionSpec& spec) { return !can_run_here(worker, spec); },
       .may_come =
           [&node] {
             return node.is_replica() && node.home() != node.self() && !node.is_lost(node.home());
           },
       .submit = [&calls](InvocationRequest request,
                          auto done) { calls.submit(std::move(request), std::move(done)); },
       .forget = [&calls](InvocationId call) { calls.forget(call); },
       .remove_object = [&calls](TenantId tenant,
                                 ObjectId object) { calls.remove_object(tenant, object); }});
}

// Where this node's functions and tenants come from: the home, or what all share.
void NodeCluster::copy_catalog(const WorkerConfig& config, const Dependencies& uses) {
  cluster::ClusterNode& node = *node_;
  replica_ = std::make_unique<frontend::CatalogReplica>(
      frontend::CatalogReplica::Dependencies{
          .loop = uses.loop,
          .log = uses.log,
          .functions = uses.worker,
          .versions = uses.worker.versions(),
          .copies = uses.worker.versions(),
          .access = uses.access,
          .is_replica = [&node] { return node.is_replica(); },
          .has_home = [&node] { return !node.home().empty(); },
          .ask_home =
              [&node, shared = uses.shared](std::string target, auto done) {
                if (shared != nullptr) {
                  return shared->ask(target, std::move(done));
                }
                node.ask(node.home(), {std::move(target)}, seconds(30), std::move(done));
              },
          .version_advice = [&node] { return advice_of(node.members()); },
          .removes_tenants = uses.shared != nullptr},
      config.state_folder + "/copied_functions.json");
  frontend::CatalogReplica& replica = *replica_;
  node.set_replica(
      {.catch_up = [&replica](const FunctionName& function,
                              auto then) { replica.catch_up(function, std::move(then)); },
       .changed = [&replica] { replica.changed(); },
       .has_copies = [&replica] { return replica.has_copies(); }});
  shared_ = uses.shared;
  if (uses.shared != nullptr) {
    node.share_catalog();
    uses.shared->connect(
        uses.catalog, uses.worker, uses.access,
        {.is_lost = [&node](const std::string& other) { return node.is_lost(other); },
         .is_home = [&node] { return node.home() == node.self(); },
         .agreed = [&replica](const std::string& tenant,
                              const std::string& function) { replica.agreed(tenant, function); },
         .taker_of = [&node](
                         const std::string& tenant,
                         const FunctionName& name) { return node.others().taker_of(tenant, name); },
         .is_there = [&replica](
                         const std::string& tenant,
                         const std::string& function) { return replica.names(tenant, function); },
         .self = node.self()});
  }
}

void NodeCluster::seek_objects(frontend::PeerObjects& objects, const AccessService& access) {
  objects.seek_in_cluster([node = node_.get(), &access](TenantId tenant) {
    frontend::ObjectSources sources;
    for (const cluster::OtherMembers::One& other : node->others().all()) {
      if (other.is_lost) {
        sources.lost.emplace_back(other.node);
      } else {
        sources.nodes.push_back(
            {node->others().way_to(other), node->signer(access.tenant_name(tenant))});
      }
    }
    return sources;
  });
}

void NodeCluster::copy_volumes(const Dependencies& uses) {
  if (uses.volumes == nullptr) return;
  volumes_ = uses.volumes;
  cluster::ClusterNode& node = *node_;
  peer_volumes_ = std::make_unique<frontend::PeerVolumes>(frontend::PeerVolumes::Uses{
      .access = uses.access,
      .offload = uses.disk,
      .keeper = [&node] { return node.home() == node.self() ? std::string() : node.home(); },
      .ask =
          [&node](std::string target, auto done) {
            // It would take seconds to find that out.
            if (node.is_lost(node.home())) {
              return done(
                  Error{ErrorCode::kUnavailable, "node '" + node.home() + "' does not answer"});
            }
            node.ask(node.home(), {std::move(target)}, kVolumeTimeout, std::move(done));
          },
      .keeps_here = [&node] { return node.home() == node.self(); }});
  volumes_->copies().set_source(peer_volumes_.get());
  volumes_->images().connect(node, uses.access, uses.disk);
}

NodeCluster::~NodeCluster() {
  if (volumes_ != nullptr) volumes_->copies().set_source(nullptr);
}

std::string NodeCluster::metrics_text() {
  if (volumes_ != nullptr) {
    const auto counts = volumes_->copies().counts();
    metrics_.set_volumes({.fetched = counts.fetched,
                          .failed = counts.failed,
                          .evicted = counts.evicted,
                          .under_way = counts.under_way,
                          .brought = counts.brought,
                          .size = counts.size});
  }
  metrics_.set(*node_);
  if (shared_ != nullptr) metrics_.set_catalog(shared_->reachable());
  return metrics_.text();
}

std::function<std::string()> reports_of(NodeCluster* cluster) {
  if (cluster == nullptr) return {};
  return [cluster] { return cluster::to_json(cluster->node().own_report()); };
}

std::function<std::string(const std::string& sha256)> packages_in(const std::string& state_folder) {
  return [folder = state_folder + "/code/"](const std::string& sha256) -> std::string {
    const std::string name = archive::code_folder_name(sha256);
    const bool is_digest = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
    });
    return is_digest ? worker::CodeStore::package_of(folder + name) : "";
  };
}

}  // namespace lambent
