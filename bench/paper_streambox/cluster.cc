#include "bench/paper_streambox/cluster.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "bench/paper_streambox/node.h"
#include "core/base/random.h"
#include "decide/routing/hash_ring.h"

namespace lambent::paper_streambox {
namespace {

using routing::NodeIndex;

// The hash of the workflow, which all nodes have.
constexpr uint64_t kWorkflow = 0x9d2c5680;
// A call takes a GPU, on which it can always be made to fit.
constexpr Bytes kNeeds(1);

class Cluster {
 public:
  Cluster(const Constants& constants, const Models& models, const Workflow& workflow,
          const ClusterSetup& setup, std::unique_ptr<routing::Policy> policy, double length_s)
      : setup_(setup), policy_(std::move(policy)), random_(setup.seed), slo_s_(constants.slo_s) {
    std::vector<uint64_t> keys;
    for (unsigned index = 0; index < setup.nodes; ++index) {
      nodes_.push_back(std::make_unique<Node>(constants, models, workflow, setup.node));
      nodes_.back()->begin(length_s);
      keys.push_back(routing::hash_of("node" + std::to_string(index)));
    }
    ring_ = routing::HashRing::of(keys);
    reports_.resize(setup.nodes);
    outstanding_.resize(size_t{setup.nodes} * setup.nodes);
    sent_at_report_.resize(outstanding_.size());
    forwarded_.resize(setup.nodes);
    result_.by_node.resize(setup.nodes);
    result_.length_s = length_s;
  }

  ClusterResult run(const std::vector<Arrival>& arrivals) {
    for (const Arrival& arrival : arrivals) {
      while (setup_.report_s > 0 && next_report_s_ <= arrival.at_s) report();
      advance_to(arrival.at_s);
      route(arrival);
    }
    for (NodeIndex index = 0; index < nodes_.size(); ++index) add(index, nodes_[index]->finish());
    const double sum = std::accumulate(result_.latencies_s.begin(), result_.latencies_s.end(), 0.0);
    const auto answered = static_cast<double>(result_.latencies_s.size());
    result_.mean_s = answered > 0 ? sum / answered : 0;
    if (result_.requests > 0) result_.forwarded /= static_cast<double>(result_.requests);
    return std::move(result_);
  }

 private:
  struct Report {
    uint32_t load = 0;  // calls that run or wait, as a worker counts them
    routing::Warmth warmth = routing::Warmth::kNone;
    double free_bytes = 0;
  };

  // The cluster as one of its nodes sees it.
  class SeenFrom final : public routing::NodeView {
   public:
    SeenFrom(Cluster& cluster, NodeIndex entry) : cluster_(cluster), entry_(entry) {}
    uint32_t size() const override { return static_cast<uint32_t>(cluster_.nodes_.size()); }
    routing::NodeLoad node(NodeIndex index) const override {
      const Report report = cluster_.known(entry_, index);
      const bool is_old = index != entry_ && cluster_.setup_.report_s > 0;
      const uint32_t now = is_old ? cluster_.outstanding(entry_, index) : 0;
      const uint32_t then = is_old ? cluster_.sent_at_report_[entry_ * size() + index] : 0;
      return {.slots = cluster_.setup_.slots,
              .load = routing::load_since(report.load, then, now),
              .memory_free = Bytes(static_cast<uint64_t>(std::max(0.0, report.free_bytes))),
              .gpus = cluster_.setup_.node.devices};
    }
    routing::Warmth warmth(NodeIndex index, uint64_t) const override {
      return cluster_.known(entry_, index).warmth;
    }
    uint64_t total_slots() const override { return uint64_t{cluster_.setup_.slots} * size(); }
    uint64_t total_load() const override {
      uint64_t total = 0;
      for (NodeIndex index = 0; index < size(); ++index) total += node(index).load;
      return total;
    }

   private:
    Cluster& cluster_;
    const NodeIndex entry_;
  };

