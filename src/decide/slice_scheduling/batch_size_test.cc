#include "decide/slice_scheduling/batch_size.h"

#include <gtest/gtest.h>

#include "decide/slice_scheduling/esg.h"
#include "decide/slice_scheduling/slo_policy.h"
#include "decide/slice_scheduling/testing/virtual_host.h"

namespace lambent::slice_scheduling::testing {
namespace {

constexpr FunctionId kNetwork{1};

// 100 ms for one, 130 for 4, 170 for 8.
Instance instance() {
  Instance made;
  made.placement.slices = {DeviceId{1}};
  made.placement.latency = made.placement.bottleneck = milliseconds(100);
  made.placement.batches = {{2, milliseconds(110), milliseconds(110)},
                            {4, milliseconds(130), milliseconds(130)},
                            {8, milliseconds(170), milliseconds(170)}};
  return made;
}

size_t size_of(const Batchable& batch) { return batch_size(instance(), batch, Instant{}); }

TEST(BatchSize, GrowsWithWhatWaitsUpToTheMost) {
  EXPECT_EQ(size_of({.waiting = 1, .most = 8}), 1u);
  EXPECT_EQ(size_of({.waiting = 3, .most = 8}), 3u);
  EXPECT_EQ(size_of({.waiting = 30, .most = 8}), 8u);
  EXPECT_EQ(size_of({.waiting = 30, .most = 4}), 4u);
}

TEST(BatchSize, IsNoLargerThanTheSloAllows) {
  // What comes during a batch waits for it: twice 170, twice 130 ms.
  EXPECT_EQ(size_of({.waiting = 8, .most = 8, .slo = milliseconds(340)}), 8u);
  EXPECT_EQ(size_of({.waiting = 8, .most = 8, .slo = milliseconds(339)}), 4u);
  EXPECT_EQ(size_of({.waiting = 8, .most = 8, .slo = milliseconds(150)}), 1u);
}

TEST(BatchSize, MakesNoRequestLateThatNeedNotBe) {
  EXPECT_EQ(size_of({.waiting = 8, .most = 8, .due = Instant(milliseconds(135))}), 4u);
  EXPECT_EQ(size_of({.waiting = 8, .most = 8, .due = Instant(milliseconds(100))}), 1u);
  EXPECT_EQ(size_of({.waiting = 8, .most = 8, .due = Instant(milliseconds(50))}), 8u)
      << "late whatever is done";
}

TEST(BatchSize, IsOneWhereMoreGainNothing) {
  Instance slow = instance();
  slow.placement.batches = {{2, milliseconds(210), milliseconds(210)}};
  EXPECT_EQ(batch_size(slow, {.waiting = 8, .most = 8}, Instant{}), 1u);
}

TEST(BatchSize, OfAsGoodOnesTheLargerIsTried) {
  Instance known = instance();  // only two were measured
  known.placement.batches[1] = {4, milliseconds(220), milliseconds(220)};
  known.placement.batches[2] = {8, milliseconds(440), milliseconds(440)};
  EXPECT_EQ(batch_size(known, {.waiting = 8, .most = 8}, Instant{}), 8u);
  EXPECT_EQ(batch_size(known, {.waiting = 8, .most = 8, .slo = milliseconds(500)}, Instant{}), 4u);
}

TEST(BatchSize, AnInstanceCanDoWhatItsBestSizeGives) {
  const Instance one = instance();
  const auto most_per_s = [&](Duration slo, double pace) {
    return pipeline::capacity_of(one.placement, slo, pace).per_s();
  };
  EXPECT_NEAR(most_per_s(Duration{}, 1), 8 / 0.170, 1e-6);
  EXPECT_NEAR(most_per_s(milliseconds(300), 1), 4 / 0.130, 1e-6);
  EXPECT_NEAR(most_per_s(milliseconds(300), 2), 1 / 0.200, 1e-6);
}

// A function whose component takes so many at once, as a profile that is learnt says.
std::shared_ptr<pipeline::PipelineFunction> network(bool measured, unsigned most_batch = 8) {
  auto function = function_of(1, {{100, 2000}}, milliseconds(500));
  function->most_batch = most_batch;
  if (measured) {
    function->profile.components[0].batch_times_by_shape[shape_of(1).name] = {
        {2, milliseconds(110)}, {4, milliseconds(130)}, {8, milliseconds(170)}};
  }
  return function;
}

// On one slice, 25 requests a second for ten seconds: how many were in time.
struct Served {
  double in_time = 0;
  size_t largest_job = 0;
};
std::unique_ptr<SlicePolicy> slo() {
  return std::make_unique<SloPolicy>(planner_partition_placer({}), SloPolicyOptions{});
}
Served serve(bool measured, std::unique_ptr<SlicePolicy> policy = slo(), unsigned most_batch = 8) {
  VirtualHost host(std::move(policy));
  host.add_slices({1});
  host.give(FunctionPut{network(measured, most_batch)});
  host.submit(kNetwork);
  host.run_for(seconds(2));
  std::map<InvocationId, Instant> submitted;
  for (int i = 0; i < 250; ++i) {
    submitted[host.submit(kNetwork)] = host.now();
    host.run_for(milliseconds(40));
  }
  host.run_for(seconds(60));
  Served served{.largest_job = host.largest_job()};
  for (const auto& [request, when] : submitted) {
    const auto outcome = host.outcomes().find(request);
    EXPECT_NE(outcome, host.outcomes().end());
    if (outcome == host.outcomes().end()) continue;
    EXPECT_FALSE(outcome->second.error);
    served.in_time += outcome->second.when <= when + milliseconds(500) ? 1.0 / 250 : 0;
  }
  return served;
}

TEST(BatchSize, MeasuredBatchesServeInTimeWhatOneByOneCannot) {
  const Served with = serve(true), without = serve(false);
  EXPECT_GT(with.in_time, 0.99);
  EXPECT_LT(without.in_time, 0.6);
  EXPECT_GE(with.largest_job, 3u);
  EXPECT_LE(with.largest_job, 8u);
}

TEST(BatchSize, WhereNothingIsMeasuredTwoAreTriedAndThenOneByOne) {
  const Served tried = serve(false), single = serve(false, slo(), 1);
  EXPECT_EQ(tried.largest_job, 2u);
  EXPECT_EQ(single.largest_job, 1u);
  // Eight jobs of two that run one after the other, of 250 requests.
  EXPECT_GT(tried.in_time, single.in_time - 0.1);
}

TEST(BatchSize, TwoThatWaitAreEnoughForATry) {
  VirtualHost host(slo());
  host.add_slices({1});
  host.give(FunctionPut{network(false)});
  host.submit(kNetwork);
  host.run_for(seconds(2));
  for (int i = 0; i < 3; ++i) host.submit(kNetwork);  // one runs, two wait
  host.run_for(seconds(2));
  EXPECT_EQ(host.largest_job(), 2u);
}

TEST(BatchSize, ATryThatWouldBeLateIsNotMadeWhereLittleWaits) {
  auto hurried = network(false);
  hurried->slo = milliseconds(250);
  VirtualHost host(slo());
  host.add_slices({1});
  host.give(FunctionPut{hurried});
  host.submit(kNetwork);
  host.run_for(seconds(2));
  // The second and the third would be done 300 ms after they came.
  for (int i = 0; i < 3; ++i) host.submit(kNetwork);
  host.run_for(seconds(2));
  EXPECT_EQ(host.largest_job(), 1u);
}

TEST(BatchSize, EsgServesInTimeByMeasuredBatchesWhatOneByOneCannot) {
  const auto esg = [] { return std::make_unique<EsgPolicy>(planner_placer({}), EsgOptions{}); };
  const Served with = serve(true, esg()), without = serve(false, esg());
  EXPECT_GT(with.in_time, 0.95);
  EXPECT_LT(without.in_time, 0.6);
  EXPECT_GE(with.largest_job, 3u);
}

TEST(BatchSize, WhatIsLearntWhileAnInstanceRunsIsUsedByIt) {
  VirtualHost host(std::make_unique<SloPolicy>(place_simply, SloPolicyOptions{}));
  host.add_slices({1});
  host.give(FunctionPut{network(false)});
  host.submit(kNetwork);
  host.run_for(seconds(2));
  ASSERT_EQ(host.instances_of(kNetwork).size(), 1u);
  EXPECT_TRUE(host.instances_of(kNetwork)[0]->placement.batches.empty());
  host.give(FunctionPut{network(true), false});
  const auto batches = host.instances_of(kNetwork)[0]->placement.batches;
  ASSERT_EQ(batches.size(), 3u);
  EXPECT_EQ(batches[2], (pipeline::BatchTiming{8, milliseconds(170), milliseconds(170)}));
  host.submit(kNetwork);
  for (int i = 0; i < 7; ++i) host.submit(kNetwork);
  host.run_for(seconds(2));
  EXPECT_EQ(host.largest_job(), 7u);
}

}  // namespace
}  // namespace lambent::slice_scheduling::testing
