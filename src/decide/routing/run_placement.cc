#include "decide/routing/run_placement.h"

#include <algorithm>
#include <iterator>

namespace lambent::routing {
namespace {

size_t steps_held(const NodeView& view, NodeIndex node, const std::vector<Step>& steps) {
  return static_cast<size_t>(
      std::ranges::count_if(steps, [&](const Step& step) { return holds(view, node, step); }));
}

// The cluster as a run sees it, which is all its steps in one.
class SeenByRun final : public NodeView {
 public:
  SeenByRun(const NodeView& view, const std::vector<Step>& steps) : view_(view) {
    for (NodeIndex node = 0; node < view.size(); ++node) {
      held_.push_back(steps_held(view, node, steps));
      if (view.node(node).takes_work) most_ = std::max(most_, held_.back());
    }
    // What is the same on each node would hide what the other steps say.
    std::ranges::copy_if(steps, std::back_inserter(known_), [&](const Step& step) {
      for (NodeIndex node = 0; node < view.size(); ++node) {
        if (view.warmth(node, step.function) != Warmth::kNone) return true;
      }
      return false;
    });
  }

  uint32_t size() const override { return view_.size(); }
  NodeLoad node(NodeIndex index) const override { return view_.node(index); }
  uint64_t total_slots() const override { return view_.total_slots(); }
  uint64_t total_load() const override { return view_.total_load(); }
  bool could_hold(NodeIndex index, unsigned, Bytes) const override { return held_[index] == most_; }
  Warmth warmth(NodeIndex index, uint64_t) const override {
    // What is warm where a step does not fit keeps no run there.
    if (known_.empty() || held_[index] != most_) return Warmth::kNone;
    Warmth coldest = Warmth::kResident;
    for (const Step& step : known_) {
      coldest = std::min(coldest, view_.warmth(index, step.function));
    }
    return coldest;
  }

 private:
  const NodeView& view_;
  std::vector<size_t> held_;  // of the steps, by node
  size_t most_ = 0;
  std::vector<Step> known_;  // of which some node says anything
};

// The cluster as a function sees it that only some of its nodes can serve.
class SeenByFew final : public NodeView {
 public:
  SeenByFew(const NodeView& view, const std::vector<bool>& may) : view_(view), may_(may) {}

  uint32_t size() const override { return view_.size(); }
  NodeLoad node(NodeIndex index) const override { return view_.node(index); }
  uint64_t total_slots() const override { return view_.total_slots(); }
  uint64_t total_load() const override { return view_.total_load(); }
  bool could_hold(NodeIndex index, unsigned, Bytes) const override { return may_[index]; }
  Warmth warmth(NodeIndex index, uint64_t function) const override {
    return may_[index] ? view_.warmth(index, function) : Warmth::kNone;
  }

 private:
  const NodeView& view_;
  const std::vector<bool>& may_;
};

}  // namespace

bool holds(const NodeView& view, NodeIndex node, const Step& step) {
  return step.gpus == 0 || view.could_hold(node, step.gpus, step.memory);
}

std::optional<Route> place_run(const Policy& policy, RouteRequest request,
                               const std::vector<Step>& steps, const HashRing& ring,
                               const NodeView& view) {
  const SeenByRun seen(view, steps);
  request.memory = Bytes();
  for (const Step& step : steps) request.memory += Bytes(step.memory.count * step.gpus);
  request.gpus = 1;  // so that it is asked which nodes count
  return policy.choose(request, ring, seen);
}

std::optional<Route> place_among(const Policy& policy, RouteRequest request,
                                 const std::vector<bool>& may, const HashRing& ring,
                                 const NodeView& view) {
  request.gpus = 1;  // so that it is asked which nodes count
  return policy.choose(request, ring, SeenByFew(view, may));
}

}  // namespace lambent::routing
