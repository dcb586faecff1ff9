// ClusterMetrics: what a node of a cluster counts of the others, and its Prometheus text. Used on
// the worker's loop thread.
#pragma once

#include <map>
#include <string>

#include "core/base/time.h"
#include "core/domain/cluster.h"
#include "core/metrics/registry.h"

namespace lambent::metrics {

class ClusterMetrics {
 public:
  ClusterMetrics();
  ClusterMetrics(const ClusterMetrics&) = delete;
  ClusterMetrics& operator=(const ClusterMetrics&) = delete;

  // A request that this node forwarded was answered, after so long.
  void forwarded(Duration took);
  // Set just before the text is asked for. The counts are never less than the last time.
  void set(const Cluster& cluster);
  // Of copies of other nodes' volumes. Likewise.
  struct VolumeCopies {
    uint64_t fetched = 0;
    uint64_t failed = 0;
    uint64_t evicted = 0;
    uint64_t under_way = 0;
    Bytes brought;
    Bytes size;
  };
  void set_volumes(const VolumeCopies& copies);
  // Whether the catalog that all nodes share was reached last.
  void set_catalog(bool reached);
  std::string text() const { return registry_.text(); }

 private:
  Registry registry_;
  Family<Gauge>& members_;
  Family<Counter>& requests_;
  Histogram& forwards_;
  Family<Gauge>& catalog_;
  Family<Counter>& volume_fetches_;
  Family<Counter>& volume_brought_;
  Family<Gauge>& volume_size_;
  Family<Gauge>& volume_under_way_;
};

}  // namespace lambent::metrics