  Report now_at(NodeIndex index) const {
    const Node& node = *nodes_[index];
    // What ran there lately counts as fetched, as in a worker's report.
    auto warmth = node.is_there() ? routing::Warmth::kFetched : routing::Warmth::kNone;
    if (node.is_idle()) warmth = routing::Warmth::kResident;
    return {static_cast<uint32_t>(node.calls()), warmth, node.free_bytes()};
  }
  Report known(NodeIndex entry, NodeIndex index) const {
    return index == entry || setup_.report_s <= 0 ? now_at(index) : reports_[index];
  }
  // Requests that `from` sent to `to` and that have no answer.
  uint32_t outstanding(NodeIndex from, NodeIndex to) {
    std::vector<size_t>& sent = outstanding_[from * nodes_.size() + to];
    std::erase_if(sent, [&](size_t number) { return nodes_[to]->has_ended(number); });
    return static_cast<uint32_t>(sent.size());
  }

  void advance_to(double moment_s) {
    for (const auto& node : nodes_) node->advance_to(moment_s);
  }
  void report() {
    advance_to(next_report_s_);
    for (NodeIndex index = 0; index < nodes_.size(); ++index) reports_[index] = now_at(index);
    for (size_t pair = 0; pair < sent_at_report_.size(); ++pair) {
      sent_at_report_[pair] = outstanding(static_cast<NodeIndex>(pair / nodes_.size()),
                                          static_cast<NodeIndex>(pair % nodes_.size()));
    }
    next_report_s_ += setup_.report_s;
  }

  void route(Arrival arrival) {
    const size_t entries = setup_.entries == 0 ? nodes_.size() : setup_.entries;
    const auto entry = static_cast<NodeIndex>(random_.below(entries));
    const auto route = policy_->choose(
        {.function = kWorkflow, .memory = kNeeds, .entry = entry, .draw = random_.next()}, ring_,
        SeenFrom(*this, entry));
    const NodeIndex to = route->node;
    ++result_.by_node[to];
    const bool is_forwarded = to != entry;
    if (is_forwarded) arrival.at_s += setup_.hop_s;
    const size_t number = nodes_[to]->submit(arrival);
    forwarded_[to].push_back(is_forwarded);
    if (!is_forwarded) return;
    outstanding_[entry * nodes_.size() + to].push_back(number);
    ++result_.forwarded;
  }

  // A forwarded request takes two hops more than its node says.
  void add(NodeIndex index, const RunResult& run) {
    result_.requests += run.requests;
    result_.memory_bytes += run.memory_bytes;
    for (size_t number = 0; number < run.latencies_s.size(); ++number) {
      double latency_s = run.latencies_s[number];
      if (latency_s < 0) continue;
      if (forwarded_[index][number]) latency_s += 2 * setup_.hop_s;
      result_.latencies_s.push_back(latency_s);
      if (latency_s <= slo_s_) ++result_.in_time;
    }
  }

  const ClusterSetup& setup_;
  const std::unique_ptr<routing::Policy> policy_;
  SeededRandom random_;
  const double slo_s_;
  routing::HashRing ring_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Report> reports_;
  std::vector<std::vector<size_t>> outstanding_;
  std::vector<uint32_t> sent_at_report_;      // as `outstanding_`
  std::vector<std::vector<bool>> forwarded_;  // by node and number
  double next_report_s_ = 0;
  ClusterResult result_;
};

}  // namespace

Result<ClusterResult> run_cluster(const Constants& constants, const Models& models,
                                  const Workflow& workflow, const ClusterSetup& setup,
                                  const std::vector<Arrival>& arrivals, double length_s) {
  if (setup.nodes == 0) return Error{ErrorCode::kInvalidArgument, "a cluster needs a node"};
  if (setup.entries > setup.nodes) {
    return Error{ErrorCode::kInvalidArgument, "requests reach more nodes than there are"};
  }
  ASSIGN_OR_RETURN(auto policy, routing::make_policy(setup.policy, {}));
  return Cluster(constants, models, workflow, setup, std::move(policy), length_s).run(arrivals);
}

std::vector<Arrival> draw_arrivals(const Constants& constants, unsigned tenants,
                                   const std::vector<double>& moments, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<Arrival> drawn;
  for (const double at_s : moments) {
    Arrival& one = drawn.emplace_back(Arrival{.at_s = at_s});
    one.tenant = static_cast<unsigned>(random.below(tenants));
    one.cars = draw(Fan::kCars, constants.objects_mean, random);
    one.people = draw(Fan::kPeople, constants.objects_mean, random);
  }
  return drawn;
}

}  // namespace lambent::paper_streambox
