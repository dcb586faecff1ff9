#include "bin/node_volumes.h"

#include <string>
#include <utility>
#include <vector>

namespace lambent {

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
  node->describe(options);
  return node;
}

void NodeVolumes::describe(worker::WorkerOptions& options) const {
  options.sandboxes.folders_of_mounts = [this](const FunctionSpec& spec) {
    return folders_of(spec);
  };
  options.host_path = [this](TenantId tenant, const std::string& path) {
    return folders_.resolve(access_ == nullptr ? "" : access_->tenant_name(tenant), path);
  };
  options.used_by_volumes = [this](TenantId tenant) { return used_by(tenant); };
}

void NodeVolumes::connect(worker::Worker& worker, const AccessService& access) {
  access_ = &access;
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

Result<std::vector<std::string>> NodeVolumes::folders_of(const FunctionSpec& spec) const {
  std::vector<std::string> folders;
  const TenantId tenant = spec.name.tenant;
  for (const Mount& mount : spec.mounts) {
    const std::string name = access_ == nullptr ? "" : access_->tenant_name(tenant);
    auto folder = mount.volume.empty()  ? folders_.resolve(name, mount.host)
                  : is_of_layers(mount) ? layers_->mounted_folder(tenant, mount)
                                        : store_->mounted_folder(tenant, mount.volume);
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
