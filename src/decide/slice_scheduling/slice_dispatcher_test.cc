// The dispatcher under a policy that does what the test says, and under the simplest that works.
#include "decide/slice_scheduling/slice_dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/domain/stopping.h"
#include "decide/slice_scheduling/decision_rules.h"
#include "decide/slice_scheduling/fcfs_slices.h"
#include "decide/slice_scheduling/testing/virtual_host.h"

namespace lambent::slice_scheduling::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr FunctionId kBlur{1};
constexpr FunctionId kSharpen{2};

// Decides once what it was told last.
class Scripted final : public SlicePolicy {
 public:
  std::string_view name() const override { return "scripted"; }
  void decide(const SliceWorld&, Instant, std::vector<Decision>& decisions) override {
    decisions.swap(next);
    next.clear();
  }
  std::vector<Decision> next;
};

class Story : public ::testing::Test {
 protected:
  Story() : Story(std::make_unique<Scripted>()) {}

  void decide(Decision decision) {
    const auto possible = validate(host_.world(), decision);
    ASSERT_TRUE(possible.ok()) << to_string(possible.error());
    script_->next = {std::move(decision)};
    host_.give(TimerFired{});
  }
  std::string why_not(const Decision& decision) {
    const auto possible = validate(host_.world(), decision);
    return possible.ok() ? "it is possible" : possible.error().message;
  }
  pipeline::Placement on(FunctionId function, std::vector<Slice> slices) {
    return simple_placer()(*host_.world().find(function)->function, slices).value();
  }
  // Starts an instance and waits until it is loaded.
  InstanceId started(FunctionId function, uint32_t slice,
                     AllocationMode allocation_mode = AllocationMode::kExclusive) {
    decide(Start{function, on(function, {host_.world().slices.at(DeviceId{slice}).slice}),
                 allocation_mode});
    host_.run_for(seconds(2));
    return host_.world().instances.rbegin()->first;
  }
  const Error& error_of(InvocationId request) { return *host_.outcomes().at(request).error; }

 private:
  explicit Story(std::unique_ptr<Scripted> script)
      : script_(script.get()), host_(std::move(script), {.most_attempts = 3, .most_queued = 3}) {}

 protected:
  Scripted* script_;
  VirtualHost host_;
};

TEST_F(Story, ARequestForAnUnknownFunctionIsNotFound) {
  EXPECT_EQ(error_of(host_.submit(kBlur)).code, ErrorCode::kNotFound);
}

