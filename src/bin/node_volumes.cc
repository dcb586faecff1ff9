#include "bin/node_volumes.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace lambent {
namespace {

constexpr Duration kLackingAge = seconds(5);
// Of so many volumes: for each all functions of its tenant are looked at.
constexpr size_t kMostLacking = 64;

std::vector<VolumeName> volumes_of(const FunctionSpec& spec) {
  std::vector<VolumeName> volumes;
  for (const Mount& mount : spec.mounts) {
    if (mount.volume.empty() || is_of_layers(mount)) continue;
    volumes.push_back({spec.name.tenant, mount.volume});
  }
  return volumes;
}

// Of all mounts, in their order.
Result<std::vector<std::string>> each_folder(
    const FunctionSpec& spec, const std::function<Result<std::string>(const Mount&)>& folder_of) {
  std::vector<std::string> folders;
  for (const Mount& mount : spec.mounts) {
    auto folder = folder_of(mount);
    if (!folder.ok()) {
      Error error = folder.error().with_context("the mount at " + mount.at);
      // The function is to change, or the worker; nothing that was asked for by its name is
      // missing.
      if (error.code == ErrorCode::kNotFound) error.code = ErrorCode::kFailedPrecondition;
      return error;
    }
    folders.push_back(std::move(*folder));
  }
  return folders;
}

}  // namespace

Result<std::unique_ptr<NodeVolumes>> NodeVolumes::open(const WorkerConfig& config,
                                                       loop::EventLoop& loop, LogSink& log,
                                                       worker::WorkerOptions& options) {
  auto folders =
      volumes::HostFolders::open(config.mount_allow, {config.state_folder, config.run_folder});
  if (!folders.ok()) return folders.error().with_context("--mount-allow");
  std::unique_ptr<NodeVolumes> node(new NodeVolumes(loop, std::move(*folders)));
  ASSIGN_OR_RETURN(node->store_, volumes::VolumeStore::open(
                                     config.state_folder + "/volumes", loop.clock(), log,
                                     [&thread = node->thread_](auto work, auto completion) {
                                       return thread.run(std::move(work), std::move(completion));
                                     }));
  ASSIGN_OR_RETURN(node->layers_, layers::LayerStore::open(
                                      config.state_folder + "/layers", loop.clock(), log,
                                      [&thread = node->thread_](auto work, auto completion) {
                                        return thread.run(std::move(work), std::move(completion));
                                      }));
  RETURN_IF_ERROR(node->open_copies(config, log));
  node->describe(options);
  return node;
}

Result<void> NodeVolumes::open_copies(const WorkerConfig& config, LogSink& log) {
  const std::string folder = config.state_folder + "/volume_copies";
  ASSIGN_OR_RETURN(
      copied_, volumes::VolumeStore::open(
                   folder, loop_.clock(), log, [&thread = copying_](auto work, auto completion) {
                     return thread.run(std::move(work), std::move(completion));
                   }));
  copies_ = std::make_unique<volumes::VolumeCopies>(
      volumes::VolumeCopies::Uses{.loop = loop_,
                                  .log = log,
                                  .kept = *store_,
                                  .copies = *copied_,
                                  .record = config.state_folder + "/volume_copies.json",
                                  .most = config.volume_copies.value_or(Bytes(UINT64_MAX / 2)),
                                  .in_cluster = !config.cluster_key.empty(),
                                  .mounted = [this] { return mounted(); },
                                  .free = [folder]() -> std::optional<Bytes> {
                                    struct statvfs disk {};
                                    if (statvfs(folder.c_str(), &disk) != 0) return std::nullopt;
                                    return Bytes(uint64_t{disk.f_bavail} * disk.f_frsize);
                                  }});
  return {};
}

void NodeVolumes::describe(worker::WorkerOptions& options) {
  options.sandboxes.folders_of_mounts = [this](const FunctionSpec& spec) {
    return folders_of(spec);
  };
  options.deployed_mounts = [this](const FunctionSpec& spec) { return deployed_folders_of(spec); };
  options.mount_files = {
      .are_here = [this](const FunctionSpec& spec) { return are_here(spec); },
      .bring = [this](const FunctionSpec& spec, auto done) { bring(spec, std::move(done)); }};
  options.host_path = [this](TenantId tenant, const std::string& path) {
    return folders_.resolve(access_ == nullptr ? "" : access_->tenant_name(tenant), path);
  };
  options.used_by_volumes = [this](TenantId tenant) { return used_by(tenant); };
}

