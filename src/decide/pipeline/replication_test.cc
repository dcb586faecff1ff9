#include "decide/pipeline/replication.h"

#include <set>

#include "decide/pipeline/hand_over.h"
#include "decide/pipeline/limits.h"
#include "decide/pipeline/placing.h"
#include "decide/pipeline/testing/testing.h"

namespace lambent::pipeline {
namespace {

using ::testing::ElementsAre;

std::vector<SliceGroup> groups_of(const std::vector<Slice>& slices) {
  std::vector<SliceGroup> groups;
  for (const Slice& slice : slices) {
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&](const SliceGroup& each) { return each.shape == slice.shape; });
    if (found == groups.end()) {
      const double worth = slice.shape.multiprocessors;
      found = groups.insert(found, SliceGroup{slice.shape, {}, worth});
    }
    found->slices.push_back(&slice);
  }
  return groups;
}

std::vector<SliceShape> times(size_t count, const SliceShape& shape) {
  return std::vector<SliceShape>(count, shape);
}

// The long stage process takes three times as long as the short one.
class Replication : public ::testing::Test {
 protected:
  std::optional<Replicated> replicated(const std::vector<Slice>& slices, double wanted_per_s,
                                       size_t most_slices = 8) {
    return place_replicated(function_, cut_, groups_of(slices), {},
                            {.most_slices = most_slices, .wanted_per_s = wanted_per_s});
  }

  PipelineFunction function_ = function_of(chain_of(2), {10, 30}, {8, 8});
  Partition cut_ = chain_cut({{0}, {1}});
};

