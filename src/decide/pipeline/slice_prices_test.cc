#include "decide/pipeline/slice_prices.h"

#include "decide/pipeline/placing.h"
#include "decide/pipeline/testing/testing.h"

namespace lambent::pipeline {
namespace {

PipelineFunction ranked(PipelineFunction function) {
  function.ranked = rank_partitions(function, {}).value();
  return function;
}
SlicePrices prices_of(std::vector<MixedFunction> mix, const std::vector<SliceShape>& shapes) {
  const auto prices = price_slices(mix, slices_of(shapes), {});
  EXPECT_TRUE(prices.ok());
  return prices.ok() ? *prices : SlicePrices();
}

TEST(SlicePrices, OfOneFunctionAreWhatASliceGivesIt) {
  const auto function = ranked(function_of(chain_of(2), {10, 10}));
  const SlicePrices prices = prices_of({{&function}}, {k1g, k1g, k4g});
  EXPECT_NEAR(prices.requests_per_s, 50 + 50 + 200, 1e-6);
  EXPECT_NEAR(prices.by_shape.at("1g.10gb"), 50, 1e-6);
  EXPECT_NEAR(prices.by_shape.at("4g.40gb"), 200, 1e-6);
}

TEST(SlicePrices, WhatNobodyCanUseIsWorthNothing) {
  const auto function = ranked(function_of(chain_of(1), {10}, {15}));
  const SlicePrices prices = prices_of({{&function}}, {k1g, k2g});
  EXPECT_NEAR(prices.requests_per_s, 200, 1e-6);
  EXPECT_EQ(prices.by_shape.at("1g.10gb"), 0);
}

TEST(SlicePrices, NeverAboveTheBoundAndNeverBelowWholeFunctions) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::vector<PipelineFunction> functions;
    for (size_t i = 0; i < 3; ++i) {
      const size_t count = 1 + random() % 4;
      std::vector<double> ms;
      std::vector<uint64_t> memory;
      for (size_t j = 0; j < count; ++j) {
        ms.push_back(static_cast<double>(1 + random() % 50));
        memory.push_back(1 + random() % 9);
      }
      functions.push_back(ranked(function_of(random_dag(count, 0.5, random), ms, memory)));
    }
    std::vector<MixedFunction> mix;
    for (const auto& each : functions)
      mix.push_back({&each, static_cast<double>(1 + random() % 3)});
    std::vector<SliceShape> shapes{k4g};
    for (size_t i = 0; i < random() % 6; ++i) {
      shapes.push_back(functions[0].shapes[random() % functions[0].shapes.size()]);
    }
    const double found = prices_of(mix, shapes).requests_per_s;
    EXPECT_LE(found, *throughput_bound(mix, slices_of(shapes), BoundKind::kCut) * (1 + 1e-9));
    EXPECT_GE(found, *throughput_bound(mix, slices_of(shapes), BoundKind::kWhole) * (1 - 1e-9));
  }
}

TEST(SlicePrices, PlacementsThatKeepTheSloCountAlone) {
  auto function = ranked(function_of(chain_of(2), {10, 10}));
  function.slo = milliseconds(15);
  const SlicePrices prices = prices_of({{&function}}, {k1g, k2g});
  EXPECT_NEAR(prices.requests_per_s, 100, 1e-6);  // on the 2g.20gb
  function.slo = milliseconds(5);                 // nothing keeps it
  EXPECT_NEAR(prices_of({{&function}}, {k1g, k2g}).requests_per_s, 150, 1e-6);
}

TEST(SlicePrices, WhatCannotBeServedHasNone) {
  const auto function = ranked(function_of(chain_of(1), {10}, {15}));
  const std::vector<MixedFunction> mix{{&function}}, none{{&function, 0}}, wrong{{&function, -1}};
  const auto code = [](const std::vector<MixedFunction>& each, const SliceShape& shape) {
    return price_slices(each, slices_of({shape}), {}).error().code;
  };
  EXPECT_EQ(code(mix, k1g), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(code(none, k2g), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(code(wrong, k2g), ErrorCode::kInvalidArgument);
}

TEST(BestThatFits, LeavesToOthersTheSlicesThatTheyCanDoMoreWith) {
  // One can be cut into even halves. The other is nearly all in one component, so that cut it
  // wastes slices. Both fit the large slice whole.
  const auto even = ranked(function_of(chain_of(2), {30, 30}, {9, 9}));
  const auto uneven = ranked(function_of(chain_of(2), {2, 58}, {9, 9}));
  const std::vector<SliceShape> shapes{k1g, k1g, k2g};
  const SlicePrices prices = prices_of({{&even}, {&uneven}}, shapes);
  const auto free = slices_of(shapes);
  const auto stage_processes = [&](const PipelineFunction& function, const SlicePrices* known) {
    return best_that_fits(function, free, {}, known)->partition.stage_processes();
  };
  EXPECT_EQ(stage_processes(even, &prices), 2u);
  EXPECT_EQ(stage_processes(uneven, &prices), 1u);
  // Who does not know takes the large one.
  EXPECT_EQ(stage_processes(even, nullptr), 1u);
}

}  // namespace
}  // namespace lambent::pipeline
