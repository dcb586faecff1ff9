#include "decide/kernel_graph/layers.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "core/base/check.h"
#include "decide/kernel_graph/profile.h"

namespace lambent::kernel_graph {
namespace {

using Pages = std::vector<uint32_t>;  // ascending

// Of a larger block so many pages are one to the planner, which bounds its work.
constexpr uint64_t kMostPlanned = 4096;

// Which pages live from step to step, and the layers that come of it.
class LayerMaker {
 public:
  LayerMaker(const KernelGraph& graph, const MemoryPlan& plan, uint32_t pages, Bytes page)
      : steps_(static_cast<uint32_t>(graph.steps.size())), pages_(pages), changes_(steps_ + 1) {
    const std::vector<BufferUse> uses = uses_of(graph);
    for (uint32_t i = 0; i < graph.buffers.size(); ++i) {
      const bool is_used = uses[i].accesses != uint64_t{0} && plan.sizes[i] > Bytes(0);
      if (graph.buffers[i].role != BufferRole::kTemporary || !is_used) continue;
      const uint64_t first = plan.offsets[i].count / page.count;
      const uint64_t last = (plan.offsets[i].count + plan.sizes[i].count - 1) / page.count;
      const auto add = [&](uint32_t step, bool comes) {
        changes_[step].push_back(
            {static_cast<uint32_t>(first), static_cast<uint32_t>(last + 1), comes});
      };
      add(uses[i].first, true);
      add(uses[i].last + 1, false);
    }
  }

  // The most pages that a step needs.
  size_t most() {
    begin();
    size_t most = 0;
    for (uint32_t step = 0; step < steps_; ++step) {
      apply(step);
      most = std::max(most, live_);
    }
    return most;
  }

  // Each layer is as long as none of its steps lacks more than `slack` of its pages. None if there
  // are more than kMostLayers.
  std::optional<std::vector<Layer>> make(size_t slack) {
    begin();
    std::vector<Layer> layers;
    std::vector<bool> taken(pages_, false);  // by the open layer
    size_t count = 0, least = 0;             // pages of it, and of the step that needs the fewest
    const auto close = [&] {
      for (uint32_t at = 0; at < pages_; ++at) {
        if (taken[at]) layers.back().pages.push_back(at);
      }
    };
    for (uint32_t step = 0; step < steps_; ++step) {
      const Pages come = apply(step);
      const auto is_new = [&](uint32_t page) { return counts_[page] > 0 && !taken[page]; };
      const auto more = static_cast<size_t>(std::ranges::count_if(come, is_new));
      least = std::min(least, live_);
      if (!layers.empty() && count + more <= least + slack) {
        for (const uint32_t page : come) taken[page] = taken[page] || is_new(page);
        count += more;
        continue;
      }
      if (!layers.empty()) close();
      if (layers.size() == kMostLayers) return std::nullopt;
      layers.push_back({step, {}});
      for (uint32_t at = 0; at < pages_; ++at) taken[at] = counts_[at] > 0;
      count = least = live_;
    }
    if (!layers.empty()) close();
    return layers;
  }

 private:
  struct Change {
    uint32_t begin = 0, end = 0;
    bool comes = false;
  };

  void begin() {
    counts_.assign(pages_, 0);
    live_ = 0;
  }
  // The pages that come with the step, each once.
  Pages apply(uint32_t step) {
    Pages come;
    for (const Change& change : changes_[step]) {
      for (uint32_t page = change.begin; page < change.end; ++page) {
        if (change.comes) {
          if (counts_[page]++ > 0) continue;
          ++live_;
          come.push_back(page);
        } else if (--counts_[page] == 0) {
          --live_;
        }
      }
    }
    std::ranges::sort(come);
    come.erase(std::unique(come.begin(), come.end()), come.end());
    return come;
  }

  const uint32_t steps_, pages_;
  std::vector<std::vector<Change>> changes_;  // by step; one more for the end
  std::vector<uint32_t> counts_;              // by page: buffers that live on it
  size_t live_ = 0;                           // pages with any
};

Pages all_of(const Pages& a, const Pages& b) {
  Pages sum;
  std::ranges::set_union(a, b, std::back_inserter(sum));
  return sum;
}

}  // namespace

LayerPlan plan_layers(const KernelGraph& graph, const MemoryPlan& plan, Bytes page) {
  CHECK(page > Bytes(0), "pages have a size");
  LayerPlan made;
  made.page = page;
  made.pages = static_cast<uint32_t>((plan.temporaries.count + page.count - 1) / page.count);
  // So many of them are planned as one.
  const auto together = static_cast<uint32_t>((made.pages + kMostPlanned - 1) / kMostPlanned);
  if (together == 0) {
    if (!graph.steps.empty()) made.layers.push_back({});
    return made;
  }
  LayerMaker maker(graph, plan, (made.pages + together - 1) / together, page * together);
  std::optional<std::vector<Layer>> layers;
  for (size_t slack = std::max<size_t>(1, maker.most() / 8); !layers; slack *= 2) {
    layers = maker.make(slack);
  }
  for (Layer& layer : *layers) {
    Pages pages;
    for (const uint32_t each : layer.pages) {
      for (uint32_t at = each * together; at < std::min((each + 1) * together, made.pages); ++at) {
        pages.push_back(at);
      }
    }
    layer.pages = std::move(pages);
  }
  made.layers = std::move(*layers);
  return made;
}

MemoryProfile profile_of(const LayerPlan& plan) {
  MemoryProfile profile;
  profile.whole = plan.page * plan.pages;
  for (size_t at = 0; at < plan.layers.size(); ++at) {
    const Pages& own = plan.layers[at].pages;
    const bool is_last = at + 1 == plan.layers.size();
    const size_t count = is_last ? own.size() : all_of(own, plan.layers[at + 1].pages).size();
    profile.kernels.push_back({.duration = {}, .live = plan.page * count});
  }
  return profile;
}

}  // namespace lambent::kernel_graph
