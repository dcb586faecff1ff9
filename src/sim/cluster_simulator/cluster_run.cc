#include "sim/cluster_simulator/cluster_run.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <unordered_map>

#include "core/base/random.h"

namespace lambent::cluster_simulator {
namespace {

using routing::NodeIndex;
using routing::Warmth;

struct Request {
  Duration at{};
  uint32_t function = 0;
  NodeIndex entry = 0;
  NodeIndex node = 0;
};

struct Due {
  Duration at{};
  uint64_t order = 0;
  uint64_t invocation = 0;
  bool arrives = false;  // at its node; else its run ends
  auto operator<=>(const Due&) const = default;
};

// What the nodes last told each other.
struct Report {
  uint32_t load = 0;
  Bytes memory_free;
  std::vector<std::pair<uint32_t, Warmth>> warm;
};

uint64_t hash_of_function(uint32_t function) { return routing::hash_of(uint64_t{function}); }

class Cluster {
 public:
  Cluster(const ClusterOptions& options, const std::vector<FunctionModel>& functions,
          std::unique_ptr<routing::Policy> policy)
      : options_(options), policy_(std::move(policy)), random_(options.seed) {
    std::vector<uint64_t> keys;
    for (NodeIndex index = 0; index < options.nodes; ++index) {
      nodes_.emplace_back(options.node, functions);
      keys.push_back(routing::hash_of("node" + std::to_string(index)));
    }
    ring_ = routing::HashRing::of(keys);
    for (uint32_t each = 0; each < functions.size(); ++each) {
      functions_by_hash_.emplace(hash_of_function(each), each);
      memory_.push_back(functions[each].memory);
    }
    reports_.resize(options.nodes);
    report();
  }

  ClusterFigures run(workload::ArrivalSource& arrivals) {
    for (auto next = arrivals.next(); next; next = arrivals.next()) {
      advance_to(next->at);
      route(*next);
    }
    advance_to(Duration::max());
    return figures();
  }

 private:
  // Requests by the node that they reached and the one that has them.
  using Pairs = std::unordered_map<uint64_t, uint32_t>;

  // The cluster as one of its nodes sees it.
  class SeenFrom final : public routing::NodeView {
   public:
    SeenFrom(const Cluster& cluster, NodeIndex entry) : cluster_(cluster), entry_(entry) {}
    uint32_t size() const override { return static_cast<uint32_t>(cluster_.nodes_.size()); }
    routing::NodeLoad node(NodeIndex index) const override {
      const uint32_t slots = cluster_.options_.node.slots();
      if (knows(index)) {
        return {true, slots, cluster_.nodes_[index].load(), cluster_.nodes_[index].memory_free(),
                cluster_.options_.node.gpus};
      }
      const Report& report = cluster_.reports_[index];
      const uint32_t sent_then = of_pair(cluster_.outstanding_at_report_, entry_, index);
      const uint32_t sent_now = of_pair(cluster_.outstanding_, entry_, index);
      return {true, slots, routing::load_since(report.load, sent_then, sent_now),
              report.memory_free, cluster_.options_.node.gpus};
    }
    Warmth warmth(NodeIndex index, uint64_t hash) const override {
      const uint32_t function = cluster_.functions_by_hash_.at(hash);
      if (knows(index)) return cluster_.nodes_[index].warmth(function);
      const auto& warm = cluster_.reports_[index].warm;
      const auto found =
          std::lower_bound(warm.begin(), warm.end(), std::pair(function, Warmth::kNone));
      return found != warm.end() && found->first == function ? found->second : Warmth::kNone;
    }
    uint64_t total_slots() const override {
      return uint64_t{cluster_.options_.node.slots()} * cluster_.nodes_.size();
    }
    // Without what this node sent since, which is little of all, and would be a sum over all nodes
    // for each decision.
    uint64_t total_load() const override {
      return cluster_.at_once() ? cluster_.load_ : cluster_.reported_load_;
    }

   private:
    bool knows(NodeIndex index) const { return index == entry_ || cluster_.at_once(); }

    const Cluster& cluster_;
    const NodeIndex entry_;
  };

  bool at_once() const { return options_.report_period == Duration::zero(); }
  static uint32_t of_pair(const Pairs& counts, NodeIndex from, NodeIndex to) {
    const auto found = counts.find(uint64_t{from} << 32 | to);
    return found == counts.end() ? 0 : found->second;
  }

  void report() {
    reported_load_ = load_;
    outstanding_at_report_ = outstanding_;
    for (NodeIndex index = 0; index < nodes_.size(); ++index) {
      reports_[index] = {nodes_[index].load(), nodes_[index].memory_free(),
                         nodes_[index].warm_functions()};
    }
    next_report_ += options_.report_period;
  }

