#include "bin/node_volumes.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/domain/limits.h"

namespace lambent {
namespace {

constexpr Duration kLackingAge = seconds(5);
constexpr Duration kSweepPeriod = seconds(5);
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

// What was composed of a function's layers is one volume with several mounts.
std::optional<VolumeName> layers_of(const FunctionSpec& spec) {
  const auto mount = std::ranges::find_if(spec.mounts, is_of_layers);
  if (mount == spec.mounts.end()) return std::nullopt;
  return VolumeName{spec.name.tenant, mount->volume};
}

bool is_of_layers(const VolumeName& volume) {
  return lambent::is_of_layers(Mount{.volume = volume.name, .host = {}, .at = {}});
}

Error packages_went() {
  return {ErrorCode::kUnavailable, "the packages of its layers made way for others; try again"};
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
                                                       worker::WorkerOptions& options,
                                                       images::ImageStore& images) {
  auto folders =
      volumes::HostFolders::open(config.mount_allow, {config.state_folder, config.run_folder});
  if (!folders.ok()) return folders.error().with_context("--mount-allow");
  std::unique_ptr<NodeVolumes> node(new NodeVolumes(loop, std::move(*folders)));
  node->in_cluster_ = !config.cluster_key.empty();
  ASSIGN_OR_RETURN(node->store_, volumes::VolumeStore::open(
                                     config.state_folder + "/volumes", loop.clock(), log,
                                     [&thread = node->thread_](auto work, auto completion) {
                                       return thread.run(std::move(work), std::move(completion));
                                     }));
  ASSIGN_OR_RETURN(node->layers_, layers::LayerStore::open(
                                      config.state_folder + "/layers", loop.clock(), log,
                                      [&thread = node->thread_](auto work, auto completion) {
                                        return thread.run(std::move(work), std::move(completion));
                                      },
                                      node->in_cluster_));
  node->shared_ = std::make_unique<volumes::SharedFiles>(
      node->store_.get(),
      [layers = node->layers_.get()](TenantId tenant) { return layers->packages(tenant); },
      [layers = node->layers_.get()](TenantId tenant, const std::string& volume) {
        layers->note_shown(tenant, volume);
      },
      [&thread = node->copying_](auto work, auto completion) {
        return thread.run(std::move(work), std::move(completion));
      });
  RETURN_IF_ERROR(node->open_copies(config, log));
  ASSIGN_OR_RETURN(node->images_, NodeImages::open(config, loop, log, images));
  node->describe(options);
  return node;
}

NodeVolumes::~NodeVolumes() { loop_.cancel(sweep_); }

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
                                  .in_cluster = in_cluster_,
                                  .mounted = [this] { return mounted(); },
                                  .free = [folder]() -> std::optional<Bytes> {
                                    struct statvfs disk {};
                                    if (statvfs(folder.c_str(), &disk) != 0) return std::nullopt;
                                    return Bytes(uint64_t{disk.f_bavail} * disk.f_frsize);
                                  },
                                  .made_of =
                                      [this](const VolumeName& volume) {
                                        if (!is_of_layers(volume)) return Bytes();
                                        return layers_->size_of_copy(volume.tenant, volume.name);
                                      },
                                  .removed =
                                      [this](const VolumeName& volume) {
                                        if (!is_of_layers(volume)) return;
                                        // A keeper that lost it does not take it from those that
                                        // run: it is swept when they have ended.
                                        if (mounted().contains(volume)) return;
                                        layers_->remove_copy(volume.tenant, volume.name);
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
  const auto has_room = [&worker](TenantId tenant, Bytes more) {
    return worker::check_disk(worker.deployments(), tenant, more);
  };
  store_->set_users({.functions = functions, .room = has_room});
  layers_->set_users({.functions = functions, .room = has_room});
  if (in_cluster_) sweep_ = loop_.call_after(kSweepPeriod, [this] { sweep_composed(); });
}

Bytes NodeVolumes::used_by(TenantId tenant) const {
  return store_->used_by(tenant) + layers_->used_by(tenant);
}

Result<std::string> NodeVolumes::folder_of(const FunctionSpec& spec, const Mount& mount) const {
  const TenantId tenant = spec.name.tenant;
  if (is_of_layers(mount)) {
    copies_->note_use({tenant, mount.volume});
    return layers_->mounted_folder(tenant, mount);
  }
  if (!mount.volume.empty()) return copies_->folder({tenant, mount.volume});
  return folders_.resolve(access_ == nullptr ? "" : access_->tenant_name(tenant), mount.host);
}

Result<std::vector<std::string>> NodeVolumes::folders_of(const FunctionSpec& spec) {
  if (may_bring_layers_of(spec)) {
    bring_layers(*layers_of(spec), [](const Result<void>&) {});
    return Error{ErrorCode::kUnavailable,
                 "what its layers show is being brought from another node; try again"};
  }
  auto folders = each_folder(spec, [&](const Mount& mount) { return folder_of(spec, mount); });
  // A node of no cluster copies nothing, and nothing would forget it there.
  if (folders.ok() && in_cluster_) note_shown(spec);
  return folders;
}

// Of files that come from another node when they are needed there is no folder here yet; its keeper
// has looked at them.
Result<std::vector<std::string>> NodeVolumes::deployed_folders_of(const FunctionSpec& spec) const {
  return each_folder(spec, [&](const Mount& mount) -> Result<std::string> {
    if (is_of_layers(mount) && may_bring_layers_of(spec)) return std::string();
    if (mount.volume.empty() || is_of_layers(mount)) return folder_of(spec, mount);
    const VolumeName volume{spec.name.tenant, mount.volume};
    RETURN_IF_ERROR(copies_->can_mount(volume));
    // Constants of kernel functions are looked at where the volume is this node's. A copy may be
    // older than the revision that comes; the load looks again.
    const bool is_looked_at =
        spec.kind == FunctionKind::kKernel && !copies_->has_keeper() && copies_->is_here(volume);
    return is_looked_at ? copies_->folder(volume) : std::string();
  });
}

// ---- Files that another node has

bool NodeVolumes::are_here(const FunctionSpec& spec) const {
  if (in_cluster_ && !has_layers_of(spec)) return false;
  const auto volumes = volumes_of(spec);
  if (volumes.empty()) return true;
  if (!std::ranges::all_of(volumes, [&](const VolumeName& each) { return copies_->is_here(each); }))
    return false;
  // Its revision may have been deployed after files that this node has not heard of.
  return !copies_->has_keeper() || asked_for_.has(spec.id, spec.revision);
}

void NodeVolumes::bring(const FunctionSpec& spec, std::function<void(Result<void>)> done) {
  auto volumes_came = [this, id = spec.id, revision = spec.revision,
                       done = std::move(done)](const Result<void>& result) {
    if (result.ok()) asked_for_.note(id, revision);
    done(result);
  };
  auto bring_volumes = [this, volumes = volumes_of(spec), volumes_came] {
    if (volumes.empty()) return volumes_came({});
    copies_->bring(volumes, volumes_came);
  };
  if (has_layers_of(spec)) return bring_volumes();
  bring_layers(*layers_of(spec), [bring_volumes, volumes_came](const auto& result) {
    if (!result.ok()) return volumes_came(result);
    bring_volumes();
  });
}

bool NodeVolumes::has_layers_of(const FunctionSpec& spec) const {
  const auto layers = layers_of(spec);
  return !layers || layers_->is_here(layers->tenant, layers->name);
}

bool NodeVolumes::may_bring_layers_of(const FunctionSpec& spec) const {
  return !has_layers_of(spec) && (copies_->has_keeper() || copies_->lacks_keeper());
}

// Their packages come as a volume does; what sandboxes see is composed of them here.
void NodeVolumes::bring_layers(const VolumeName& layers, std::function<void(Result<void>)> done) {
  copies_->bring({layers}, [this, layers, done = std::move(done)](const Result<void>& result) {
    if (layers_->is_here(layers.tenant, layers.name)) return done({});
    if (result.ok()) return compose(layers, done);
    if (result.error().code != ErrorCode::kFailedPrecondition) return done(result.error());
    const char* elsewhere =
        copies_->has_keeper() ? ", and no package of them is on the first node" : "";
    done(Error{ErrorCode::kFailedPrecondition,
               std::string("what its layers show is not on this machine") + elsewhere +
                   "; publish the layers again, and update the function with them"});
  });
}

void NodeVolumes::compose(const VolumeName& layers, const std::function<void(Result<void>)>& done) {
  const auto folder = copies_->copied_folder(layers);
  const auto files =
      copied_->list_files(layers.tenant, layers.name, "", "", limits::kVolumeFilesPerPage);
  if (!folder.ok() || !files.ok()) return done(packages_went());
  // One of those that wait looks at what became of it: after that it may be on its way again.
  const bool is_first = !layers_->is_composing(layers.tenant, layers.name);
  if (is_first) copies_->hold(layers);
  std::vector<std::string> zips;
  for (const VolumeFile& file : *files) zips.push_back(*folder + "/" + file.path);
  layers_->compose_copy(
      layers.tenant, layers.name, std::move(zips),
      [this, layers](Bytes more) { return copies_->make_room(layers, more); },
      [this, layers, is_first, done](const Result<void>& composed) {
        if (is_first) composed_copy(layers, composed);
        if (!composed.ok() || layers_->is_here(layers.tenant, layers.name)) return done(composed);
        done(packages_went());
      });
}

void NodeVolumes::composed_copy(const VolumeName& layers, const Result<void>& result) {
  copies_->release(layers);
  if (!result.ok() && result.error().code == ErrorCode::kDataLoss) return copies_->drop(layers);
  // Its tenant was forgotten meanwhile: nothing else would remove it.
  if (!copies_->copied_folder(layers).ok()) layers_->remove_copy(layers.tenant, layers.name);
}

void NodeVolumes::sweep_composed() {
  sweep_ = loop_.call_after(kSweepPeriod, [this] { sweep_composed(); });
  // Also where nothing goes: what sandboxes see is noted, and what those saw that ended forgotten.
  const std::set<VolumeName> in_use = mounted();
  layers_->remove_copies(
      [&](const VolumeName& layers) { return !copies_->has(layers) && !in_use.contains(layers); });
}

std::set<VolumeName> NodeVolumes::mounted() {
  if (worker_ == nullptr) return {};
  // Before their ages are told: then none seems to have started later than it has.
  const Instant now = loop_.clock().now();
  std::map<FunctionName, Instant> oldest;
  for (const SandboxStatus& sandbox : worker_->status().uses().backends.status(Metering::kNone)) {
    const auto [first, is_new] = oldest.try_emplace(sandbox.function, now - sandbox.age);
    first->second = std::min(first->second, now - sandbox.age);
    if (!is_new) continue;
    if (const auto spec = worker_->find_function(sandbox.function); spec.ok()) note_shown(*spec);
  }
  return shown_.seen(oldest);
}

void NodeVolumes::note_shown(const FunctionSpec& spec) {
  const Instant now = loop_.clock().now();
  for (const VolumeName& volume : volumes_of(spec)) shown_.note(spec.name, volume, now);
  if (const auto layers = layers_of(spec)) shown_.note(spec.name, *layers, now);
}

const std::vector<FunctionName>& NodeVolumes::lacking() {
  if (lacking_at_ != Instant::min() && loop_.now() - lacking_at_ < kLackingAge) return lacking_;
  lacking_at_ = loop_.now();
  lacking_.clear();
  std::vector<VolumeName> absent = copies_->absent();
  std::erase_if(absent, [this](const VolumeName& each) {
    return is_of_layers(each) && layers_->is_here(each.tenant, each.name);
  });
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

}  // namespace lambent
