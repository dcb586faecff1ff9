#include "decide/pipeline/placing.h"

#include <algorithm>

#include "decide/pipeline/hand_over.h"
#include "decide/pipeline/testing/testing.h"

namespace lambent::pipeline {
namespace {

std::vector<uint32_t> ids(const std::optional<Placement>& placement) {
  std::vector<uint32_t> found;
  if (!placement) return found;
  for (const DeviceId each : placement->slices) found.push_back(each.value);
  return found;
}
using Ids = std::vector<uint32_t>;

TEST(Place, TakesTheSmallestSlicesThatFit) {
  const auto function = function_of(chain_of(2), {20, 80}, {5, 15});
  const Partition cut = chain_cut({{0}, {1}});
  EXPECT_EQ(ids(place(function, cut, slices_of({k4g, k3g, k2g, k1g}), {})), (Ids{4, 3}));
  EXPECT_EQ(ids(place(function, cut, slices_of({k4g, k2g, k3g}), {})), (Ids{2, 3}));
  EXPECT_EQ(ids(place_on_largest(function, cut, slices_of({k1g, k2g, k3g, k4g}), {})), (Ids{3, 4}));
}

TEST(Place, TheLongestStageProcessHasTheFastestOfThem) {
  const auto function = function_of(chain_of(3), {10, 40, 20});
  const auto placement =
      place(function, chain_cut({{0}, {1}, {2}}), slices_of({k1g, k2g, k4g}), {});
  EXPECT_EQ(ids(placement), (Ids{1, 3, 2}));
  EXPECT_EQ(placement->bottleneck, milliseconds(10));
  EXPECT_EQ(placement->latency, milliseconds(30));
}

TEST(Place, TheStageThatBatchesHoldUpHasTheFastestOfThem) {
  PipelineFunction function = function_of(chain_of(2), {10, 30});
  function.most_batch = 8;
  const Partition cut = chain_cut({{0}, {1}});
  const std::vector<Slice> slices = slices_of({k1g, k2g});
  EXPECT_EQ(place(function, cut, slices, {})->slices, (std::vector{slices[0].id, slices[1].id}));
  function.profile.components[1].batch_times_by_shape = {{k1g.name, {{8, milliseconds(40)}}},
                                                         {k2g.name, {{8, milliseconds(20)}}}};
  const auto placed = place(function, cut, slices, {});
  EXPECT_EQ(placed->slices, (std::vector{slices[1].id, slices[0].id}));
  EXPECT_NEAR(capacity_of(*placed, function.slo).per_s(), 200, 0.1);
  EXPECT_NEAR(capacity_of(*placed, milliseconds(20)).per_s(), 1 / 0.030, 0.1)
      << "no batch keeps that";
}

TEST(Place, EachStageProcessHasASliceToItself) {
  const auto function = function_of(chain_of(2), {10, 10});
  EXPECT_EQ(place(function, chain_cut({{0}, {1}}), slices_of({k4g}), {}), std::nullopt);
  EXPECT_EQ(place(function, chain_cut({{0, 1}}), {}, {}), std::nullopt);
}

TEST(Place, AllSlicesAreOfOneNode) {
  const auto function = function_of(chain_of(2), {10, 10}, {5, 15});
  auto free = slices_of({k1g, k1g, k2g, k4g});
  free[0].node = 0;
  free[1].node = free[3].node = 1;
  free[2].node = 2;
  EXPECT_EQ(ids(place(function, chain_cut({{0}, {1}}), free, {})), (Ids{2, 4}));
  free[3].node = 3;
  EXPECT_EQ(place(function, chain_cut({{0}, {1}}), free, {}), std::nullopt);
}

TEST(Place, LoadsOverTheLinksOfTheGpus) {
  auto function = function_of(chain_of(2), {10, 10});
  for (auto& each : function.profile.components) each.weights = Bytes(1'000'000'000);
  auto free = slices_of({k1g, k1g});
  EXPECT_EQ(place(function, chain_cut({{0}, {1}}), free, {.load_gb_per_s = 10})->load,
            milliseconds(200));
  free[1].gpu = 1;
  EXPECT_EQ(place(function, chain_cut({{0}, {1}}), free, {.load_gb_per_s = 10})->load,
            milliseconds(100));
}

// All ways to give each stage process a slice of its own, by hand.
void for_all_assignments(size_t stage_processes, size_t slices, const auto& visit) {
  std::vector<size_t> taken;
  const auto next = [&](const auto& again) -> void {
    if (taken.size() == stage_processes) return visit(taken);
    for (size_t i = 0; i < slices; ++i) {
      if (std::find(taken.begin(), taken.end(), i) != taken.end()) continue;
      taken.push_back(i);
      again(again);
      taken.pop_back();
    }
  };
  next(next);
}

TEST(Place, TakesAsFewMultiprocessorsAsAnyPlacement) {
  const std::vector<SliceShape> shapes{k1g, k2g, k3g, k4g, {"1g.20gb", 14, Bytes::gib(20)}};
  size_t fits = 0, quickest = 0;
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const size_t stage_processes = 1 + random() % 4;
    std::vector<double> ms;
    std::vector<uint64_t> memory;
    std::vector<std::vector<size_t>> stages;
    for (size_t i = 0; i < stage_processes; ++i) {
      ms.push_back(static_cast<double>(1 + random() % 50));
      memory.push_back(1 + random() % 35);
      stages.push_back({i});
    }
    auto function = function_of(chain_of(stage_processes), ms, memory);
    function.shapes = shapes;
    std::vector<SliceShape> of;
    for (size_t i = 0; i < 1 + random() % 6; ++i) of.push_back(shapes[random() % shapes.size()]);
    const auto free = slices_of(of);
    const Partition cut = chain_cut(stages);

    uint64_t fewest = UINT64_MAX;
    Duration shortest = Duration::max();  // of those on so few
    for_all_assignments(stage_processes, free.size(), [&](const std::vector<size_t>& taken) {
      uint64_t multiprocessors = 0;
      std::vector<const SliceShape*> on;
      for (size_t i = 0; i < stage_processes; ++i) {
        if (free[taken[i]].shape.memory < Bytes::gib(memory[i])) return;
        on.push_back(&free[taken[i]].shape);
        multiprocessors += on.back()->multiprocessors;
      }
      if (multiprocessors > fewest) return;
      if (multiprocessors < fewest) shortest = Duration::max();
      fewest = multiprocessors;
      shortest = std::min(shortest, timing_of(function, cut, on, {}).bottleneck);
    });

    const auto placement = place(function, cut, free, {});
    ASSERT_EQ(placement.has_value(), fewest != UINT64_MAX);
    if (!placement) continue;
    ++fits;
    uint64_t multiprocessors = 0;
    for (size_t i = 0; i < stage_processes; ++i) {
      const Slice& slice = free[placement->slices[i].value - 1];
      ASSERT_GE(slice.shape.memory, Bytes::gib(memory[i]));
      multiprocessors += slice.shape.multiprocessors;
    }
    EXPECT_EQ(multiprocessors, fewest);
    quickest += placement->bottleneck == shortest;
  }
  EXPECT_GT(fits, 200u);
  // Which of several sets with as few multiprocessors is taken is not looked at.
  EXPECT_GE(quickest * 100, fits * 97) << quickest << " of " << fits;
}

TEST(FirstThatFits, GoesDownTheRanking) {
  auto function = function_of(chain_of(3), {10, 20, 30}, {9, 9, 9});
  function.ranked = rank_partitions(function, {}).value();
  EXPECT_EQ(text_of(first_that_fits(function, slices_of({k4g, k2g, k1g}), {})->partition), "0 1 2");
  EXPECT_EQ(text_of(first_that_fits(function, slices_of({k2g, k1g}), {})->partition), "0 1 | 2");
  EXPECT_EQ(text_of(first_that_fits(function, slices_of({k1g, k1g, k1g}), {})->partition),
            "0 | 1 | 2");
  EXPECT_EQ(first_that_fits(function, slices_of({k1g, k1g}), {}), std::nullopt);
}

TEST(BestThatFits, LooksAtTheSlicesThatThereAre) {
  // Balanced on slices of one shape it is "0 | 1"; on a 1g and a 4g it is not.
  auto function = function_of(chain_of(3), {20, 60, 20}, {8, 8, 8});
  function.ranked = rank_partitions(function, {}).value();
  const auto free = slices_of({k1g, k4g});
  EXPECT_EQ(text_of(best_that_fits(function, free, {})->partition), "0 1 2");
  // Too large for one: the long part goes to the large slice.
  auto large = function_of(chain_of(3), {20, 60, 20}, {10, 20, 20});
  large.ranked = rank_partitions(large, {}).value();
  const auto placement = best_that_fits(large, free, {});
  ASSERT_TRUE(placement);
  EXPECT_EQ(text_of(placement->partition), "0 | 1 2");
  EXPECT_EQ(placement->bottleneck, milliseconds(20));
  const std::vector<const SliceShape*> shapes{&k1g, &k4g};
  EXPECT_NEAR(efficiency_of(large, *placement, shapes), 1, 1e-9);
}

TEST(BestThatFits, PrefersWhatKeepsItsPromise) {
  auto function = function_of(chain_of(2), {40, 40}, {3, 3});
  function.ranked = rank_partitions(function, {}).value();
  const auto free = slices_of({k1g, k4g});
  EXPECT_EQ(ids(best_that_fits(function, free, {})), (Ids{1}));
  function.slo = milliseconds(30);
  EXPECT_EQ(ids(best_that_fits(function, free, {})), (Ids{2}));
}

TEST(WhyNot, SaysWhatIsMissing) {
  const auto function = function_of(chain_of(3), {10, 10, 10}, {9, 15, 9});
  const Partition cut = chain_cut({{0}, {1}, {2}});
  EXPECT_EQ(why_not(function, cut, slices_of({k1g, k1g, k2g})), "");
  EXPECT_EQ(why_not(function, cut, slices_of({k1g, k2g})),
            "needs 3 slices of one node, 2 are free");
  EXPECT_EQ(why_not(function, cut, slices_of({k1g, k1g, k1g})),
            "needs 1 slice with at least 15 GiB, the largest has 10 GiB");
  EXPECT_EQ(why_not(function, chain_cut({{0, 1}, {2}}), {}),
            "needs 2 slices of one node, 0 are free");
  EXPECT_EQ(why_not(function, chain_cut({{0, 1}, {1, 2}}), slices_of({k4g, k2g})),
            "needs 2 slices with at least 24 GiB, the next largest has 20 GiB");
}

TEST(WhatWouldFit, SaysWhatWouldHaveToBeFree) {
  auto function = function_of(chain_of(3), {10, 10, 10}, {9, 9, 9});
  function.ranked = rank_partitions(function, {}).value();
  EXPECT_EQ(what_would_fit(function),
            "a slice with 27 GiB (3g.40gb), or 2 slices of one node with 18 GiB + 9 GiB (2g.20gb + "
            "1g.10gb), or 3 slices of one node with 9 GiB + 9 GiB + 9 GiB (1g.10gb + 1g.10gb + "
            "1g.10gb)");
}

}  // namespace
}  // namespace lambent::pipeline