  void advance_to(Duration instant) {
    for (;;) {
      const Duration next = due_.empty() ? Duration::max() : due_.top().at;
      if (!at_once() && next_report_ <= std::min(next, instant) &&
          next_report_ != Duration::max()) {
        // After the last arrival only the ends count.
        if (instant == Duration::max() && due_.empty()) return;
        report();
        continue;
      }
      if (due_.empty() || next > instant) return;
      const Due due = due_.top();
      due_.pop();
      now_ = due.at;
      due.arrives ? arrive(due.invocation) : end(due.invocation);
    }
  }

  void route(const workload::Arrival& arrival) {
    now_ = arrival.at;
    Request request{.at = arrival.at,
                    .function = arrival.function,
                    .entry = static_cast<NodeIndex>(
                        random_.below(options_.entries == 0 ? nodes_.size() : options_.entries))};
    const auto route = policy_->choose({.function = hash_of_function(arrival.function),
                                        .memory = memory_[arrival.function],
                                        .entry = request.entry,
                                        .draw = random_.next()},
                                       ring_, SeenFrom(*this, request.entry));
    request.node = route->node;
    requests_.push_back(request);
    ++load_;
    if (request.node == request.entry) return arrive(requests_.size() - 1);
    ++forwarded_;
    ++outstanding_[uint64_t{request.entry} << 32 | request.node];
    due_.push({now_ + options_.hop, order_++, requests_.size() - 1, true});
  }

  void arrive(uint64_t invocation) {
    const Request& request = requests_[invocation];
    nodes_[request.node].submit(invocation, request.function);
    begin_at(request.node);
  }

  void begin_at(NodeIndex index) {
    ModelledNode& node = nodes_[index];
    while (const auto begun = node.begin()) {
      cold_ += begun->start == Start::kCold ? 1 : 0;
      fetched_ += begun->fetched ? 1 : 0;
      swapped_in_ += begun->start == Start::kSwapIn ? 1 : 0;
      due_.push({now_ + begun->takes, order_++, begun->invocation, false});
    }
    most_load_ = std::max(most_load_, node.load());
  }

  void end(uint64_t invocation) {
    const Request& request = requests_[invocation];
    const bool forwarded = request.node != request.entry;
    latencies_.push_back(to_seconds(now_ - request.at + (forwarded ? options_.hop : Duration())));
    --load_;
    if (forwarded) {
      const auto found = outstanding_.find(uint64_t{request.entry} << 32 | request.node);
      if (--found->second == 0) outstanding_.erase(found);
    }
    nodes_[request.node].end(request.function);
    begin_at(request.node);
  }

  ClusterFigures figures() {
    ClusterFigures figures;
    figures.invocations = latencies_.size();
    if (latencies_.empty()) return figures;
    const auto count = static_cast<double>(latencies_.size());
    std::sort(latencies_.begin(), latencies_.end());
    figures.mean_s = std::accumulate(latencies_.begin(), latencies_.end(), 0.0) / count;
    figures.p50_s = latencies_[latencies_.size() / 2];
    figures.p99_s = latencies_[latencies_.size() * 99 / 100];
    figures.cold = static_cast<double>(cold_) / count;
    figures.fetched = static_cast<double>(fetched_) / count;
    figures.swapped_in = static_cast<double>(swapped_in_) / count;
    figures.forwarded = static_cast<double>(forwarded_) / count;
    figures.most_load = static_cast<double>(most_load_) / options_.node.slots();
    return figures;
  }

  const ClusterOptions& options_;
  const std::unique_ptr<routing::Policy> policy_;
  SeededRandom random_;
  routing::HashRing ring_;
  std::vector<ModelledNode> nodes_;
  std::unordered_map<uint64_t, uint32_t> functions_by_hash_;
  std::vector<Bytes> memory_;
  std::vector<Report> reports_;
  Duration next_report_{};
  uint64_t reported_load_ = 0;
  Pairs outstanding_, outstanding_at_report_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::vector<Request> requests_;
  std::vector<double> latencies_;
  Duration now_{};
  uint64_t order_ = 0, load_ = 0, cold_ = 0, fetched_ = 0, swapped_in_ = 0, forwarded_ = 0;
  uint32_t most_load_ = 0;
};

}  // namespace

Result<ClusterFigures> run_cluster(const ClusterOptions& options,
                                   const std::vector<FunctionModel>& functions,
                                   workload::ArrivalSource& arrivals) {
  if (options.nodes == 0 || functions.empty()) {
    return Error{ErrorCode::kInvalidArgument, "a cluster needs a node and a function"};
  }
  if (options.entries > options.nodes) {
    return Error{ErrorCode::kInvalidArgument, "requests reach more nodes than there are"};
  }
  ASSIGN_OR_RETURN(auto policy, routing::make_policy(options.policy, options.policy_options));
  return Cluster(options, functions, std::move(policy)).run(arrivals);
}

}  // namespace lambent::cluster_simulator
