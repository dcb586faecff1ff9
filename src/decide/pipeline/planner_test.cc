#include "decide/pipeline/planner.h"

#include "decide/pipeline/limits.h"
#include "decide/pipeline/placing.h"
#include "decide/pipeline/testing/testing.h"

namespace lambent::pipeline {
namespace {

using testing::HasSubstr;

std::vector<std::string> ranked(const PipelineFunction& function, PlannerOptions options = {}) {
  std::vector<std::string> found;
  const auto partitions = rank_partitions(function, options);
  EXPECT_TRUE(partitions.ok());
  for (const Partition& each : *partitions) found.push_back(text_of(each));
  return found;
}
const RankedPartition& find(const std::vector<RankedPartition>& all, const std::string& text) {
  for (const RankedPartition& each : all) {
    if (text_of(each.partition) == text) return each;
  }
  ADD_FAILURE() << "no " << text;
  return all.front();
}

TEST(Balance, OrdersByTheCoefficientOfVariation) {
  const auto all = judge_partitions(function_of(chain_of(3), {10, 20, 30}), {});
  ASSERT_TRUE(all.ok());
  // 30 and 30; 10 and 50: mean 30, deviation 20; 10, 20, 30: mean 20, deviation sqrt(200 / 3).
  EXPECT_DOUBLE_EQ(find(*all, "0 1 | 2").variation, 0);
  EXPECT_NEAR(find(*all, "0 | 1 2").variation, 20.0 / 30, 1e-12);
  EXPECT_NEAR(find(*all, "0 | 1 | 2").variation, std::sqrt(200.0 / 3) / 20, 1e-12);
  EXPECT_EQ(ranked(function_of(chain_of(3), {10, 20, 30})),
            (std::vector<std::string>{"0 1 2", "0 1 | 2", "0 | 1 | 2", "0 | 1 2"}));
}

TEST(Balance, TheTimeOfAStageIsThatOfItsLongestStageProcess) {
  const auto function = function_of(dag_of(4, {{0, 1}, {0, 2}, {1, 3}, {2, 3}}), {20, 5, 20, 20});
  const auto all = judge_partitions(function, {});
  const RankedPartition& forked = find(*all, "0 | 1, 2 | 3");
  EXPECT_EQ(forked.stage_times, (std::vector<Duration>(3, milliseconds(20))));
  EXPECT_DOUBLE_EQ(forked.variation, 0);
}

TEST(Balance, EachStageProcessIsJudgedOnTheSmallestShapeThatItFits) {
  // The second needs a 2g.20gb, on which it is twice as fast.
  const auto all = judge_partitions(function_of(chain_of(2), {20, 40}, {5, 15}), {});
  const RankedPartition& cut = find(*all, "0 | 1");
  EXPECT_EQ(cut.shapes, (std::vector<SliceShape>{k1g, k2g}));
  EXPECT_EQ(cut.stage_times, (std::vector<Duration>{milliseconds(20), milliseconds(20)}));
}

TEST(Balance, OptionalComponentsWeighAsOftenAsTheyRun) {
  auto function = function_of(chain_of(2), {20, 40});
  function.dag.components[1].optional = true;
  function.profile.components[1].probability = 0.5;
  const auto all = judge_partitions(function, {});
  EXPECT_DOUBLE_EQ(find(*all, "0 | 1").variation, 0);
  EXPECT_EQ(time_of(function, StageProcess{{0, 1}}, k1g), milliseconds(40));
}

TEST(Balance, AComponentThatNeverRanTakesNoTime) {
  auto function = function_of(chain_of(2), {20, 40});
  function.dag.components[1].optional = true;
  function.profile.components[1].probability = 0;
  function.profile.components[1].time_by_shape.clear();
  EXPECT_EQ(time_of(function, StageProcess{{0, 1}}, k1g), milliseconds(20));
  EXPECT_EQ(expected_time(function, StageProcess{{1}}, k1g), Duration{});
}

TEST(Balance, OfEqualOnesThoseWithFewerStagesComeFirst) {
  EXPECT_EQ(ranked(function_of(chain_of(4), {10, 10, 10, 10}))[0], "0 1 2 3");
  EXPECT_EQ(ranked(function_of(chain_of(4), {10, 10, 10, 10}))[1], "0 1 | 2 3");
  EXPECT_EQ(ranked(function_of(chain_of(4), {10, 10, 10, 10}))[2], "0 | 1 | 2 | 3");
}

TEST(Throughput, CountsWhatHandOversCost) {
  auto function = function_of(chain_of(3), {10, 10, 10});
  function.profile.components[0].output = Bytes(40'000'000);
  function.profile.components[1].output = Bytes(1'000);
  PlannerOptions options{.rule = RankRule::kThroughput,
                         .costs = {.copies_gb_per_s = 1, .handover = milliseconds(1)}};
  const auto all = judge_partitions(function, options);
  // In one piece nothing is handed over. Cut, copies go beside the work on another request, but
  // with two in flight no stage process is done with one before half the time has passed that it
  // takes.
  EXPECT_EQ(text_of(all->front().partition), "0 1 2");
  EXPECT_EQ(find(*all, "0 | 1 2").timing.bottleneck, microseconds((10 + 10 + 40 + 1) * 1000 / 2));
  EXPECT_EQ(find(*all, "0 | 1 2").timing.latency, milliseconds(30 + 40 + 40 + 1));
  EXPECT_EQ(find(*all, "0 1 | 2").timing.bottleneck, milliseconds(20));
  EXPECT_NEAR(find(*all, "0 1 | 2").results_per_s_per_multiprocessor, 1 / 0.02 / 28, 1e-6);
}

TEST(Throughput, PrefersSmallSlicesThatAreUsedWell) {
  // In one piece it needs a 4g.40gb, which hardly makes it faster.
  auto function = function_of(chain_of(2), {20, 20}, {9, 9});
  for (ComponentProfile& each : function.profile.components) {
    each.time_by_shape["2g.20gb"] = milliseconds(19);
  }
  EXPECT_EQ(ranked(function, {.rule = RankRule::kThroughput})[0], "0 | 1");
  EXPECT_EQ(ranked(function, {.rule = RankRule::kBalance})[0], "0 1");
}

TEST(Throughput, WhatIsTooSlowForItsPromiseComesLast) {
  auto function = function_of(chain_of(2), {20, 20}, {9, 9});
  for (ComponentProfile& each : function.profile.components) {
    each.time_by_shape["2g.20gb"] = milliseconds(19);
  }
  function.slo = milliseconds(39);
  EXPECT_EQ(ranked(function, {.rule = RankRule::kThroughput}),
            (std::vector<std::string>{"0 1", "0 | 1"}));
}

TEST(Ranking, WhatNoSliceOfTheNodeHoldsIsLeftOut) {
  const auto function = function_of(chain_of(3), {1, 1, 1}, {6, 6, 6});
  EXPECT_EQ(ranked(function, {.shapes = {k1g}}), (std::vector<std::string>{"0 | 1 | 2"}));
  const auto none = rank_partitions(function_of(chain_of(2), {1, 1}, {6, 12}), {.shapes = {k1g}});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(none.error().message,
            "component 'c1' needs 12 GiB of device memory, its process's context included; the "
            "largest slice, 1g.10gb, has 10 GiB");
  const auto stages = rank_partitions(function, {.shapes = {k1g}, .most_stages = 2});
  ASSERT_FALSE(stages.ok());
  EXPECT_THAT(stages.error().message, HasSubstr("cut into at most 2 stages"));
}

TEST(Ranking, WithoutAnyMeasurementAllComponentsAreEquallyLong) {
  PipelineFunction function{.dag = chain_of(4)};
  EXPECT_EQ(ranked(function)[0], "0 1 2 3");
  EXPECT_EQ(ranked(function)[1], "0 1 | 2 3");
  EXPECT_EQ(expected_time(function, StageProcess{{0, 1}}, k1g), 2 * kAssumedTime);
  EXPECT_EQ(time_of(function, StageProcess{{0}}, k1g), std::nullopt);
}

TEST(Ranking, AsManyComponentsAsTheLimitAndNoMore) {
  EXPECT_TRUE(rank_partitions(PipelineFunction{.dag = chain_of(64)}, {}).ok());
  const auto refused = rank_partitions(PipelineFunction{.dag = chain_of(65)}, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
}

TEST(Ranking, FiguresAtTheEndsOfTheirRangesDoNotOverflow) {
  const SliceShape tiny{"tiny", 1, limits::kMemory}, huge{"huge", 65'536, limits::kMemory};
  PipelineDefinition definition{.handler = "a.B", .dag = chain_of(64), .slo = SloScale{1'000}};
  definition.most_batch = limits::kBatch;
  MeasuredProfile measured{.shapes = {huge}};
  for (size_t i = 0; i < 64; ++i) {
    ComponentProfile component{.weights = Bytes::gib(1), .memory = Bytes::gib(2)};
    component.output = limits::kMemory;
    component.time_by_shape["huge"] = limits::kTime;
    measured.profile.components.push_back(component);
  }
  const auto function = plan_function(FunctionId(1), definition, measured, Bytes(),
                                      {.costs = {.copies_gb_per_s = 0.001}, .shapes = {tiny}});
  ASSERT_TRUE(function.ok()) << function.error().message;
  EXPECT_EQ(function->slo, limits::kTime);
  const auto all = judge_partitions(*function, {.costs = {.copies_gb_per_s = 0.001}});
  for (const RankedPartition& each : *all) {
    ASSERT_GE(each.timing.latency, 64 * limits::kTime);
    ASSERT_GE(each.timing.bottleneck, limits::kTime);
  }
}

TEST(Ranking, ThereIsAtLeastOneStage) {
  const PipelineFunction function{.dag = chain_of(2)};
  EXPECT_EQ(rank_partitions(function, {.most_stages = 0}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(rank_partitions(function, {.most_partitions = 0}).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(Memory, AStageProcessHasItsContextAllWeightsAndTheWorstMoment) {
  auto function = function_of(chain_of(3), {1, 1, 1}, {1, 1, 1});
  function.profile.context = Bytes::mib(400);
  function.profile.components[1].memory = Bytes::gib(3);
  EXPECT_EQ(memory_of(function, StageProcess{{0, 1, 2}}), Bytes::mib(400) + Bytes::gib(3 + 2));
  function.most_batch = 4;
  EXPECT_EQ(memory_of(function, StageProcess{{0, 1, 2}}), Bytes::mib(400) + Bytes::gib(3 + 4 * 2));
}

TEST(Memory, ValuesThatWaitForLaterComponentsAreThereAsWell) {
  // 2 needs 0 and 1: while 1 runs, what 0 made is its input; while 2 runs, both are; 3 needs 0.
  auto function = function_of(dag_of(4, {{0, 1}, {1, 2}, {0, 2}, {0, 3}, {2, 3}}), {1, 1, 1, 1});
  function.profile.components[0].output = Bytes::gib(2);
  EXPECT_EQ(least_memory_of(function, StageProcess{{1, 2}}), Bytes::gib(2 + 2));
  EXPECT_EQ(memory_of(function, StageProcess{{0, 1}}), Bytes::gib(2));
}

TEST(Memory, OutputsOfTheFunctionStayUntilItIsAnswered) {
  auto function = function_of(chain_of(3), {1, 1, 1}, {0, 0, 0});
  function.dag.outputs = {0, 2};
  function.profile.components[0].output = function.profile.components[0].memory = Bytes::gib(4);
  function.profile.components[2].memory = Bytes::gib(5);
  EXPECT_EQ(least_memory_of(function, StageProcess{{0, 1, 2}}), Bytes::gib(4 + 5));
  EXPECT_EQ(memory_of(function, StageProcess{{0, 1, 2}}), Bytes::gib(4 + 5 + 4))
      << "beside the next job";
  // The stage process that gathers has what others made beside what it makes itself.
  function.profile.components[2].output = Bytes::gib(3);
  EXPECT_EQ(least_memory_of(function, StageProcess{{2}}), Bytes::gib(4 + 3));
  EXPECT_EQ(memory_of(function, StageProcess{{2}}), Bytes::gib(5 + (4 + 3)))
      << "beside the next job";
  EXPECT_EQ(memory_of(function, StageProcess{{1}}), Bytes::gib(0));
}

TEST(Memory, AnotherJobsInputOrOutputIsThereAsWell) {
  auto function = function_of(chain_of(3), {1, 1, 1}, {0, 0, 0});
  function.most_batch = 2;
  for (auto& component : function.profile.components) component.memory = Bytes::gib(5);
  function.profile.components[0].output = Bytes::gib(2);
  function.profile.components[1].output = Bytes::gib(3);
  EXPECT_EQ(memory_of(function, StageProcess{{0}}), Bytes::gib(2 * (5 + 2)));
  EXPECT_EQ(memory_of(function, StageProcess{{1}}), Bytes::gib(2 * (5 + 3))) << "never both";
  EXPECT_EQ(memory_of(function, StageProcess{{2}}), Bytes::gib(2 * (5 + 3)));
  EXPECT_EQ(memory_of(function, StageProcess{{0, 1, 2}}), Bytes::gib(2 * 5))
      << "what it made last is small";
  // What is said to be handed over is in what was measured beside the weights.
  function.profile.components[1].output = Bytes::gib(9);
  EXPECT_EQ(memory_of(function, StageProcess{{1}}), Bytes::gib(2 * (5 + 5)));
}

TEST(Memory, WhatWasNotMeasuredNeedsWhatIsDeclared) {
  auto function = function_of(chain_of(2), {1, 1}, {1, 1});
  function.declared_memory = Bytes::gib(8);
  EXPECT_EQ(memory_of(function, StageProcess{{0, 1}}), Bytes::gib(2));
  function.profile.components[1] = {};
  EXPECT_EQ(memory_of(function, StageProcess{{0, 1}}), Bytes::gib(8));
  EXPECT_EQ(memory_of(function, StageProcess{{0}}), Bytes::gib(1));
}

TEST(TimeAlone, IsThatOnTheSmallestSliceThatHoldsTheWholeFunction) {
  EXPECT_EQ(time_alone(function_of(chain_of(2), {20, 20}, {9, 9}), {}), milliseconds(20));
  EXPECT_EQ(time_alone(PipelineFunction{.dag = chain_of(2)}, {}), std::nullopt);
}

TEST(TimeAlone, OfWhatNoSliceHoldsItIsThatOfTheQuickestPlacement) {
  // 60 GiB: both on a 4g.40gb each.
  auto function = function_of(chain_of(2), {20, 20}, {30, 30});
  function.profile.components[0].output = Bytes(1'000'000);
  EXPECT_EQ(time_alone(function, {.copies_gb_per_s = 1}), milliseconds(5 + 5 + 2));
}

// A network that reads its weights once for all: 20 ms on a 1g.10gb, 8 at once in 34.
PipelineFunction batched() {
  auto function = function_of(chain_of(2), {20, 20});
  function.most_batch = 6;
  for (ComponentProfile& each : function.profile.components) {
    each.batch_times_by_shape["1g.10gb"] = {{2, milliseconds(22)}, {8, milliseconds(34)}};
  }
  return function;
}

TEST(Batches, AreVariantsOfAPlacementWithWhatTheyTake) {
  const auto placement = place(batched(), chain_cut({{0}, {1}}), slices_of({k1g, k1g}), {});
  ASSERT_TRUE(placement);
  EXPECT_EQ(placement->latency, milliseconds(40));
  EXPECT_EQ(placement->batches,
            (std::vector<BatchTiming>{{2, milliseconds(44), milliseconds(22)},
                                      {4, milliseconds(52), milliseconds(26)},
                                      {6, milliseconds(60), milliseconds(30)}}));
  EXPECT_EQ(placement->latency_of(1), milliseconds(40));
  EXPECT_EQ(placement->latency_of(3), milliseconds(48));
  EXPECT_EQ(placement->bottleneck_of(12), milliseconds(60)) << "twice the largest";
  const auto one_by_one =
      place(function_of(chain_of(2), {20, 20}), chain_cut({{0}, {1}}), slices_of({k1g, k1g}), {});
  EXPECT_TRUE(one_by_one->batches.empty());
  EXPECT_EQ(one_by_one->latency_of(3), milliseconds(120));
}

TEST(Batches, ThePlannerTakesTheSizeThatIsBestWhileTheSloHolds) {
  auto function = batched();
  const auto best = [&](Duration slo) {
    function.slo = slo;
    return find(*judge_partitions(function, {.rule = RankRule::kThroughput}), "0 1");
  };
  EXPECT_EQ(best(Duration{}).requests, 6u);
  EXPECT_NEAR(best(Duration{}).results_per_s_per_multiprocessor, 6 / 0.060 / 14, 1e-6);
  // One that comes during a batch waits for it and is in the next: 2 x 60 ms, 2 x 52.
  EXPECT_EQ(best(milliseconds(120)).requests, 6u);
  EXPECT_EQ(best(milliseconds(119)).requests, 4u);
  EXPECT_EQ(best(milliseconds(50)).requests, 1u);
}

TEST(PlanFunction, PutsTogetherWhatSchedulersNeed) {
  PipelineDefinition definition{.handler = "a.B", .dag = chain_of(2), .slo = SloScale{1.5}};
  definition.most_batch = 2;
  const auto measured = function_of(chain_of(2), {20, 20}, {2, 2});
  const auto function =
      plan_function(FunctionId(7), definition, {measured.profile, {k1g, k2g, k3g, k4g}},
                    Bytes::gib(1), {.shapes = {k1g, {"H100", 132, Bytes::gib(80)}}});
  ASSERT_TRUE(function.ok()) << function.error().message;
  EXPECT_EQ(function->id, FunctionId(7));
  EXPECT_EQ(function->slo, milliseconds(60));
  EXPECT_EQ(function->most_batch, 2u);
  EXPECT_EQ(function->shapes.size(), 5u);
  EXPECT_EQ(text_of(function->ranked[0]), "0 1");
  definition.slo = milliseconds(7);
  EXPECT_EQ(plan_function(FunctionId(7), definition, {}, Bytes::gib(1), {})->slo, milliseconds(7));
}

}  // namespace
}  // namespace lambent::pipeline
