// Our own policy, in small stories: bursts, saturation, turns, slices that change hands, faults.
#include "decide/slice_scheduling/slo_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decide/slice_scheduling/testing/virtual_host.h"

namespace lambent::slice_scheduling::testing {
namespace {

using ::testing::HasSubstr;

constexpr FunctionId kBlur{1};
constexpr FunctionId kSharpen{2};

class Slo : public ::testing::Test {
 protected:
  Slo() : host_(std::make_unique<SloPolicy>(place_simply, SloPolicyOptions{})) {}

  void put(uint32_t id, const std::vector<ComponentOf>& components, Duration slo = seconds(2)) {
    host_.give(FunctionPut{function_of(id, components, slo)});
  }
  void submit_every(FunctionId function, Duration pause, int count) {
    for (int at = 0; at < count; ++at) {
      submit(function);
      host_.run_for(pause);
    }
  }
  InvocationId submit(FunctionId function) {
    const InvocationId request = host_.submit(function);
    submitted_[request] = host_.now();
    return request;
  }
  // How many were answered in time of those that were submitted from then on.
  double share_in_time(Duration slo, Instant from = Instant{}) {
    double in_time = 0, all = 0;
    for (const auto& [request, when] : submitted_) {
      if (when < from) continue;
      ++all;
      const auto outcome = host_.outcomes().find(request);
      if (outcome != host_.outcomes().end() && outcome->second.when <= when + slo) ++in_time;
    }
    return in_time / all;
  }
  void expect_all_served() {
    EXPECT_EQ(host_.outcomes().size(), host_.submitted().size()) << describe(host_.world());
    for (const auto& [id, outcome] : host_.outcomes()) EXPECT_FALSE(outcome.error);
  }
  size_t free_slices() { return host_.world().free_slices().size(); }

