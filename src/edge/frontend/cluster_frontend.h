// ClusterFrontend: /v1/cluster: who the members are, and what nodes ask each other. On the loop
// thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/domain/access_service.h"
#include "core/domain/cluster.h"
#include "core/domain/invocation_service.h"
#include "core/domain/version_service.h"
#include "core/domain/volume.h"
#include "core/http/server.h"
#include "edge/frontend/cluster_volumes.h"
#include "node/objects/spill_folder.h"

namespace lambent::frontend {

bool is_cluster_path(std::string_view path);

// {"source": "ray", "home": "a", "lease_seconds": 5, "members": [{"node", "address", "gpus":
// [{"name", "memory_bytes"}]}]}. INVALID_ARGUMENT. Pure; fuzzed.
Result<ClusterTold> read_members(std::string_view body);

class ClusterFrontend {
 public:
  // What a node answers others; all outlive it.
  struct Services {
    Cluster* cluster = nullptr;  // null: this node is in none
    InvocationService& functions;
    const VersionService& versions;
    AccessService& access;
    VolumeReading& volumes;
    objects::Disk disk;  // for reading packages, and digests
    std::function<std::string()> report = {};
    // The file in which the package with this digest lies.
    std::function<std::string(const std::string& sha256)> package = {};
    // Images that lie here, by their digests; null: none are told of.
    VolumeReading* images = nullptr;
    const Clock& clock;
  };
  explicit ClusterFrontend(Services services)
      : services_(std::move(services)),
        volumes_(services_.volumes, services_.access, services_.disk) {
    if (services_.images == nullptr) return;
    images_.emplace(*services_.images, services_.access, services_.disk);
  }

  void handle(const http::Request& request, http::Responder responder);

 private:
  http::Response members() const;
  // Gives a node no more work, or work again.
  void drain(const http::Request& request, const std::string& node, const std::string& verb,
             http::Responder responder);
  void catalog(const http::Request& request, http::Responder& responder);
  void function(const std::string& tenant, const std::string& name, http::Responder& responder);
  void code(const http::Request& request, http::Responder responder);
  // This node's part of a function's log.
  http::Response log(const std::string& tenant, const std::string& name,
                     std::string_view query) const;

  const Services services_;
  ClusterVolumes volumes_;
  std::optional<ClusterVolumes> images_;
};

}  // namespace lambent::frontend