TEST_F(Replication, TheLongStageProcessHasAsManyAsKeepTheShortOneBusy) {
  const std::vector<Slice> slices = slices_of(times(7, k1g));
  const auto found = replicated(slices, 1'000);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->placement.replicas, ElementsAre(1, 3));
  EXPECT_EQ(found->placement.bottleneck, milliseconds(10));
  EXPECT_EQ(found->placement.latency, milliseconds(40)) << "of one request it is as it was";
  const auto& ids = found->placement.slices;
  EXPECT_EQ(std::set<DeviceId>(ids.begin(), ids.end()).size(), 4u);
  const auto processes = processes_of(found->placement);
  ASSERT_EQ(processes.size(), 4u);
  for (uint64_t job = 0; job < 6; ++job) {
    size_t takers = 0;
    for (const Process& process : processes) takers += process.takes(job);
    EXPECT_EQ(takers, 2u) << "one of each stage process";
  }
}

TEST_F(Replication, WhatNobodyWantsIsNotPaidFor) {
  const std::vector<Slice> slices = slices_of(times(7, k1g));
  EXPECT_THAT(replicated(slices, 30)->placement.replicas, ElementsAre(1, 1));
  EXPECT_THAT(replicated(slices, 60)->placement.replicas, ElementsAre(1, 2));
}

TEST_F(Replication, EndsWithTheSlicesThereAre) {
  EXPECT_THAT(replicated(slices_of(times(3, k1g)), 1'000)->placement.replicas, ElementsAre(1, 2));
  EXPECT_FALSE(replicated(slices_of(times(1, k1g)), 1'000));
  EXPECT_THAT(replicated(slices_of(times(7, k1g)), 1'000, 3)->placement.replicas,
              ElementsAre(1, 2));
  function_ = function_of(chain_of(2), {10, 60}, {8, 15});
  const std::vector<Slice> mixed = slices_of({k1g, k1g, k1g, k2g, k2g});
  const auto found = replicated(mixed, 1'000);
  EXPECT_THAT(found->placement.replicas, ElementsAre(1, 2))
      << "only these hold the long stage process";
  EXPECT_EQ(found->placement.bottleneck, milliseconds(15));
}

TEST_F(Replication, WhatKeepsTheSloComesBeforeWhatIsCheap) {
  // On a single 1g it takes 40 ms, and a job waits behind others beside that.
  const std::vector<Slice> slices = slices_of({k1g, k1g, k1g, k1g, k4g});
  function_.slo = milliseconds(80);
  const auto cheap = replicated(slices, 1'000);
  EXPECT_FALSE(cheap->late);
  EXPECT_THAT(cheap->placement.replicas, ElementsAre(1, 3));
  function_.slo = milliseconds(45);
  const auto quick = replicated(slices, 1'000);
  EXPECT_FALSE(quick->late);
  EXPECT_LT(quick->placement.latency, milliseconds(40));
  function_.slo = milliseconds(5);
  EXPECT_TRUE(replicated(slices, 1'000)->late) << "nothing keeps it: the cheapest of all";
}

TEST_F(Replication, TheStageProcessThatBatchesHoldUpHasThem) {
  // Of eight together the long one takes little more than of one; the short one takes none.
  function_.most_batch = 8;
  function_.profile.components[1].batch_times_by_shape[k1g.name] = {
      {2, milliseconds(31)}, {4, milliseconds(33)}, {8, milliseconds(40)}};
  const std::vector<Slice> slices = slices_of(times(5, k1g));
  const auto found = replicated(slices, 1'000);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->placement.replicas, ElementsAre(2, 1));
  EXPECT_NEAR(capacity_of(found->placement, function_.slo).per_s(), 200, 0.1);
  EXPECT_NEAR(found->cost, 3 * 14 / 200.0, 1e-6);
  EXPECT_THAT(replicated(slices, 100)->placement.replicas, ElementsAre(1, 1))
      << "eight at a time give that already";
  function_.slo = milliseconds(60);  // two together would miss it
  EXPECT_THAT(replicated(slices, 1'000)->placement.replicas, ElementsAre(1, 3));
}

TEST(ReplicationOfMany, AProcessHasNoMoreChannelsThanASandboxCanBeShown) {
  // Twelve components, all of whose values the last one needs, which takes eight times as long.
  Dag dag = chain_of(13);
  for (size_t i = 0; i < 12; ++i) dag.components[i].inputs = {{Source::Kind::kInput, 0}};
  dag.components[12].inputs.clear();
  for (size_t i = 0; i < 12; ++i) {
    dag.components[12].inputs.push_back({Source::Kind::kComponent, i});
  }
  std::vector<double> ms(13, 1);
  ms[12] = 96;
  const PipelineFunction function = function_of(dag, ms, std::vector<uint64_t>(13, 1));
  std::vector<size_t> first(12);
  for (size_t i = 0; i < 12; ++i) first[i] = i;
  const std::vector<Slice> slices = slices_of(times(9, k4g));
  const auto found = place_replicated(function, chain_cut({first, {12}}), groups_of(slices), {},
                                      {.most_slices = 9, .wanted_per_s = 1'000});
  ASSERT_TRUE(found);
  EXPECT_THAT(found->placement.replicas, ElementsAre(1, limits::kChannelsOfProcess / 12));
}

TEST_F(Replication, OfOneStageProcessItIsAnotherInstance) {
  EXPECT_FALSE(place_replicated(function_, chain_cut({{0, 1}}), groups_of(slices_of({k4g, k4g})),
                                {}, {.wanted_per_s = 1'000}));
}

TEST(ReplicationOfAny, FitsAndIsNeverDearerThanWithoutReplicas) {
  size_t found = 0, wide = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const size_t count = 2 + random() % 4;
    std::vector<double> ms;
    std::vector<uint64_t> memory;
    for (size_t i = 0; i < count; ++i) {
      ms.push_back(static_cast<double>(1 + random() % 50));
      memory.push_back(1 + random() % 19);
    }
    PipelineFunction function = function_of(random_dag(count, 0.5, random), ms, memory);
    if (random() % 2) function.slo = milliseconds(20 + random() % 100);
    function.ranked = rank_partitions(function, {}).value();
    std::vector<SliceShape> shapes;
    for (size_t i = 0; i < 3 + random() % 9; ++i) {
      shapes.push_back(function.shapes[random() % function.shapes.size()]);
    }
    const std::vector<Slice> slices = slices_of(shapes);
    const ReplicationLimits limits{.most_slices = 2 + random() % 7,
                                   .wanted_per_s = static_cast<double>(1 + random() % 200)};
    for (const Partition& partition : function.ranked) {
      const auto placed = place_replicated(function, partition, groups_of(slices), {}, limits);
      if (!placed) continue;
      ++found;
      const Placement& placement = placed->placement;
      const auto processes = processes_of(placement);
      const auto stage_processes = stage_processes_of(partition);
      ASSERT_EQ(placement.slices.size(), processes.size());
      ASSERT_EQ(placement.replicas.size(), stage_processes.size());
      EXPECT_LE(processes.size(), std::max(limits.most_slices, stage_processes.size()));
      wide += processes.size() > stage_processes.size();
      std::set<DeviceId> used;
      double worth = 0;
      for (size_t at = 0; at < processes.size(); ++at) {
        EXPECT_TRUE(used.insert(placement.slices[at]).second);
        const Slice& slice = slices[placement.slices[at].value - 1];
        EXPECT_GE(slice.shape.memory,
                  memory_of(function, *stage_processes[processes[at].stage_process]));
        worth += slice.shape.multiprocessors;
      }
      const double wanted_s = 1 / limits.wanted_per_s;
      EXPECT_NEAR(placed->cost, worth * std::max(wanted_s, to_seconds(placement.bottleneck)), 1e-5);
      if (placed->late || function.slo > Duration{}) continue;
      const auto plain = place(function, partition, slices, {});
      ASSERT_TRUE(plain);
      double plain_worth = 0;
      for (const DeviceId id : plain->slices) {
        plain_worth += slices[id.value - 1].shape.multiprocessors;
      }
      EXPECT_LE(placed->cost,
                plain_worth * std::max(wanted_s, to_seconds(plain->bottleneck)) * (1 + 1e-6));
    }
  }
  EXPECT_GT(found, 200u);
  EXPECT_GT(wide, 50u);
}

}  // namespace
}  // namespace lambent::pipeline