TEST_F(Story, MoreThanTheQueueHoldsAreRefusedAndTheOthersKept) {
  host_.give(FunctionPut{function_of(1, {{20, 2000}})});
  for (int at = 0; at < 3; ++at) host_.submit(kBlur);
  EXPECT_EQ(error_of(host_.submit(kBlur)).code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(host_.world().find(kBlur)->queue.size(), 3U);
  host_.give(RequestSubmitted{{2, 1}, kBlur, true});
  EXPECT_EQ(host_.world().find(kBlur)->queue.size(), 4U) << "it was promised";
}

TEST_F(Story, DeadlinesAreThePromiseAfterSubmissionAndFollowAChangedPromise) {
  host_.give(FunctionPut{function_of(1, {{20, 2000}}, milliseconds(80))});
  host_.run_for(seconds(1));
  host_.submit(kBlur);
  const auto& queue = host_.world().find(kBlur)->queue;
  EXPECT_EQ(queue.front().deadline, host_.now() + milliseconds(80));
  host_.give(FunctionPut{function_of(1, {{20, 2000}}, Duration{}), false});
  EXPECT_EQ(queue.front().deadline, kNever);
}

TEST_F(Story, ACancelledRequestIsDroppedFromTheQueueButNotFromAnInstance) {
  host_.add_slices({1});
  host_.give(FunctionPut{function_of(1, {{20, 2000}})});
  const InstanceId instance = started(kBlur, 1);
  const InvocationId first = host_.submit(kBlur);
  const InvocationId second = host_.submit(kBlur);
  decide(Assign{{first}, instance});
  host_.give(RequestCancelled{first});
  host_.give(RequestCancelled{second});
  EXPECT_EQ(error_of(second).code, ErrorCode::kCancelled);
  EXPECT_FALSE(host_.outcomes().contains(first));
  host_.run_for(seconds(1));
  EXPECT_FALSE(host_.outcomes().at(first).error);
}

TEST_F(Story, WhatAnInstanceHadWhenItDiedIsQueuedInFrontOfWhatCameLater) {
  host_.add_slices({1});
  host_.give(FunctionPut{function_of(1, {{20, 2000}})});
  const InstanceId instance = started(kBlur, 1);
  const InvocationId first = host_.submit(kBlur);
  const InvocationId second = host_.submit(kBlur);
  const InvocationId third = host_.submit(kBlur);
  decide(Assign{{first}, instance});
  decide(Assign{{second}, instance});
  host_.kill(instance);
  const auto& queue = host_.world().find(kBlur)->queue;
  ASSERT_EQ(queue.size(), 3U);
  EXPECT_EQ(queue[0].id, first);
  EXPECT_EQ(queue[0].attempts, 1U);
  EXPECT_EQ(queue[1].id, second);
  EXPECT_EQ(queue[2].id, third);
  EXPECT_EQ(queue[2].attempts, 0U);
}

TEST_F(Story, WhoWasNotAtWorkWhereAnInstanceDiedIsNotBlamed) {
  host_.add_slices({1, 1});
  host_.give(FunctionPut{function_of(1, {{20, 2000}})});
  const InstanceId instance = started(kBlur, 1);
  const InvocationId blamed = host_.submit(kBlur);
  const InvocationId bystander = host_.submit(kBlur);
  decide(Assign{{blamed}, instance});
  decide(Assign{{bystander}, instance});
  host_.give(InstanceEnded{instance, {ErrorCode::kInternal, "it died"}, {{JobId(1)}}});
  const auto& queue = host_.world().find(kBlur)->queue;
  ASSERT_EQ(queue.size(), 2U);
  EXPECT_EQ(queue[0].attempts, 1U);
  EXPECT_EQ(queue[1].attempts, 0U);
  EXPECT_TRUE(host_.given_alone().empty());
  const InstanceId another = started(kBlur, 2);
  decide(Assign{{blamed}, another});
  decide(Assign{{bystander}, another});
  EXPECT_EQ(host_.given_alone(), std::set<JobId>{JobId(3)})
      << "the next time it is known who was at work";
}

TEST_F(Story, RequestsThatAnInstanceDiedUnderAreJobsOfTheirOwn) {
  host_.add_slices({1});
  const auto function = function_of(1, {{20, 2000}});
  function->most_batch = 4;
  host_.give(FunctionPut{function});
  const InstanceId instance = started(kBlur, 1);
  const InvocationId first = host_.submit(kBlur);
  const InvocationId second = host_.submit(kBlur);
  decide(Assign{{first, second}, instance});
  EXPECT_TRUE(host_.given_alone().empty());
  host_.kill(instance);
  const InvocationId third = host_.submit(kBlur);
  const InstanceId another = started(kBlur, 1);
  decide(Assign{{first, second, third}, another});
  EXPECT_EQ(host_.given_alone(), (std::set<JobId>{JobId(2), JobId(3)}));
  EXPECT_EQ(host_.world().find(another)->jobs, 3U);
  EXPECT_EQ(host_.world().find(another)->requests, 3U);
  host_.run_for(seconds(10));
  for (const InvocationId each : {first, second, third}) {
    EXPECT_FALSE(host_.outcomes().at(each).error);
  }
}

TEST_F(Story, AWholeFunctionHasAPlaceForTheNextShortlyBeforeItsJobIsDone) {
  host_.add_slices({1});
  host_.give(FunctionPut{function_of(1, {{400, 2000}})});
  const InstanceId id = started(kBlur, 1);
  const Instance& instance = *host_.world().find(id);
  EXPECT_TRUE(instance.has_place(host_.now()));
  decide(Assign{{host_.submit(kBlur)}, id});
  EXPECT_FALSE(instance.has_place(host_.now()));
  // 5 ms and a 32nd of 400.
  EXPECT_EQ(instance.ahead_at(), host_.now() + microseconds(400'000 - 17'500));
  EXPECT_TRUE(instance.has_place(instance.ahead_at()));
  decide(Assign{{host_.submit(kBlur)}, id});
  EXPECT_EQ(instance.ahead_at(), kNever) << "two are all that it has";
  EXPECT_EQ(instance.busy_until, host_.now() + milliseconds(800));
  // However long the first took: the second begins when it is done.
  host_.run_for(milliseconds(100));
  host_.give(JobFinished{JobId(1), milliseconds(100)});
  EXPECT_EQ(instance.busy_until, host_.now() + instance.bottleneck());
  host_.run_for(seconds(2));
  EXPECT_EQ(instance.jobs, 0U);
  EXPECT_LE(instance.busy_until, host_.now());
}

TEST_F(Story, ARequestUnderWhichInstancesKeepDyingFailsWithTheirError) {
  host_.add_slices({1});
  host_.give(FunctionPut{function_of(1, {{20, 2000}})});
  const InvocationId request = host_.submit(kBlur);
  for (int life = 0; life < 3; ++life) {
    const InstanceId instance = started(kBlur, 1);
    decide(Assign{{request}, instance});
    host_.kill(instance);
  }
  EXPECT_THAT(error_of(request).message, HasSubstr("it crashed"));
  EXPECT_TRUE(host_.world().slices.at(DeviceId{1}).is_free());
}

TEST_F(Story, AFunctionThatCannotStartFailsItsRequestsAndIsTriedLessAndLess) {
  host_.add_slices({1});
  host_.give(FunctionPut{function_of(1, {{20, 2000}})});
  host_.chances().start_fails = 1;
  const InvocationId request = host_.submit(kBlur);
  Duration last_pause{};
  for (int life = 0; life < 3; ++life) {
    EXPECT_FALSE(host_.outcomes().contains(request));
    decide(Start{kBlur, on(kBlur, {slice_of(1, 1)})});
    while (!host_.world().instances.empty()) host_.run_for(milliseconds(1));
    const Duration pause = host_.world().find(kBlur)->start_again_at - host_.now();
    EXPECT_GT(pause, last_pause);
    last_pause = pause;
  }
  EXPECT_THAT(error_of(request).message, HasSubstr("it does not start"));
  host_.chances().start_fails = 0;
  started(kBlur, 1);
  EXPECT_EQ(host_.world().find(kBlur)->failed_starts, 0U);
}

TEST_F(Story, NewCodeRetiresTheInstancesOfTheOldAndLetsThemFinish) {
  host_.add_slices({1});
  host_.give(FunctionPut{function_of(1, {{20, 2000}})});
  const InstanceId instance = started(kBlur, 1);
  const InvocationId running = host_.submit(kBlur);
  decide(Assign{{running}, instance});
  const InvocationId queued = host_.submit(kBlur);
  host_.give(FunctionPut{function_of(1, {{30, 2000}})});
  EXPECT_THAT(why_not(Assign{{queued}, instance}), HasSubstr("is retiring"));
  host_.run_for(seconds(1));
  EXPECT_FALSE(host_.outcomes().at(running).error);
  EXPECT_FALSE(host_.outcomes().contains(queued));
  EXPECT_TRUE(host_.world().instances.empty());
}

TEST_F(Story, ANewProfileLeavesInstancesAsTheyAre) {
  host_.add_slices({1});
  host_.give(FunctionPut{function_of(1, {{20, 2000}})});
  const InstanceId instance = started(kBlur, 1);
  host_.give(FunctionPut{function_of(1, {{30, 2000}}), false});
  EXPECT_FALSE(host_.world().find(instance)->retiring);
}

TEST_F(Story, ADeletedFunctionAnswersWhatIsQueuedAndFinishesWhatRuns) {
  host_.add_slices({1});
  host_.give(FunctionPut{function_of(1, {{20, 2000}})});
  const InstanceId instance = started(kBlur, 1);
  const InvocationId running = host_.submit(kBlur);
  const InvocationId queued = host_.submit(kBlur);
  decide(Assign{{running}, instance});
  host_.give(FunctionRemoved{kBlur});
  EXPECT_EQ(error_of(queued).code, ErrorCode::kNotFound);
  host_.run_for(seconds(1));
  EXPECT_FALSE(host_.outcomes().at(running).error);
  EXPECT_TRUE(host_.world().instances.empty());
}

TEST_F(Story, ASliceThatDisappearsTakesItsInstanceAlongButNotItsRequests) {
  host_.add_slices({1, 1});
  host_.give(FunctionPut{function_of(1, {{20, 2000}})});
  const InstanceId instance = started(kBlur, 1);
  const InvocationId request = host_.submit(kBlur);
  decide(Assign{{request}, instance});
  host_.give(SliceLost{DeviceId{1}});
  EXPECT_THAT(why_not(Start{kBlur, on(kBlur, {slice_of(1, 1)})}), HasSubstr("does not exist"));
  host_.run_for(milliseconds(10));
  EXPECT_FALSE(host_.world().slices.contains(DeviceId{1}));
  const InstanceId other = started(kBlur, 2);
  decide(Assign{{request}, other});
  host_.run_for(seconds(1));
  EXPECT_FALSE(host_.outcomes().at(request).error);
}

TEST_F(Story, WhatAnEndingInstanceHasFinishesOrIsQueuedAgainAndNothingStopsIt) {
  host_.add_slices({1});
  host_.give(FunctionPut{function_of(1, {{30, 2000}})});
  const InstanceId instance = started(kBlur, 1);
  const InvocationId first = host_.submit(kBlur);
  decide(Assign{{first}, instance});
  const InvocationId second = host_.submit(kBlur);
  decide(Assign{{second}, instance});
  host_.kill_slowly(instance);
  EXPECT_TRUE(host_.world().instances.at(instance).retiring);
  EXPECT_FALSE(validate(host_.world(), Retire{instance}).ok());
  host_.run_for(milliseconds(40));
  EXPECT_TRUE(host_.outcomes().contains(first));
  EXPECT_TRUE(host_.world().queued.empty());
  host_.run_for(milliseconds(40));
  EXPECT_TRUE(host_.world().instances.empty());
  EXPECT_TRUE(host_.world().queued.contains(second));
  EXPECT_THAT(host_.story(), ElementsAre("start 1 of 1"));
}

TEST_F(Story, AStartThatSaysThatItEndsIsAFailedStart) {
  host_.add_slices({1});
  host_.give(FunctionPut{function_of(1, {{20, 2000}})});
  decide(Start{kBlur, on(kBlur, {slice_of(1, 1)})});
  host_.kill_slowly(InstanceId{1});
  host_.run_for(milliseconds(60));
  EXPECT_EQ(host_.world().find(kBlur)->failed_starts, 1U);
}

TEST_F(Story, WhoDrainsFinishesWhatRunsAndTurnsTheRestAway) {
  host_.add_slices({1});
  host_.give(FunctionPut{function_of(1, {{20, 2000}})});
  const InstanceId instance = started(kBlur, 1);
  const InvocationId running = host_.submit(kBlur);
  decide(Assign{{running}, instance});
  const InvocationId queued = host_.submit(kBlur);
  host_.give(DrainStarted{});
  EXPECT_EQ(error_of(queued), stopping_error(true));
  EXPECT_EQ(error_of(host_.submit(kBlur)), stopping_error(true));
  host_.run_for(seconds(1));
  EXPECT_FALSE(host_.outcomes().at(running).error);
  EXPECT_TRUE(host_.world().instances.empty());
}

TEST_F(Story, TwoTakeTurnsOnASliceOnlyOneAfterTheOther) {
  host_.add_slices({1});
  host_.give(FunctionPut{function_of(1, {{20, 2000}})});
  host_.give(FunctionPut{function_of(2, {{20, 2000}})});
  const InstanceId blur = started(kBlur, 1, AllocationMode::kTimeSharing);
  const Start second{kSharpen, on(kSharpen, {slice_of(1, 1)}), AllocationMode::kTimeSharing};
  EXPECT_THAT(why_not(second), HasSubstr("is not unloaded"));
  decide(Unload{blur});
  EXPECT_THAT(why_not(second), HasSubstr("is not unloaded"));
  host_.run_for(seconds(1));
  const InstanceId sharpen = started(kSharpen, 1, AllocationMode::kTimeSharing);
  EXPECT_THAT(why_not(Load{blur}), HasSubstr("is not unloaded"));
  EXPECT_THAT(why_not(ChangeAllocationMode{sharpen, AllocationMode::kExclusive}),
              HasSubstr("others share"));
  decide(Unload{sharpen});
  host_.run_for(seconds(1));
  decide(Load{blur});
  host_.run_for(seconds(1));
  EXPECT_EQ(host_.world().find(blur)->load_state, LoadState::kLoaded);
  decide(Retire{sharpen});
  host_.run_for(seconds(1));
  decide(ChangeAllocationMode{blur, AllocationMode::kExclusive});
  EXPECT_EQ(host_.world().slices.at(DeviceId{1}).exclusive, blur);
}

TEST_F(Story, EveryImpossibleDecisionIsToldApart) {
  host_.add_slices({1, 1, 1, 2});
  host_.give(FunctionPut{function_of(1, {{20, 2000}})});
  host_.give(FunctionPut{function_of(2, {{20, 6000}, {20, 6000}})});
  const InstanceId blur = started(kBlur, 1, AllocationMode::kTimeSharing);
  const InvocationId mine = host_.submit(kBlur);
  const InvocationId other = host_.submit(kSharpen);
  const pipeline::Placement pair = on(kSharpen, {slice_of(2, 1), slice_of(3, 1)});
  pipeline::Placement twice = pair;
  twice.slices = {DeviceId{2}, DeviceId{2}};
  pipeline::Placement mixed = pair;
  mixed.replicas = {1, 2};
  mixed.slices = {DeviceId{2}, DeviceId{3}, DeviceId{4}};
  EXPECT_THAT(why_not(Assign{{other}, blur}), HasSubstr("is not queued for"));
  EXPECT_THAT(why_not(Assign{{}, blur}), HasSubstr("no request"));
  EXPECT_THAT(why_not(Assign{{mine, other}, blur}), HasSubstr("more requests than"));
  EXPECT_THAT(why_not(Assign{{mine}, InstanceId{77}}), HasSubstr("does not exist"));
  EXPECT_THAT(why_not(Start{FunctionId{9}, pair}), HasSubstr("does not exist"));
  EXPECT_THAT(why_not(Start{kSharpen, {}}), HasSubstr("no slice"));
  EXPECT_THAT(why_not(Start{kSharpen, twice}), HasSubstr("two stage processes on one"));
  EXPECT_THAT(why_not(Start{kSharpen, mixed}), HasSubstr("different shapes"));
  EXPECT_THAT(why_not(Start{kSharpen, pair, AllocationMode::kTimeSharing}),
              HasSubstr("cannot share"));
  EXPECT_THAT(why_not(Start{kBlur, on(kBlur, {slice_of(1, 1)})}), HasSubstr("is shared"));
  EXPECT_THAT(why_not(Start{kBlur, on(kBlur, {slice_of(2, 1)}), AllocationMode::kTimeSharing}),
              HasSubstr("already"));
  EXPECT_THAT(why_not(ChangeAllocationMode{blur, AllocationMode::kTimeSharing}),
              HasSubstr("already"));
  EXPECT_THAT(why_not(Load{blur}), HasSubstr("is not unloaded"));
  EXPECT_THAT(why_not(Refuse{InvocationId{5, 5}, {}}), HasSubstr("is not queued"));
  decide(Assign{{mine}, blur});
  EXPECT_THAT(why_not(Unload{blur}), HasSubstr("is not idle"));
  decide(Start{kSharpen, pair});
  const InstanceId sharpen = host_.world().instances.rbegin()->first;
  EXPECT_THAT(why_not(Assign{{other}, sharpen}), HasSubstr("is not loaded"));
  EXPECT_THAT(why_not(Unload{sharpen}), HasSubstr("is not loaded"));
  EXPECT_THAT(why_not(Start{kBlur, on(kBlur, {slice_of(2, 1)})}), HasSubstr("belongs to"));
}

TEST_F(Story, AnImpossibleDecisionIsPassedOverAndCounted) {
  host_.add_slices({1});
  host_.give(FunctionPut{function_of(1, {{20, 2000}})});
  const InstanceId instance = started(kBlur, 1);
  const InvocationId request = host_.submit(kBlur);
  host_.policy_may_err = true;
  script_->next = {Retire{InstanceId{5}}, Assign{{request}, instance}};
  host_.give(TimerFired{});
  EXPECT_EQ(host_.dispatcher().policy_errors(), 1U);
  EXPECT_EQ(host_.dispatcher().last_policy_error(),
            "scripted decided to retire instance 5: instance 5 does not exist");
  host_.run_for(seconds(1));
  EXPECT_FALSE(host_.outcomes().at(request).error);
}

// Always wants the same two things, of which one can be.
class Endless final : public SlicePolicy {
 public:
  std::string_view name() const override { return "endless"; }
  void decide(const SliceWorld& world, Instant, std::vector<Decision>& decisions) override {
    for (const auto& [id, instance] : world.instances) {
      decisions.push_back(ChangeAllocationMode{
          id, instance.allocation_mode == AllocationMode::kExclusive ? AllocationMode::kTimeSharing
                                                                     : AllocationMode::kExclusive});
    }
    if (world.functions.empty() || !world.instances.empty()) return;
    const FunctionState& function = world.functions.begin()->second;
    if (auto placement = simple_placer()(*function.function, world.free_slices())) {
      decisions.push_back(Start{function.function->id, *placement});
    }
  }
};

TEST(SliceDispatcher, APolicyThatComesToNoEndIsStoppedAndCounted) {
  VirtualHost host(std::make_unique<Endless>());
  host.policy_may_err = true;
  host.add_slices({1});
  host.give(FunctionPut{function_of(1, {{20, 2000}})});
  host.run_for(milliseconds(900));
  EXPECT_GE(host.dispatcher().policy_errors(), 1U);
  EXPECT_EQ(host.dispatcher().last_policy_error(), "endless does not come to an end");
}

TEST_F(Story, UtilisationIsTheShareOfTheWindowThatTheBottleneckWasBusy) {
  host_.add_slices({1});
  host_.give(FunctionPut{function_of(1, {{100, 2000}})});
  const InstanceId instance = started(kBlur, 1);
  host_.run_until(Instant(seconds(4)));
  host_.give(TimerFired{});
  for (int at = 0; at < 3; ++at) {
    decide(Assign{{host_.submit(kBlur)}, instance});
    host_.run_for(milliseconds(200));
  }
  host_.run_for(milliseconds(400));
  EXPECT_NEAR(host_.world().find(instance)->utilisation, 0.3, 0.01);
  EXPECT_NEAR(host_.world().find(kBlur)->arrivals_per_s, 3, 0.1);
  host_.run_for(seconds(5));
  EXPECT_EQ(host_.world().find(instance)->utilisation, 0);
  EXPECT_EQ(host_.world().find(kBlur)->arrivals_per_s, 0);
}

TEST_F(Story, AProfileThatLiesByHalfIsFoundOut) {
  host_.add_slices({1});
  host_.give(FunctionPut{function_of(1, {{100, 2000}})});
  host_.chances().least_pace = host_.chances().most_pace = 2;
  const InstanceId instance = started(kBlur, 1);
  for (int at = 0; at < 20; ++at) {
    decide(Assign{{host_.submit(kBlur)}, instance});
    decide(Assign{{host_.submit(kBlur)}, instance});
    host_.run_for(milliseconds(400));
  }
  EXPECT_NEAR(host_.world().find(instance)->pace, 2, 0.2);
  EXPECT_NEAR(host_.world().find(instance)->utilisation, 1, 0.1);
}

TEST(FcfsSlices, ServesEveryFunctionInTurnOnASliceForOne) {
  VirtualHost host(std::make_unique<FcfsSlicesPolicy>(simple_placer(), FcfsSlicesOptions{}));
  host.add_slices({1});
  for (uint32_t id = 1; id <= 3; ++id) host.give(FunctionPut{function_of(id, {{20, 2000}})});
  for (uint32_t id = 1; id <= 3; ++id) host.submit(FunctionId{id});
  host.run_for(seconds(10));
  EXPECT_THAT(host.story(),
              ElementsAre("start 1 of 1", "stop 1", "start 2 of 2", "stop 2", "start 3 of 3"));
  EXPECT_EQ(host.outcomes().size(), 3U);
  host.run_for(seconds(70));
  EXPECT_TRUE(host.world().instances.empty());
}

TEST(FcfsSlices, SaysWhatAFunctionNeedsThatFitsNowhere) {
  VirtualHost host(std::make_unique<FcfsSlicesPolicy>(simple_placer(), FcfsSlicesOptions{}));
  host.add_slices({1, 1});
  host.give(FunctionPut{function_of(1, {{20, 12'000}})});
  const InvocationId request = host.submit(FunctionId{1});
  const Error& error = *host.outcomes().at(request).error;
  EXPECT_EQ(error.code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(error.message, HasSubstr("needs a slice with 12.1 GiB"));
  EXPECT_THAT(error.message, HasSubstr("2 x 1g.10gb"));
}

}  // namespace
}  // namespace lambent::slice_scheduling::testing
