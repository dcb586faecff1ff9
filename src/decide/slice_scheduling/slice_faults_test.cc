// What goes wrong with slices and instances, under every policy: a request that waits is served in
// the end if that can be, and is told so at once if it cannot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decide/slice_scheduling/make_policy.h"
#include "decide/slice_scheduling/testing/virtual_host.h"

namespace lambent::slice_scheduling::testing {
namespace {

constexpr FunctionId kBlur{1};

class EveryPolicy : public ::testing::TestWithParam<std::string_view> {
 protected:
  EveryPolicy() : host_(make_slice_policy(GetParam()).value()) {}

  size_t answered() { return host_.served(kBlur).size(); }
  size_t failed() { return host_.outcomes().size() - answered(); }

  VirtualHost host_;
};

INSTANTIATE_TEST_SUITE_P(SliceFaults, EveryPolicy, ::testing::ValuesIn(slice_policy_names()),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(EveryPolicy, WhoFitsOnlyASliceThatReturnsWaitsForIt) {
  host_.add_slices({1, 2});
  host_.give(FunctionPut{function_of(1, {{20, 15'000}}, seconds(2))});
  host_.give(SliceLost{.slice = DeviceId{2}, .returns = true});
  host_.submit(kBlur);
  host_.run_for(seconds(5));
  EXPECT_TRUE(host_.outcomes().empty());
  EXPECT_TRUE(host_.world().instances.empty());
  host_.give(SliceAdded{slice_of(2, 2)});
  host_.run_for(seconds(10));
  EXPECT_EQ(answered(), 1U) << describe(host_.world());
}

TEST_P(EveryPolicy, WhoFitsOnlyASliceThatIsGoneForGoodIsToldSo) {
  host_.add_slices({1, 2});
  host_.give(FunctionPut{function_of(1, {{20, 15'000}}, seconds(2))});
  host_.give(SliceLost{.slice = DeviceId{2}, .returns = true});
  host_.submit(kBlur);
  host_.run_for(seconds(5));
  host_.give(SliceLost{DeviceId{2}});
  host_.run_for(seconds(5));
  ASSERT_EQ(failed(), 1U) << describe(host_.world());
  EXPECT_EQ(host_.outcomes().begin()->second.error->code, ErrorCode::kResourceExhausted);
  EXPECT_FALSE(host_.world().slices.contains(DeviceId{2}));
}

TEST_P(EveryPolicy, ASliceThatIsLostUnderAnInstanceAndReturnsCostsNoRequest) {
  host_.add_slices({1});
  host_.give(FunctionPut{function_of(1, {{20, 2000}}, seconds(2))});
  for (int at = 0; at < 20; ++at) {
    host_.submit(kBlur);
    host_.run_for(milliseconds(100));
  }
  host_.give(SliceLost{.slice = DeviceId{1}, .returns = true});
  host_.submit(kBlur);
  host_.run_for(seconds(1));
  EXPECT_TRUE(host_.world().instances.empty());
  host_.give(SliceAdded{slice_of(1, 1)});
  host_.run_for(seconds(20));
  EXPECT_EQ(answered(), 21U) << describe(host_.world());
}

TEST_P(EveryPolicy, AnInstanceThatIsEndingGetsNoMoreJobs) {
  host_.add_slices({1, 1});
  host_.give(FunctionPut{function_of(1, {{20, 2000}}, seconds(2))});
  host_.submit(kBlur);
  host_.run_for(seconds(3));
  ASSERT_EQ(answered(), 1U);
  // The host of the test holds it to that, and to not being stopped.
  host_.kill_slowly(host_.instances_of(kBlur).at(0)->id);
  host_.submit(kBlur);
  host_.run_for(seconds(5));
  EXPECT_EQ(answered(), 2U);
  EXPECT_THAT(host_.story(), ::testing::Not(::testing::Contains("stop 1")));
}

TEST_P(EveryPolicy, AStartMoreThatFailsCostsNothingWhileAnInstanceServes) {
  host_.add_slices({1, 1});
  host_.give(FunctionPut{function_of(1, {{100, 2000}}, milliseconds(500))});
  host_.submit(kBlur);
  host_.run_for(seconds(3));
  ASSERT_EQ(answered(), 1U);
  host_.chances().start_fails = 1;
  for (int at = 0; at < 100; ++at) host_.submit(kBlur);
  host_.run_for(seconds(30));
  EXPECT_EQ(answered(), 101U);
  EXPECT_EQ(failed(), 0U);
}

TEST_P(EveryPolicy, ASliceOnWhichNothingStartsIsLeftAloneWhileOthersAreThere) {
  host_.add_slices({1, 1, 1, 1});
  host_.bad = DeviceId{1};
  host_.give(FunctionPut{function_of(1, {{20, 2000}}, seconds(2))});
  for (int at = 0; at < 20; ++at) {
    host_.submit(kBlur);
    host_.run_for(seconds(5));
  }
  EXPECT_EQ(answered(), 20U) << describe(host_.world());
  EXPECT_EQ(failed(), 0U);
}

TEST_P(EveryPolicy, TheOnlySliceIsTriedAgainAfterAFailedStart) {
  host_.add_slices({1});
  host_.give(FunctionPut{function_of(1, {{20, 2000}}, seconds(2))});
  host_.chances().start_fails = 1;
  host_.submit(kBlur);
  host_.run_for(milliseconds(600));
  host_.chances().start_fails = 0;
  host_.run_for(seconds(2));
  EXPECT_EQ(answered(), 1U) << describe(host_.world());
  EXPECT_EQ(host_.world().slices.at(DeviceId{1}).failed_starts, 0U);
}

TEST(SliceFaultsOfReplicas, WhoWasInAnInstanceWithReplicasIsServedAgain) {
  for (const bool slice_is_lost : {true, false}) {
    SCOPED_TRACE(slice_is_lost ? "a replica's slice is lost" : "a process dies");
    VirtualHost host(make_slice_policy("slo").value());
    host.add_slices(std::vector<unsigned>(12, 1));
    host.give(FunctionPut{function_of(1, {{50, 7000}, {200, 7000}}, seconds(1))});
    const auto wide = [&]() -> const Instance* {
      for (const Instance* each : host.instances_of(kBlur)) {
        if (each->placement.slices.size() > 2 && each->jobs > 0) return each;
      }
      return nullptr;
    };
    for (int at = 0; at < 100; ++at) host.submit(kBlur);
    for (int at = 0; at < 500 && wide() == nullptr; ++at) host.run_for(milliseconds(10));
    ASSERT_NE(wide(), nullptr) << describe(host.world());
    const InstanceId id = wide()->id;
    const DeviceId replica = wide()->placement.slices.back();
    if (slice_is_lost) {
      host.give(SliceLost{.slice = replica, .returns = true});
    } else {
      host.kill(id);
    }
    host.run_for(seconds(1));
    EXPECT_FALSE(host.world().instances.contains(id)) << "all of it goes";
    if (slice_is_lost) host.give(SliceAdded{slice_of(replica.value, 1)});
    host.run_for(seconds(60));
    EXPECT_EQ(host.served(kBlur).size(), 100U) << describe(host.world());
  }
}

}  // namespace
}  // namespace lambent::slice_scheduling::testing