  VirtualHost host_;
  std::map<InvocationId, Instant> submitted_;
};

TEST_F(Slo, TenTimesTheLoadIsMetAtOnceAndInTimeAgainAfterOneStart) {
  host_.add_slices(std::vector<unsigned>(12, 1));
  put(1, {{100, 2000}}, milliseconds(500));
  submit_every(kBlur, milliseconds(150), 40);
  EXPECT_EQ(host_.instances_of(kBlur).size(), 1U);
  const Instant burst = host_.now();
  submit_every(kBlur, milliseconds(15), 400);
  EXPECT_GE(host_.instances_of(kBlur).size(), 8U);
  host_.run_for(seconds(5));
  expect_all_served();
  EXPECT_GT(share_in_time(milliseconds(500), burst + seconds(1)), 0.97);
}

TEST_F(Slo, FunctionsWithMoreThanTheyCanDoKeepAllSlicesBusyAndWaitAlike) {
  host_.add_slices({4, 2, 1, 4, 2, 1, 4, 2, 1, 4, 2, 1});
  put(1, {{60, 3000}, {60, 3000}, {60, 3000}});
  put(2, {{40, 5000}, {80, 5000}, {40, 5000}});
  put(3, {{100, 7000}, {50, 7000}});
  for (int at = 0; at < 1500; ++at) {
    for (uint32_t id = 1; id <= 3; ++id) submit(FunctionId{id});
    host_.run_for(milliseconds(12));
  }
  EXPECT_EQ(free_slices(), 0U);
  size_t busy = 0;
  for (const auto& [id, instance] : host_.world().instances) {
    if (instance.utilisation > 0.95) ++busy;
  }
  EXPECT_GE(busy + 1, host_.world().instances.size()) << describe(host_.world());
  size_t least = 10'000, most = 0;
  for (uint32_t id = 1; id <= 3; ++id) {
    least = std::min(least, host_.served(FunctionId{id}).size());
    most = std::max(most, host_.served(FunctionId{id}).size());
  }
  EXPECT_GT(least, 300U);
  EXPECT_LT(static_cast<double>(most), 2 * static_cast<double>(least));
  host_.run_for(seconds(300));
  expect_all_served();
}

TEST_F(Slo, TheNextJobIsThereWhenOneIsDoneAndTheMostUrgentIsChosenLate) {
  host_.add_slices({1});
  put(1, {{400, 2000}}, milliseconds(700));
  submit(kBlur);
  host_.run_for(seconds(1));
  const Instance& instance = *host_.instances_of(kBlur).front();
  submit(kBlur);
  submit(kBlur);
  EXPECT_EQ(instance.jobs, 1U);
  host_.run_for(milliseconds(380));
  EXPECT_EQ(instance.jobs, 1U) << "a more urgent request may come";
  host_.run_for(milliseconds(10));
  EXPECT_EQ(instance.jobs, 2U) << "before the first is done, though nothing happened";
  host_.run_for(seconds(2));
  expect_all_served();
}

// Of two models, each of which fills a slice, the second takes four times as long as the first.
TEST_F(Slo, AStageProcessThatHoldsTheOthersUpHasReplicasWhereSoMuchIsWanted) {
  host_.add_slices(std::vector<unsigned>(12, 1));
  put(1, {{50, 7000}, {200, 7000}});
  for (int at = 0; at < 100; ++at) submit(kBlur);
  host_.run_for(seconds(1));
  size_t wide = 0;
  for (const Instance* each : host_.instances_of(kBlur)) {
    const auto& replicas = each->placement.replicas;
    if (each->placement.slices.size() > 2) {
      ++wide;
      EXPECT_GT(replicas[1], replicas[0]) << "of the long stage process";
    }
    EXPECT_LE(each->placement.slices.size(), SloPolicyOptions{}.most_slices);
  }
  EXPECT_GE(wide, 1U) << describe(host_.world());
  host_.run_for(seconds(10));
  expect_all_served();
}

TEST_F(Slo, ReplicasLeaveSlicesFreeThatALittleLoadDoesNotNeed) {
  host_.add_slices(std::vector<unsigned>(5, 1));
  put(1, {{50, 7000}, {200, 7000}});
  submit_every(kBlur, milliseconds(400), 30);
  host_.run_for(seconds(2));
  expect_all_served();
  ASSERT_EQ(host_.instances_of(kBlur).size(), 1U) << describe(host_.world());
  EXPECT_GE(free_slices(), 2U) << "two of the long stage process, though four would be cheapest";
}

TEST_F(Slo, WhatIsLateAlreadyMakesOthersLateOnlyNowAndThen) {
  host_.add_slices({1});
  put(1, {{100, 2000}}, milliseconds(300));
  for (int at = 0; at < 30; ++at) submit(kBlur);
  host_.run_for(seconds(1));
  const Instant then = host_.now();
  submit_every(kBlur, milliseconds(160), 60);
  EXPECT_GT(share_in_time(milliseconds(300), then), 0.9);
  host_.run_for(seconds(10));
  expect_all_served();
}

TEST_F(Slo, TwoFunctionsTakeTurnsOnTheOnlySlice) {
  host_.add_slices({1});
  put(1, {{50, 2000}});
  put(2, {{50, 2000}});
  for (int at = 0; at < 20; ++at) {
    submit_every(kBlur, milliseconds(700), 1);
    submit_every(kSharpen, milliseconds(700), 1);
  }
  host_.run_for(seconds(2));
  expect_all_served();
  EXPECT_THAT(host_.story(), ::testing::Contains("unload 1"));
  EXPECT_GT(share_in_time(seconds(2)), 0.95);
}

TEST_F(Slo, WhoIsBusyAllTheTimeDoesNotStarveWhoSharesItsSlice) {
  host_.add_slices({1});
  put(1, {{100, 2000}});
  put(2, {{100, 2000}});
  for (int at = 0; at < 100; ++at) submit(kBlur);
  host_.run_for(seconds(2));
  const InvocationId other = submit(kSharpen);
  host_.run_for(seconds(7));
  EXPECT_TRUE(host_.outcomes().contains(other)) << describe(host_.world());
  EXPECT_LT(host_.outcomes().size(), 101U);
  host_.run_for(seconds(30));
  expect_all_served();
}

TEST_F(Slo, TwoThatAreAlwaysBusyHaveTurnsAlike) {
  for (const Duration slo : {Duration{}, Duration(seconds(1)), Duration(seconds(5))}) {
    VirtualHost host(std::make_unique<SloPolicy>(place_simply, SloPolicyOptions{}));
    host.add_slices({1});
    host.give(FunctionPut{function_of(1, {{50, 4000}}, slo)});
    host.give(FunctionPut{function_of(2, {{30, 4000}}, slo)});
    for (int at = 0; at < 3000; ++at) {
      host.submit(kBlur);
      host.submit(kSharpen);
      host.run_for(milliseconds(10));
    }
    const auto least = std::min(host.served(kBlur).size(), host.served(kSharpen).size());
    const auto most = std::max(host.served(kBlur).size(), host.served(kSharpen).size());
    EXPECT_GT(least, 100U) << to_seconds(slo);
    EXPECT_LT(static_cast<double>(most), 3 * static_cast<double>(least)) << to_seconds(slo);
  }
}

TEST_F(Slo, WhoIsLateHasATurnBesideTwoThatNeverAre) {
  host_.add_slices({1});
  put(1, {{20, 2000}}, seconds(20));
  put(2, {{20, 2000}}, seconds(20));
  put(3, {{20, 2000}}, milliseconds(50));
  for (int at = 0; at < 600; ++at) {
    for (uint32_t id = 1; id <= 3; ++id) submit(FunctionId{id});
    host_.run_for(milliseconds(40));
  }
  EXPECT_GT(host_.served(FunctionId{3}).size(), host_.served(kBlur).size() / 8);
}

// How often one that is late whatever it does is served beside two that never are, on one slice.
size_t served_of_who_is_late(SloPolicyOptions options) {
  VirtualHost host(std::make_unique<SloPolicy>(place_simply, options));
  host.add_slices({1});
  host.give(FunctionPut{function_of(1, {{20, 2000}}, seconds(20))});
  host.give(FunctionPut{function_of(2, {{20, 2000}}, seconds(20))});
  host.give(FunctionPut{function_of(3, {{20, 2000}}, milliseconds(50))});
  for (int at = 0; at < 600; ++at) {
    for (uint32_t id = 1; id <= 3; ++id) host.submit(FunctionId{id});
    host.run_for(milliseconds(40));
  }
  return host.served(FunctionId{3}).size();
}

TEST(SloOptions, TurnsOnASharedSliceAreTheirOwnOption) {
  const size_t usual = served_of_who_is_late({});
  EXPECT_EQ(served_of_who_is_late({.late_turn = 1'000'000}), usual);
  EXPECT_LT(served_of_who_is_late({.turn_of_longest_away = 1'000'000}), usual / 2);
  // Each change, as 1 says.
  EXPECT_EQ(served_of_who_is_late({.turn_of_longest_away = 0}),
            served_of_who_is_late({.turn_of_longest_away = 1}));
}

TEST_F(Slo, SlicesOfWhoIsIdleGoToWhoWaits) {
  host_.add_slices({1, 1, 1});
  put(1, {{100, 2000}}, milliseconds(300));
  put(2, {{50, 6000}, {50, 6000}, {50, 6000}});
  submit_every(kBlur, milliseconds(35), 100);
  EXPECT_EQ(free_slices(), 0U);
  host_.run_for(seconds(3));
  submit_every(kSharpen, seconds(5), 1);
  expect_all_served();
  EXPECT_EQ(host_.instances_of(kSharpen).size(), 1U);
}

// Two others have been idle for long; who has the small slice, on which it would be late, for
// longer.
TEST_F(Slo, OfSlicesThatAreHardlyMissedItTakesTheOnesThatKeepItsSlo) {
  put(1, {{20, 2000}});
  put(2, {{200, 2000}}, milliseconds(100));
  put(3, {{20, 20'000}});
  host_.add_slices({1});
  submit_every(kBlur, seconds(3), 1);
  host_.add_slices({4});
  submit_every(FunctionId{3}, seconds(3), 1);
  host_.add_slices({1});
  submit_every(kSharpen, seconds(3), 1);
  EXPECT_EQ(free_slices(), 0U);
  submit_every(kSharpen, milliseconds(1), 10);
  host_.run_for(seconds(3));
  expect_all_served();
  ASSERT_GE(host_.instances_of(kSharpen).size(), 2U) << describe(host_.world());
  EXPECT_EQ(host_.instances_of(kSharpen)[1]->placement.slices.front(), DeviceId{2});
}

// When each of some requests is answered, if the first comes so long after the slices. Three
// functions, of which one after the other has much to do, on too few slices for that.
std::vector<Duration> answered_after(Duration pause) {
  VirtualHost host(std::make_unique<SloPolicy>(place_simply, SloPolicyOptions{}));
  host.add_slices({4, 2, 1, 2, 1, 1});
  for (uint32_t id = 1; id <= 3; ++id) {
    host.give(FunctionPut{function_of(id, {{150, 5000}, {100, 4000}}, milliseconds(600))});
  }
  host.run_for(pause);
  const Instant begin = host.now();
  SeededRandom random(7);
  std::vector<InvocationId> requests;
  for (int at = 0; at < 1200; ++at) {
    const auto busiest = static_cast<uint32_t>(at / 170 % 3 + 1);
    const bool other = random.uniform() < 0.3;
    requests.push_back(host.submit(FunctionId{other ? busiest % 3 + 1 : busiest}));
    host.run_for(from_seconds(random.uniform() * 0.06));
  }
  host.run_for(seconds(200));
  std::vector<Duration> answered;
  for (const InvocationId request : requests) {
    answered.push_back(host.outcomes().at(request).when - begin);
  }
  return answered;
}

TEST(SloWindows, WhenASecondBeginsDoesNotMatter) {
  const std::vector<Duration> answered = answered_after(milliseconds(100));
  for (const int64_t pause : {300, 500, 700, 900}) {
    const std::vector<Duration> other = answered_after(milliseconds(pause));
    const auto [one, another] = std::mismatch(answered.begin(), answered.end(), other.begin());
    EXPECT_EQ(one, answered.end())
        << "after " << pause << " ms request " << one - answered.begin() << " is answered at "
        << to_seconds(*another) << " s, after 100 ms at " << to_seconds(*one) << " s";
  }
}

TEST_F(Slo, WhoHasNothingGetsATurnFromWhoIsBusy) {
  host_.add_slices({1, 1});
  put(1, {{100, 6000}, {100, 6000}});
  put(2, {{100, 6000}, {100, 6000}});
  for (int at = 0; at < 300; ++at) submit(kBlur);
  host_.run_for(seconds(1));
  submit(kSharpen);
  host_.run_for(seconds(15));
  EXPECT_EQ(host_.served(kSharpen).size(), 1U) << describe(host_.world());
  host_.run_for(seconds(100));
  expect_all_served();
}

TEST_F(Slo, ASmallSliceThatHoldsNothingAloneHelpsALargeOne) {
  host_.add_slices({4, 1, 4, 1});
  put(1, {{300, 14'000}, {60, 5000}});
  for (int at = 0; at < 300; ++at) submit(kBlur);
  host_.run_for(seconds(3));
  EXPECT_EQ(free_slices(), 0U) << describe(host_.world());
  host_.run_for(seconds(60));
  expect_all_served();
}

TEST_F(Slo, AProfileThatPromisesHalfTheTimeCostsNoSloForLong) {
  host_.add_slices({1, 1, 1, 1});
  host_.chances().least_pace = host_.chances().most_pace = 2;
  put(1, {{100, 2000}}, milliseconds(600));
  submit_every(kBlur, milliseconds(90), 200);
  EXPECT_GT(share_in_time(milliseconds(600), Instant(seconds(8))), 0.95);
  host_.run_for(seconds(10));
  expect_all_served();
}

TEST_F(Slo, AStageThatDiesCostsNoRequest) {
  host_.add_slices({1, 1, 1, 1});
  put(1, {{50, 6000}, {50, 6000}});
  for (int life = 0; life < 5; ++life) {
    submit_every(kBlur, milliseconds(60), 30);
    host_.kill(host_.instances_of(kBlur).at(0)->id);
  }
  host_.run_for(seconds(10));
  expect_all_served();
}

TEST_F(Slo, ASliceThatDisappearsCostsNoRequest) {
  host_.add_slices({1, 1, 1});
  put(1, {{50, 6000}, {50, 6000}});
  submit_every(kBlur, milliseconds(60), 20);
  host_.give(SliceLost{host_.instances_of(kBlur).at(0)->placement.slices.front()});
  submit_every(kBlur, milliseconds(60), 50);
  host_.run_for(seconds(10));
  expect_all_served();
}

TEST_F(Slo, APipelineMigratesWhenASliceForAllOfItIsThere) {
  host_.add_slices({1, 1});
  put(1, {{40, 6000}, {40, 6000}});
  submit_every(kBlur, milliseconds(100), 30);
  EXPECT_TRUE(host_.instances_of(kBlur).at(0)->is_pipeline());
  host_.give(SliceAdded{slice_of(9, 2)});
  submit_every(kBlur, milliseconds(100), 30);
  ASSERT_EQ(host_.instances_of(kBlur).size(), 1U);
  EXPECT_FALSE(host_.instances_of(kBlur).at(0)->is_pipeline());
  host_.run_for(seconds(2));
  expect_all_served();
  const auto& served = host_.served(kBlur);
  EXPECT_TRUE(std::is_sorted(served.begin(), served.end()));
}

// On the one slice it takes a quarter of the time, so that who goes there first would be answered
// before those who are still in the pipeline.
TEST_F(Slo, AMigrationReordersNothing) {
  host_.add_slices({1, 1});
  put(1, {{400, 6000}, {400, 6000}});
  submit_every(kBlur, milliseconds(450), 20);
  host_.give(SliceAdded{slice_of(9, 4)});
  submit_every(kBlur, milliseconds(450), 20);
  ASSERT_EQ(host_.instances_of(kBlur).size(), 1U);
  EXPECT_FALSE(host_.instances_of(kBlur).at(0)->is_pipeline());
  host_.run_for(seconds(2));
  expect_all_served();
  const auto& served = host_.served(kBlur);
  EXPECT_EQ(served.size(), 40U);
  EXPECT_TRUE(std::is_sorted(served.begin(), served.end()));
  EXPECT_EQ(share_in_time(seconds(2)), 1) << "no request waited for longer than the pipeline takes";
}

TEST_F(Slo, ALongPipelineIsPlacedOnManyAlikeSlices) {
  host_.add_slices(std::vector<unsigned>(7, 1));
  host_.give(FunctionPut{function_of(1, std::vector<ComponentOf>(7, {20, 9000}), seconds(2), 8)});
  submit(kBlur);
  host_.run_for(seconds(10));
  EXPECT_EQ(host_.served(kBlur).size(), 1U);
}

TEST_F(Slo, WhatAClaimHeldIsHadByOthersWhenItIsGivenUp) {
  host_.add_slices({1, 1});
  put(1, {{600'000, 2000}}, seconds(3600));
  put(2, {{20, 6000}, {20, 6000}});
  put(3, {{20, 2000}});
  submit(kBlur);
  host_.run_for(seconds(30));
  const InvocationId pipeline = submit(kSharpen);
  host_.run_for(seconds(10));
  const InvocationId other = submit(FunctionId{3});
  host_.run_for(seconds(5));
  host_.give(RequestCancelled{pipeline});
  host_.run_for(seconds(5));
  EXPECT_TRUE(host_.outcomes().contains(other)) << describe(host_.world());
}

TEST_F(Slo, AClaimIsSettledAtOnceWhileOthersAreAtWork) {
  host_.add_slices({2, 1});
  put(1, {{600'000, 12'000}}, seconds(3600));  // on the larger slice, which others do not get
  for (uint32_t id = 2; id <= 4; ++id) put(id, {{20, 2000}});
  submit(kBlur);
  submit(kBlur);
  host_.run_for(seconds(5));
  for (uint32_t id = 2; id <= 3; ++id) submit(FunctionId{id});
  host_.run_for(seconds(5));
  ASSERT_EQ(host_.outcomes().size(), 2U) << describe(host_.world());
  // Two share the small slice; the one that is on it is idle.
  submit(FunctionId{4});
  const std::vector<std::string> before = host_.story();
  host_.run_for(milliseconds(1));
  EXPECT_GT(host_.story().size(), before.size()) << describe(host_.world());
  host_.run_for(seconds(5));
  EXPECT_EQ(host_.served(FunctionId{4}).size(), 1U);
}

TEST_F(Slo, WhatFitsNowhereIsToldWhatItNeeds) {
  host_.add_slices({1, 2});
  put(1, {{40, 25'000}});
  const InvocationId request = submit(kBlur);
  ASSERT_TRUE(host_.outcomes().contains(request));
  EXPECT_EQ(host_.outcomes().at(request).error->code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(host_.outcomes().at(request).error->message,
              HasSubstr("needs a slice with 24.8 GiB"));
}

TEST_F(Slo, AfterTenQuietMinutesNothingIsHeld) {
  host_.add_slices({1, 1, 1});
  put(1, {{40, 2000}});
  put(2, {{40, 6000}, {40, 6000}});
  submit(kBlur);
  submit(kSharpen);
  host_.run_for(seconds(620));
  EXPECT_EQ(free_slices(), 3U) << describe(host_.world());
  expect_all_served();
}

}  // namespace
}  // namespace lambent::slice_scheduling::testing
