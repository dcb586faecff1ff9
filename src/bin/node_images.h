// NodeImages: container images that lie on one machine of a cluster, on all nodes: what this node
// shows others of its images, and what it brings of theirs to unpack. Made by the worker's main; on
// the loop thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bin/worker_config.h"
#include "core/base/log.h"
#include "core/loop/event_loop.h"
#include "core/loop/work_thread.h"
#include "edge/frontend/peer_volumes.h"
#include "node/cluster/cluster_node.h"
#include "node/images/store.h"
#include "node/volumes/shared_files.h"
#include "node/volumes/volume_fetch.h"
#include "node/volumes/volume_store.h"

namespace lambent {

class NodeImages {
 public:
  // All that is given outlives it, and so does the store of images. Blocks.
  static Result<std::unique_ptr<NodeImages>> open(const WorkerConfig& config, loop::EventLoop& loop,
                                                  LogSink& log, images::ImageStore& images);
  ~NodeImages();
  NodeImages(const NodeImages&) = delete;
  NodeImages& operator=(const NodeImages&) = delete;

  VolumeReading& shared() { return *shared_; }
  // From now on images come from other nodes. All outlive its running.
  void connect(cluster::ClusterNode& node, const AccessService& access, objects::Disk offload);

 private:
  using Done = std::function<void(Result<std::string>)>;
  // One image that is coming: from one node after the other, until one has it.
  struct Coming {
    std::vector<std::string> nodes;  // yet to be asked
    std::unique_ptr<frontend::PeerVolumes> source;
    std::shared_ptr<volumes::VolumeFetch> fetch;
    Error problem;  // of those that were asked
    std::vector<Done> waiting;
  };

  NodeImages(const WorkerConfig& config, loop::EventLoop& loop, LogSink& log,
             images::ImageStore& images)
      : loop_(loop),
        log_(log),
        images_(images),
        thread_(loop),
        folder_(config.state_folder + "/image_copies"),
        most_(config.images_size) {}

  void bring(const std::string& digest, Done done);
  void ask_next(const std::string& name);
  void ended(const std::string& name, const Result<void>& result);
  void settle(const std::string& name, const Result<std::string>& folder);
  void release(const std::string& digest);
  // What came of it so far is kept for the next attempt, if there soon is one.
  void release_later(const std::string& name);
  Result<void> room(Bytes more) const;

  loop::EventLoop& loop_;
  LogSink& log_;
  images::ImageStore& images_;
  loop::WorkThread thread_;
  const std::string folder_;
  const Bytes most_;
  std::unique_ptr<volumes::VolumeStore> copies_;
  std::unique_ptr<volumes::SharedFiles> shared_;
  cluster::ClusterNode* node_ = nullptr;
  const AccessService* access_ = nullptr;
  objects::Disk offload_;
  std::map<std::string, Coming> coming_;  // by the digits of the image's digest
  // Of what came in part: when it goes, by the same digits.
  std::map<std::string, loop::TimerId> leftovers_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent
