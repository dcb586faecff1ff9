// NodeImages: container images that lie on one machine of a cluster, on all nodes: what this node
// shows others of its images, and what it brings of theirs to unpack. Made by the worker's main; on
// the loop thread.
#pragma once

#include <deque>
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
  // So many are brought at once; others wait.
  static constexpr size_t kAtOnce = 2;
  // Who waits for them.
  static constexpr size_t kMostWaiting = 1000;

  // The other nodes of the cluster.
  struct Nodes {
    // Who may have an image, in the order in which they are asked. UNAVAILABLE: this node was not
    // told yet.
    std::function<Result<std::vector<std::string>>()> to_ask;
    std::function<bool(const std::string& node)> is_lost;
    std::function<std::unique_ptr<VolumeSource>(const std::string& node)> files_of;
  };

  // All that is given outlives it, and so does the store of images. Blocks.
  static Result<std::unique_ptr<NodeImages>> open(const WorkerConfig& config, loop::EventLoop& loop,
                                                  LogSink& log, images::ImageStore& images);
  ~NodeImages();
  NodeImages(const NodeImages&) = delete;
  NodeImages& operator=(const NodeImages&) = delete;

  VolumeReading& shared() { return *shared_; }
  // From now on images come from other nodes. All outlive its running.
  void connect(cluster::ClusterNode& node, const AccessService& access, objects::Disk offload);
  void connect(Nodes nodes);

 private:
  using Done = std::function<void(Result<std::string>)>;
  // One image that is coming: from one node after the other, until one has it.
  struct Coming {
    std::vector<std::string> nodes;  // yet to be asked, the first one last
    std::string node;                // that is asked
    std::unique_ptr<VolumeSource> source;
    std::shared_ptr<volumes::VolumeFetch> fetch;  // null: it waits
    Bytes reserved;                               // of the disk, for all of it
    Bytes missing;                                // of that, when the fetch began
    bool lacked_room = false;                     // for which others that end make room
    bool waits_for_room = false;                  // until one of them does
    Error problem;                                // of those that were asked
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
  void begin_next();
  void begin_soon();
  void ask_next(const std::string& name);
  void ended(const std::string& name, const Result<void>& result);
  void settle(const std::string& name, const Result<std::string>& folder);
  void release(const std::string& digest);
  bool others_make_room(const std::string& name) const;
  // Others that did not fit may now.
  void room_came();
  size_t active() const;
  // What came of it so far is kept for the next attempt, if there soon is one.
  void release_later(const std::string& name);
  // For the rest of an image that is coming, beside all others. What came in part and nothing asks
  // for gives way. RESOURCE_EXHAUSTED.
  Result<void> room(const std::string& name, Bytes more);
  // What copies take, and what those will that are coming; of that, what is not on the disk yet.
  struct Taken {
    Bytes all;
    Bytes to_come;
  };
  Taken taken(const std::string& without) const;
  Bytes size_of(const std::string& name) const;

  loop::EventLoop& loop_;
  LogSink& log_;
  images::ImageStore& images_;
  loop::WorkThread thread_;
  const std::string folder_;
  const Bytes most_;
  std::unique_ptr<volumes::VolumeStore> copies_;
  std::unique_ptr<volumes::SharedFiles> shared_;
  Nodes nodes_;
  std::map<std::string, Coming> coming_;  // by the digits of the image's digest
  std::deque<std::string> queue_;         // of those that wait for their turn
  size_t waiting_ = 0;
  size_t removing_ = 0;  // copies that leave the disk
  // Copies that came and are unpacked: how many were given each and have not released it.
  std::map<std::string, size_t> leases_;
  // Of what came in part: when it goes, by the same digits.
  std::map<std::string, loop::TimerId> leftovers_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent
