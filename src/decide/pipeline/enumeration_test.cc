#include "decide/pipeline/enumeration.h"

#include <set>

#include "decide/pipeline/hand_over.h"
#include "decide/pipeline/limits.h"
#include "decide/pipeline/testing/testing.h"

namespace lambent::pipeline {
namespace {

using testing::Contains;
using testing::Not;
using testing::UnorderedElementsAre;

std::optional<Duration> one_each(const StageProcess& stage_process) {
  return milliseconds(static_cast<int64_t>(stage_process.components.size()));
}
std::vector<std::string> texts(const Dag& dag, EnumerationLimits limits = {},
                               const StageProcessTime& time_of = one_each) {
  std::vector<std::string> found;
  for (const Partition& each : all_partitions(dag, limits, time_of)) found.push_back(text_of(each));
  return found;
}

// Each component once, and nothing before what it needs or beside it.
void expect_sound(const Dag& dag, const Partition& partition) {
  std::vector<int> stage_process_of(dag.components.size(), -1), stage_of(dag.components.size(), -1);
  int stage_process_number = 0, stage_number = 0;
  for (const Stage& stage : partition.stages) {
    ASSERT_FALSE(stage.stage_processes.empty());
    for (const StageProcess& stage_process : stage.stage_processes) {
      ASSERT_FALSE(stage_process.components.empty());
      ASSERT_TRUE(std::is_sorted(stage_process.components.begin(), stage_process.components.end()));
      for (const size_t component : stage_process.components) {
        ASSERT_EQ(stage_process_of[component], -1) << text_of(partition);
        stage_process_of[component] = stage_process_number;
        stage_of[component] = stage_number;
      }
      ++stage_process_number;
    }
    ++stage_number;
  }
  for (size_t i = 0; i < dag.components.size(); ++i) {
    ASSERT_NE(stage_process_of[i], -1) << text_of(partition);
    for (const Source& source : dag.components[i].inputs) {
      if (source.kind != Source::Kind::kComponent) continue;
      ASSERT_TRUE(stage_process_of[source.index] == stage_process_of[i] ||
                  stage_of[source.index] < stage_of[i])
          << source.index << " is not before " << i << " in " << text_of(partition);
    }
  }
}

TEST(Enumeration, AChainIsCutInAllWays) {
  EXPECT_THAT(texts(chain_of(3)), UnorderedElementsAre("0 1 2", "0 1 | 2", "0 | 1 2", "0 | 1 | 2"));
  for (size_t count = 1; count <= 8; ++count) {
    const auto found = texts(chain_of(count));
    EXPECT_EQ(found.size(), size_t{1} << (count - 1));
    EXPECT_EQ(std::set(found.begin(), found.end()).size(), found.size());
  }
}

TEST(Enumeration, BranchesShareAStageProcessOrRunBesideEachOther) {
  // 0 -> {1, 2} -> 3
  const auto found = texts(dag_of(4, {{0, 1}, {0, 2}, {1, 3}, {2, 3}}));
  EXPECT_THAT(found,
              UnorderedElementsAre("0 1 2 3", "0 | 1 2 3", "0 1 | 2 3", "0 1 2 | 3", "0 | 1 | 2 3",
                                   "0 | 1 2 | 3", "0 1 | 2 | 3", "0 | 1 | 2 | 3", "0 | 1, 2 | 3"));
}

TEST(Enumeration, LongBranchesGoOnTogetherStepByStep) {
  // 0 -> {1 -> 2 -> 3, 4 -> 5} -> 6
  const auto found = texts(dag_of(7, {{0, 1}, {1, 2}, {2, 3}, {0, 4}, {4, 5}, {3, 6}, {5, 6}}));
  EXPECT_THAT(found, Contains("0 | 1 2 3, 4 5 | 6"));
  EXPECT_THAT(found, Contains("0 | 1, 4 | 2 3, 5 | 6"));
  EXPECT_THAT(found, Contains("0 | 1, 4 | 2, 5 | 3 | 6"));
}

TEST(Enumeration, AnEdgePastAComponentForbidsNoCut) {
  // 0 -> 1 -> 2 and 0 -> 2: no two can run at the same time.
  EXPECT_THAT(texts(dag_of(3, {{0, 1}, {1, 2}, {0, 2}})),
              UnorderedElementsAre("0 1 2", "0 1 | 2", "0 | 1 2", "0 | 1 | 2"));
}

TEST(Enumeration, WhatIsNeitherInSeriesNorParallelGoesLevelByLevel) {
  // 0 -> 2, 0 -> 3, 1 -> 3
  EXPECT_THAT(texts(dag_of(4, {{0, 2}, {0, 3}, {1, 3}})), Contains("0, 1 | 2, 3"));
  // All of the first two to all of the last two.
  EXPECT_THAT(texts(dag_of(4, {{0, 2}, {0, 3}, {1, 2}, {1, 3}})), Contains("0, 1 | 2, 3"));
}

TEST(Enumeration, MoreBranchesThanStageProcessesShareThemByLength) {
  // Nine beside each other; the first takes as long as four others.
  const auto time_of = [](const StageProcess& stage_process) -> std::optional<Duration> {
    Duration sum{};
    for (const size_t each : stage_process.components) sum += milliseconds(each == 0 ? 4 : 1);
    return sum;
  };
  const auto found = texts(dag_of(9, {}), {}, time_of);
  EXPECT_THAT(found, Contains("0 6 8, 1 2 3 4 5 7"));
  for (const Partition& each : all_partitions(dag_of(9, {}), {}, time_of)) {
    for (const Stage& stage : each.stages)
      EXPECT_LE(stage.stage_processes.size(), limits::kStageProcessesOfStage);
  }
}

TEST(Enumeration, StageProcessesThatFitNoSliceAreInNoPartition) {
  const auto at_most_two = [](const StageProcess& stage_process) -> std::optional<Duration> {
    if (stage_process.components.size() > 2) return std::nullopt;
    return milliseconds(1);
  };
  EXPECT_THAT(texts(chain_of(3), {}, at_most_two),
              UnorderedElementsAre("0 1 | 2", "0 | 1 2", "0 | 1 | 2"));
}

TEST(Enumeration, AllPartitionsOfRandomDagsAreSound) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const size_t count = 1 + random() % 9;
    const Dag dag = random_dag(count, 0.1 * static_cast<double>(1 + random() % 8), random);
    const auto partitions = all_partitions(dag, {.most_stages = 4}, one_each);
    std::set<std::string> seen;
    for (const Partition& each : partitions) {
      expect_sound(dag, each);
      EXPECT_LE(each.stages.size(), 4u);
      EXPECT_TRUE(seen.insert(text_of(each)).second) << text_of(each);
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_FALSE(partitions.empty());
  }
}

TEST(Enumeration, ALongChainIsBoundedAndKeepsTheMostBalanced) {
  const Dag dag = chain_of(40);
  const auto partitions = all_partitions(dag, {.most_partitions = 800}, one_each);
  EXPECT_LE(partitions.size(), 800u);
  std::vector<size_t> by_stages(9);
  std::set<std::string> found;
  for (const Partition& each : partitions) {
    expect_sound(dag, each);
    ++by_stages[each.stages.size()];
    found.insert(text_of(each));
  }
  EXPECT_EQ(by_stages[1], 1u);
  EXPECT_EQ(by_stages[2], 39u);
  EXPECT_EQ(by_stages[3], 100u);  // a eighth of them all
  // Cut into even pieces.
  for (const size_t stages : {2u, 4u, 5u, 8u}) {
    std::vector<std::vector<size_t>> even(stages);
    for (size_t i = 0; i < 40; ++i) even[i * stages / 40].push_back(i);
    EXPECT_TRUE(found.contains(text_of(chain_cut(even)))) << stages;
  }
}

TEST(Enumeration, WideAndDenseDagsAreBounded) {
  std::mt19937 random(7);
  std::vector<std::pair<size_t, size_t>>
      layers;  // 8 of 8, each component of one to each of the next
  for (size_t i = 0; i < 56; ++i) {
    for (size_t j = 0; j < 8; ++j) layers.emplace_back(i, i / 8 * 8 + 8 + j);
  }
  for (const Dag& dag : {dag_of(64, {}), dag_of(64, layers), random_dag(64, 0.05, random)}) {
    const auto partitions = all_partitions(dag, {}, one_each);
    EXPECT_GT(partitions.size(), 100u);
    EXPECT_LE(partitions.size(), 4'096u);
    for (const Partition& each : partitions) expect_sound(dag, each);
  }
}

TEST(HandOvers, EachValueGoesOnceToEachStageProcessThatNeedsIt) {
  // 0 -> 1, 0 -> 2, {1, 2} -> 3; 0 is an output, too.
  Dag dag = dag_of(4, {{0, 1}, {0, 2}, {1, 3}, {2, 3}});
  dag.outputs.push_back(0);
  Partition partition;
  partition.stages = {
      {{StageProcess{{0}}}}, {{StageProcess{{1}}, StageProcess{{2}}}}, {{StageProcess{{3}}}}};
  EXPECT_EQ(hand_overs(dag, partition),
            (std::vector<HandOver>{{0, 0, 1}, {0, 0, 2}, {0, 0, 3}, {1, 1, 3}, {2, 2, 3}}));
  EXPECT_EQ(hand_overs(dag, chain_cut({{0, 1}, {2, 3}})),
            (std::vector<HandOver>{{0, 0, 1}, {1, 0, 1}}));
  EXPECT_TRUE(hand_overs(dag, chain_cut({{0, 1, 2, 3}})).empty());
}

}  // namespace
}  // namespace lambent::pipeline
