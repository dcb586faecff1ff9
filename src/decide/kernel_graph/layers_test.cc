#include "decide/kernel_graph/layers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/random.h"
#include "decide/kernel_graph/profile.h"

namespace lambent::kernel_graph {
namespace {

constexpr Access kR = Access::kRead;
constexpr Access kW = Access::kWrite;
constexpr Bytes kPage = Bytes::mib(2);

Buffer temporary(Bytes size) {
  return {
      .name = {}, .role = BufferRole::kTemporary, .type = raw_tensor(size), .file = {}, .fill = {}};
}
Step launch(std::initializer_list<std::pair<uint32_t, Access>> uses) {
  Launch launch;
  for (const auto& [buffer, access] : uses) {
    launch.arguments.emplace_back(BufferArgument{buffer, 0, access});
  }
  return launch;
}
LayerPlan planned(const KernelGraph& graph) {
  return plan_layers(graph, plan_memory(graph, order_of(graph.steps)), kPage);
}
// Each temporary is made of the one before.
KernelGraph chain(std::initializer_list<uint64_t> mib) {
  KernelGraph graph;
  for (const uint64_t each : mib) {
    const auto number = static_cast<uint32_t>(graph.buffers.size());
    graph.buffers.push_back(temporary(Bytes::mib(each)));
    graph.steps.push_back(number == 0 ? launch({{0, kW}})
                                      : launch({{number - 1, kR}, {number, kW}}));
  }
  return graph;
}
std::vector<size_t> pages_of(const LayerPlan& plan) {
  std::vector<size_t> counts;
  for (const Layer& layer : plan.layers) counts.push_back(layer.pages.size());
  return counts;
}

TEST(Layers, OfANetworkThatNarrowsHaveLessAndLess) {
  const LayerPlan plan = planned(chain({64, 32, 16, 8, 4}));
  EXPECT_EQ(plan.pages, 48u);
  EXPECT_EQ(pages_of(plan), (std::vector<size_t>{32, 48, 24, 12}));
  const MemoryProfile profile = profile_of(plan);
  EXPECT_EQ(profile.whole, Bytes::mib(96));
  ASSERT_EQ(profile.kernels.size(), 4u);
  EXPECT_EQ(profile.kernels[0].live, Bytes::mib(96)) << "that of the next layer comes meanwhile";
  EXPECT_EQ(profile.kernels[3].live, Bytes::mib(24));
}

TEST(Layers, AreNotCutWhereNothingIsGained) {
  EXPECT_EQ(pages_of(planned(chain({16, 16, 16, 16, 16}))), (std::vector<size_t>{8, 16}));
  KernelGraph small = chain({1, 1, 1});
  EXPECT_FALSE(planned(small).changes());
  small.steps.clear();
  EXPECT_TRUE(planned(small).layers.empty());
  EXPECT_FALSE(planned(KernelGraph{}).changes());
}

TEST(Layers, KeepARepeatWhole) {
  KernelGraph graph = chain({64, 8, 8});
  graph.steps.push_back(Repeat{100, kNoFlag, {launch({{1, kW}, {2, kR}}), launch({{0, kW}})}});
  const LayerPlan plan = planned(graph);
  EXPECT_EQ(plan.layers.back().pages.size(), 40u) << "all that it uses, for all of its rounds";
}

TEST(Layers, WhatIsNotNeededForAWhileIsNotKept) {
  // The second lies where the first was; between the two that place is free.
  KernelGraph graph = chain({64, 2, 2, 2, 2});
  graph.buffers.push_back(temporary(Bytes::mib(60)));
  graph.steps.push_back(launch({{4, kR}, {5, kW}}));
  const std::vector<size_t> pages = pages_of(planned(graph));
  ASSERT_GE(pages.size(), 3u);
  EXPECT_GE(pages.front(), 32u);
  EXPECT_LE(*std::ranges::min_element(pages), 5u);
  EXPECT_GE(pages.back(), 30u);
}

TEST(Layers, HaveWhatEachStepNeedsAndAreFew) {
  SeededRandom random(17);
  for (int round = 0; round < 200; ++round) {
    KernelGraph graph;
    const auto buffers = static_cast<uint32_t>(2 + random.below(20));
    for (uint32_t i = 0; i < buffers; ++i) {
      graph.buffers.push_back(temporary(Bytes(1 + random.below(uint64_t{20} << 20))));
    }
    const uint64_t steps = 1 + random.below(60);
    for (uint64_t i = 0; i < steps; ++i) {
      const auto at = static_cast<uint32_t>(i * buffers / steps);
      const auto from = static_cast<uint32_t>(random.below(at + 1));
      graph.steps.push_back(launch({{from, kR}, {at, kW}}));
    }
    const MemoryPlan memory = plan_memory(graph, order_of(graph.steps));
    const LayerPlan plan = plan_layers(graph, memory, kPage);
    ASSERT_FALSE(plan.layers.empty());
    EXPECT_LE(plan.layers.size(), kMostLayers);
    EXPECT_EQ(plan.layers.front().begin, 0u);
    const std::vector<BufferUse> uses = uses_of(graph);
    size_t layer = 0;
    for (uint32_t step = 0; step < graph.steps.size(); ++step) {
      if (layer + 1 < plan.layers.size() && plan.layers[layer + 1].begin == step) ++layer;
      const auto& pages = plan.layers[layer].pages;
      ASSERT_TRUE(std::ranges::is_sorted(pages));
      for (uint32_t i = 0; i < graph.buffers.size(); ++i) {
        if (uses[i].accesses == uint64_t{0}) continue;
        if (step < uses[i].first || step > uses[i].last) continue;
        const uint64_t end = memory.offsets[i].count + memory.sizes[i].count;
        for (uint64_t at = memory.offsets[i].count / kPage.count; at * kPage.count < end; ++at) {
          ASSERT_TRUE(std::ranges::binary_search(pages, static_cast<uint32_t>(at)));
        }
      }
    }
    EXPECT_EQ(layer + 1, plan.layers.size());
  }
}

TEST(Layers, OfALargeBlockArePlannedInLargerPieces) {
  const LayerPlan plan = planned(chain({32 << 10, 16 << 10, 8 << 10}));
  EXPECT_EQ(plan.pages, (48u << 10) / 2);
  const size_t exact[] = {16 << 10, 24 << 10, 12 << 10};
  ASSERT_EQ(plan.layers.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_GE(plan.layers[i].pages.size(), exact[i]);
    EXPECT_LE(plan.layers[i].pages.size(), exact[i] + 12);
  }
}

}  // namespace
}  // namespace lambent::kernel_graph
