// NodeVolumes: volumes, layers and host folders of this worker, put together: the store with its
// thread, what the worker and it ask of each other, and what other nodes copy, images too. Made by
// the worker's main; on the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bin/node_images.h"
#include "bin/worker_config.h"
#include "core/base/log.h"
#include "core/domain/access_service.h"
#include "core/loop/event_loop.h"
#include "core/loop/work_thread.h"
#include "node/layers/layer_store.h"
#include "node/volumes/asked_revisions.h"
#include "node/volumes/host_folders.h"
#include "node/volumes/shared_files.h"
#include "node/volumes/shown_volumes.h"
#include "node/volumes/volume_copies.h"
#include "node/volumes/volume_store.h"
#include "node/worker/worker.h"

namespace lambent {

class NodeVolumes {
 public:
  // The options tell a worker that is made with them where mounts lie, and what volumes take of the
  // disk; it ends before this. Blocks. Errors of --mount-allow, and of what an earlier worker left.
  static Result<std::unique_ptr<NodeVolumes>> open(const WorkerConfig& config,
                                                   loop::EventLoop& loop, LogSink& log,
                                                   worker::WorkerOptions& options,
                                                   images::ImageStore& images);
  ~NodeVolumes();
  NodeVolumes(const NodeVolumes&) = delete;
  NodeVolumes& operator=(const NodeVolumes&) = delete;

  volumes::VolumeStore& store() { return *store_; }
  // What other nodes copy: the volumes, and packages of layers.
  VolumeReading& shared() { return *shared_; }
  NodeImages& images() { return *images_; }
  // Of volumes that another node of the cluster keeps.
  volumes::VolumeCopies& copies() { return *copies_; }
  // Functions with mounts whose files are not here; worked out again every few seconds.
  const std::vector<FunctionName>& lacking();
  void forget_tenant(TenantId tenant);
  layers::LayerStore& layers() { return *layers_; }
  // Before the loop runs; both outlive its running.
  void connect(worker::Worker& worker, const AccessService& access);

 private:
  NodeVolumes(loop::EventLoop& loop, volumes::HostFolders folders)
      : loop_(loop), thread_(loop), copying_(loop), folders_(std::move(folders)) {}

  Result<void> open_copies(const WorkerConfig& config, LogSink& log);

  void describe(worker::WorkerOptions& options);
  Result<std::vector<std::string>> folders_of(const FunctionSpec& spec);
  Result<std::vector<std::string>> deployed_folders_of(const FunctionSpec& spec) const;
  Result<std::string> folder_of(const FunctionSpec& spec, const Mount& mount) const;
  bool are_here(const FunctionSpec& spec) const;
  void bring(const FunctionSpec& spec, std::function<void(Result<void>)> done);
  bool has_layers_of(const FunctionSpec& spec) const;
  // They are not here, and another node keeps them, or may: this one was not told yet.
  bool may_bring_layers_of(const FunctionSpec& spec) const;
  void bring_layers(const VolumeName& layers, std::function<void(Result<void>)> done);
  void compose(const VolumeName& layers, const std::function<void(Result<void>)>& done);
  void composed_copy(const VolumeName& layers, const Result<void>& result);
  // What was composed, lost its packages while a sandbox mounted it, and is mounted no more.
  void sweep_composed();
  // By sandboxes that are there, as they were started and as their functions are now.
  std::set<VolumeName> mounted();
  void note_shown(const FunctionSpec& spec);
  // Of the disk, by files that are no functions' packages.
  Bytes used_by(TenantId tenant) const;

  loop::EventLoop& loop_;
  loop::WorkThread thread_;
  loop::WorkThread copying_;  // so that copies do not keep uploads waiting, nor the other way
  const volumes::HostFolders folders_;
  bool in_cluster_ = false;
  std::unique_ptr<volumes::VolumeStore> store_;
  std::unique_ptr<layers::LayerStore> layers_;
  std::unique_ptr<volumes::SharedFiles> shared_;
  std::unique_ptr<NodeImages> images_;
  std::unique_ptr<volumes::VolumeStore> copied_;
  std::unique_ptr<volumes::VolumeCopies> copies_;
  volumes::AskedRevisions asked_for_;
  volumes::ShownVolumes shown_;
  std::vector<FunctionName> lacking_;
  Instant lacking_at_ = Instant::min();
  loop::TimerId sweep_;
  const AccessService* access_ = nullptr;
  worker::Worker* worker_ = nullptr;
};

}  // namespace lambent
