#include "core/metrics/cluster_metrics.h"

#include <algorithm>
#include <array>

namespace lambent::metrics {
namespace {

constexpr std::array kSeconds = {0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03,
                                 0.1,    0.3,    1.0,   3.0,   10.0, 30.0};

}  // namespace

ClusterMetrics::ClusterMetrics()
    : members_(registry_.family<Gauge>("lambent_cluster_members",
                                       "Nodes of the cluster by state, as this one sees them.")),
      requests_(registry_.family<Counter>("lambent_cluster_requests_total",
                                          "Requests that any node could answer, by what this node "
                                          "did with them.")),
      forwards_(registry_
                    .family<Histogram>("lambent_cluster_forward_seconds",
                                       "From forwarding a request to the end of its answer.")
                    .add({}, kSeconds)),
      catalog_(registry_.family<Gauge>("lambent_cluster_catalog_reached",
                                       "1 while the catalog that all nodes share is reached.")),
      volume_fetches_(registry_.family<Counter>("lambent_volume_fetches_total",
                                                "Copies of volumes that other nodes keep, by what "
                                                "became of them; here and below packages of layers "
                                                "are volumes.")),
      volume_brought_(registry_.family<Counter>("lambent_volume_fetched_bytes_total",
                                                "Bytes of files of volumes that came from other "
                                                "nodes.")),
      volume_size_(
          registry_.family<Gauge>("lambent_volume_copies_bytes",
                                  "Disk that copies of other nodes' volumes take, and layers "
                                  "that were unpacked of them.")),
      volume_under_way_(registry_.family<Gauge>("lambent_volume_fetches_under_way",
                                                "Volumes that are being brought from other "
                                                "nodes.")) {}

void ClusterMetrics::forwarded(Duration took) { forwards_.observe(to_seconds(took)); }

void ClusterMetrics::set(const Cluster& cluster) {
  std::map<MemberState, uint64_t> by_state = {{MemberState::kUnknown, 0},
                                              {MemberState::kUp, 0},
                                              {MemberState::kDraining, 0},
                                              {MemberState::kLost, 0}};
  for (const MemberStatus& member : cluster.members()) ++by_state[member.state];
  for (const auto& [state, count] : by_state) {
    members_.add({{"state", std::string(name_of(state))}}).set(static_cast<double>(count));
  }
  const auto raise = [this](const char* what, uint64_t count) {
    Counter& counter = requests_.add({{"what", what}});
    counter.increment(static_cast<double>(count) - counter.value());
  };
  const ClusterCounts counts = cluster.counts();
  raise("here", counts.here);
  raise("forwarded", counts.forwarded);
  raise("received", counts.received);
  raise("retried", counts.retried);
  raise("lost", counts.lost);
}

void ClusterMetrics::set_volumes(const VolumeCopies& copies) {
  const auto raise = [](Counter& counter, uint64_t count) {
    counter.increment(std::max(0.0, static_cast<double>(count) - counter.value()));
  };
  raise(volume_fetches_.add({{"outcome", "fetched"}}), copies.fetched);
  raise(volume_fetches_.add({{"outcome", "failed"}}), copies.failed);
  raise(volume_fetches_.add({{"outcome", "evicted"}}), copies.evicted);
  raise(volume_brought_.add({}), copies.brought.count);
  volume_size_.add({}).set(static_cast<double>(copies.size.count));
  volume_under_way_.add({}).set(static_cast<double>(copies.under_way));
}

void ClusterMetrics::set_catalog(bool reached) { catalog_.add({}).set(reached ? 1 : 0); }

}  // namespace lambent::metrics
