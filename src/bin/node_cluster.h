// NodeCluster: what joins this worker with other nodes: their list, the way to them, and the copy
// of the home's catalog. Made by main, after the worker; loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bin/node_quotas.h"
#include "bin/worker_config.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/loop/event_loop.h"
#include "core/metrics/cluster_metrics.h"
#include "core/protocol/device_message.h"
#include "core/tls/node_identity.h"
#include "edge/frontend/catalog_replica.h"
#include "edge/frontend/peer_objects.h"
#include "edge/frontend/peer_volumes.h"
#include "edge/frontend/routed_calls.h"
#include "node/cluster/cluster_node.h"
#include "node/cluster/fetched_functions.h"
#include "node/cluster/known_steps.h"
#include "node/cluster/node_report.h"
#include "node/objects/spill_folder.h"
#include "node/tenants/access_control.h"
#include "node/worker/worker.h"

namespace lambent {

class NodeSharedCatalog;
class NodeVolumes;

// What a node is called: as it is told, or as its machine is.
std::string node_name_of(const WorkerConfig& config);

class NodeCluster {
 public:
  // All outlive it.
  struct Dependencies {
    loop::EventLoop& loop;
    LogSink& log;
    Random& random;
    catalog::Catalog& catalog;
    worker::Worker& worker;
    tenants::AccessControl& access;
    objects::Disk disk;
    tls::NodeIdentity* identity = nullptr;  // null: nothing is encrypted
    NodeSharedCatalog* shared = nullptr;    // null: the home has the catalog
    NodeVolumes* volumes = nullptr;         // null: each node has its own
  };
  // Null without --cluster-key. Blocks. INVALID_ARGUMENT, naming the flag.
  static Result<std::unique_ptr<NodeCluster>> open(
      const WorkerConfig& config, const std::vector<protocol::DeviceInventory>& devices,
      Dependencies dependencies);

  cluster::ClusterNode& node() { return *node_; }
  // From now on objects of all nodes are found here. Both end after this one.
  void seek_objects(frontend::PeerObjects& objects, const AccessService& access);
  ~NodeCluster();
  // For Prometheus.
  std::string metrics_text();

 private:
  // So long files that were read are taken to be in memory.
  static constexpr Duration kFilesStay = std::chrono::minutes(30);

  // From now on volumes are those that the home keeps.
  void copy_volumes(const Dependencies& uses);
  void copy_catalog(const WorkerConfig& config, const Dependencies& uses);
  void route_calls(const Dependencies& uses);

  NodeCluster() : fetched_(cluster::kMostFetched, kFilesStay) {}

  metrics::ClusterMetrics metrics_;
  const NodeSharedCatalog* shared_ = nullptr;
  cluster::FetchedFunctions fetched_;
  cluster::KnownSteps steps_;
  std::unique_ptr<cluster::ClusterNode> node_;
  std::unique_ptr<frontend::RoutedCalls> calls_;
  std::unique_ptr<frontend::CatalogReplica> replica_;
  std::unique_ptr<NodeQuotas> quotas_;
  std::unique_ptr<frontend::PeerVolumes> peer_volumes_;
  NodeVolumes* volumes_ = nullptr;
};

// What a node answers others that ask for its report; empty without a cluster.
std::function<std::string()> reports_of(NodeCluster* cluster);
// Where the package with a digest lies; empty for what is no digest.
std::function<std::string(const std::string& sha256)> packages_in(const std::string& state_folder);

}  // namespace lambent
