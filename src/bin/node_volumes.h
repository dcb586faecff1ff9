// NodeVolumes: volumes, layers and host folders of this worker, put together: the store with its
// thread, and what the worker and it ask of each other. Made by the worker's main; on the loop
// thread.
#pragma once

#include <memory>

#include "bin/worker_config.h"
#include "core/base/log.h"
#include "core/domain/access_service.h"
#include "core/loop/event_loop.h"
#include "core/loop/work_thread.h"
#include "node/layers/layer_store.h"
#include "node/volumes/host_folders.h"
#include "node/volumes/volume_store.h"
#include "node/worker/worker.h"

namespace lambent {

class NodeVolumes {
 public:
  // The options tell a worker that is made with them where mounts lie, and what volumes take of the
  // disk; it ends before this. Blocks. Errors of --mount-allow, and of what an earlier worker left.
  static Result<std::unique_ptr<NodeVolumes>> open(const WorkerConfig& config,
                                                   loop::EventLoop& loop, LogSink& log,
                                                   worker::WorkerOptions& options);

  volumes::VolumeStore& store() { return *store_; }
  layers::LayerStore& layers() { return *layers_; }
  // Before the loop runs; both outlive its running.
  void connect(worker::Worker& worker, const AccessService& access);

 private:
  NodeVolumes(loop::EventLoop& loop, volumes::HostFolders folders)
      : thread_(loop), folders_(std::move(folders)) {}

  void describe(worker::WorkerOptions& options) const;
  Result<std::vector<std::string>> folders_of(const FunctionSpec& spec) const;
  // Of the disk, by files that are no functions' packages.
  Bytes used_by(TenantId tenant) const;
  Result<void> room(const worker::Worker& worker, TenantId tenant, Bytes more) const;

  loop::WorkThread thread_;
  const volumes::HostFolders folders_;
  std::unique_ptr<volumes::VolumeStore> store_;
  std::unique_ptr<layers::LayerStore> layers_;
  const AccessService* access_ = nullptr;
};

}  // namespace lambent