void NodeVolumes::connect(worker::Worker& worker, const AccessService& access) {
  access_ = &access;
  worker_ = &worker;
  const auto functions = [&worker](TenantId tenant, const std::string& volume) {
    return worker.deployments().users_of_volume(tenant, volume);
  };
  const auto has_room = [this, &worker](TenantId tenant, Bytes more) {
    return room(worker, tenant, more);
  };
  store_->set_users({.functions = functions, .room = has_room});
  layers_->set_users({.functions = functions, .room = has_room});
}

Bytes NodeVolumes::used_by(TenantId tenant) const {
  return store_->used_by(tenant) + layers_->used_by(tenant);
}

Result<std::string> NodeVolumes::folder_of(const FunctionSpec& spec, const Mount& mount) const {
  const TenantId tenant = spec.name.tenant;
  if (is_of_layers(mount)) return layers_->mounted_folder(tenant, mount);
  if (!mount.volume.empty()) return copies_->folder({tenant, mount.volume});
  return folders_.resolve(access_ == nullptr ? "" : access_->tenant_name(tenant), mount.host);
}

Result<std::vector<std::string>> NodeVolumes::folders_of(const FunctionSpec& spec) {
  return each_folder(spec, [&](const Mount& mount) { return folder_of(spec, mount); });
}

// A volume may come from another node when it is needed: of it there is no folder here yet.
Result<std::vector<std::string>> NodeVolumes::deployed_folders_of(const FunctionSpec& spec) const {
  return each_folder(spec, [&](const Mount& mount) -> Result<std::string> {
    if (mount.volume.empty() || is_of_layers(mount)) return folder_of(spec, mount);
    RETURN_IF_ERROR(copies_->can_mount({spec.name.tenant, mount.volume}));
    return std::string();
  });
}

// ---- Files that another node has

bool NodeVolumes::are_here(const FunctionSpec& spec) const {
  const auto volumes = volumes_of(spec);
  if (volumes.empty()) return true;
  if (!std::ranges::all_of(volumes, [&](const VolumeName& each) { return copies_->is_here(each); }))
    return false;
  // Its revision may have been deployed after files that this node has not heard of.
  return !copies_->has_keeper() || asked_for_.has(spec.id, spec.revision);
}

void NodeVolumes::bring(const FunctionSpec& spec, std::function<void(Result<void>)> done) {
  copies_->bring(volumes_of(spec), [this, id = spec.id, revision = spec.revision,
                                    done = std::move(done)](const Result<void>& result) {
    if (result.ok()) asked_for_.note(id, revision);
    done(result);
  });
}

std::set<VolumeName> NodeVolumes::mounted() const {
  std::set<VolumeName> mounted;
  if (worker_ == nullptr) return mounted;
  std::set<FunctionName> seen;
  for (const SandboxStatus& sandbox :
       worker_->status().uses().backends.status(Metering::kNone)) {
    if (!seen.insert(sandbox.function).second) continue;
    const auto spec = worker_->find_function(sandbox.function);
    if (!spec.ok()) continue;
    for (VolumeName& volume : volumes_of(*spec)) mounted.insert(std::move(volume));
  }
  return mounted;
}

const std::vector<FunctionName>& NodeVolumes::lacking() {
  if (lacking_at_ != Instant::min() && loop_.now() - lacking_at_ < kLackingAge) return lacking_;
  lacking_at_ = loop_.now();
  lacking_.clear();
  std::vector<VolumeName> absent = copies_->absent();
  if (absent.size() > kMostLacking) absent.resize(kMostLacking);
  for (const VolumeName& volume : absent) {
    for (std::string& name : worker_->deployments().users_of_volume(volume.tenant, volume.name)) {
      lacking_.push_back({volume.tenant, std::move(name)});
    }
  }
  return lacking_;
}

void NodeVolumes::forget_tenant(TenantId tenant) {
  store_->forget_tenant(tenant);
  copies_->forget_tenant(tenant);
  layers_->forget_tenant(tenant);
}

Result<void> NodeVolumes::room(const worker::Worker& worker, TenantId tenant, Bytes more) const {
  const std::string name = access_->tenant_name(tenant);
  ASSIGN_OR_RETURN(const Tenant found, access_->find_tenant(name));
  if (!found.quotas.disk) return {};
  const Bytes used = worker.function_totals(tenant).code + used_by(tenant);
  if (used + more <= *found.quotas.disk) return {};
  return Error{ErrorCode::kResourceExhausted,
               "tenant '" + name + "' has " + to_string(used) +
                   " in packages, volumes and layers, and " + to_string(more) +
                   " more would be above its quota of disk, " + to_string(*found.quotas.disk) +
                   "; remove files, or ask the operator for more"};
}

}  // namespace lambent
