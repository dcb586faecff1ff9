#include "decide/pipeline/profile_estimate.h"

#include <gtest/gtest.h>

namespace lambent::pipeline {
namespace {

const SliceShape kSmall{"1g.10gb", 14, Bytes::gib(10)};
const SliceShape kLarge{"2g.20gb", 28, Bytes::gib(20)};

ComponentRun run_of(Duration time, unsigned ran = 1, unsigned requests = 1) {
  return {.component = 0, .requests = requests, .ran = ran, .time = time, .output = Bytes(100)};
}

TEST(ProfileEstimate, LearnsFromNothing) {
  ProfileEstimate estimate({}, 2);
  EXPECT_FALSE(estimate.is_news());
  estimate.add(run_of(milliseconds(20)), kLarge);
  estimate.add(run_of(milliseconds(40)), kSmall);
  const auto& component = estimate.measured().profile.components[0];
  EXPECT_EQ(component.time_by_shape.at("2g.20gb"), milliseconds(20)) << "the first counts whole";
  EXPECT_EQ(component.output, Bytes(100));
  ComponentRun larger = run_of(milliseconds(20));
  larger.output = Bytes(1'000);
  estimate.add(larger, kLarge);
  estimate.add(run_of(milliseconds(20)), kLarge);
  EXPECT_EQ(component.output, Bytes(1'000)) << "the largest: channels and memory are made for it";
  EXPECT_EQ(estimate.measured().shapes, (std::vector<SliceShape>{kSmall, kLarge}));
  EXPECT_TRUE(estimate.is_news());
  EXPECT_FALSE(estimate.is_news()) << "it was told";
}

TEST(ProfileEstimate, TimesAreOfOneRequest) {
  ProfileEstimate estimate({}, 1);
  estimate.add(run_of(milliseconds(60), 3, 4), kSmall);
  EXPECT_EQ(estimate.measured().profile.components[0].time_by_shape.at("1g.10gb"),
            milliseconds(20));
  EXPECT_DOUBLE_EQ(estimate.measured().profile.components[0].probability, 0.75);
  estimate.add(run_of(Duration(0), 0, 4), kSmall);
  EXPECT_DOUBLE_EQ(estimate.measured().profile.components[0].probability, 0.375);
  EXPECT_EQ(estimate.measured().profile.components[0].time_by_shape.at("1g.10gb"), milliseconds(20))
      << "what did not run says nothing of its time";
}

TEST(ProfileEstimate, BatchesAreLearntByTheirSizeAndSayNothingOfOneRequest) {
  ProfileEstimate estimate({}, 1);
  const auto batch_of = [](unsigned requests, Duration time) {
    ComponentRun run = run_of(time, requests, requests);
    run.together = true;
    return run;
  };
  const auto& component = estimate.measured().profile.components[0];
  estimate.add(batch_of(4, milliseconds(40)), kSmall);
  EXPECT_EQ(component.time_by_shape.at("1g.10gb"), milliseconds(10)) << "nothing else is known";
  EXPECT_TRUE(component.batch_times_by_shape.empty());
  estimate.add(run_of(milliseconds(30)), kSmall);
  EXPECT_EQ(component.time_by_shape.at("1g.10gb"), milliseconds(30));
  EXPECT_TRUE(estimate.is_news());
  // The first of a size prepares what the next find.
  estimate.add(batch_of(4, milliseconds(4000)), kSmall);
  estimate.add(batch_of(3, milliseconds(9000)), kSmall);
  EXPECT_TRUE(component.batch_times_by_shape.empty());
  estimate.add(batch_of(4, milliseconds(40)), kSmall);
  estimate.add(batch_of(3, milliseconds(90)), kSmall);
  EXPECT_EQ(component.time_by_shape.at("1g.10gb"), milliseconds(30));
  EXPECT_EQ(component.batch_times_by_shape.at("1g.10gb"),
            (std::map<unsigned, Duration>{{2, milliseconds(60)}, {4, milliseconds(40)}}));
  EXPECT_TRUE(estimate.is_news()) << "plans without it are stale";
  estimate.add(batch_of(4, milliseconds(41)), kSmall);
  EXPECT_FALSE(estimate.is_news());
  for (int i = 0; i < 100; ++i) estimate.add(batch_of(4, milliseconds(80)), kSmall);
  EXPECT_NEAR(to_milliseconds(component.batch_times_by_shape.at("1g.10gb").at(4)), 80, 1);
  EXPECT_TRUE(estimate.is_news());
  // Measured by itself at half the time, batches take half of what they took too.
  estimate.replace(run_of(milliseconds(15)), kSmall);
  EXPECT_NEAR(to_milliseconds(component.batch_times_by_shape.at("1g.10gb").at(4)), 40, 1);
}

// A profile that lies by a factor of two is found out, but not by one slow run.
TEST(ProfileEstimate, FollowsWhatIsMeasured) {
  MeasuredProfile lie;
  lie.profile.components.resize(1);
  lie.profile.components[0].time_by_shape["1g.10gb"] = milliseconds(10);
  lie.profile.components[0].output = Bytes(100);
  lie.shapes = {kSmall};
  ProfileEstimate estimate(lie, 1);
  estimate.add(run_of(milliseconds(20)), kSmall);
  EXPECT_FALSE(estimate.is_news());
  for (int i = 0; i < 100; ++i) estimate.add(run_of(milliseconds(20)), kSmall);
  EXPECT_TRUE(estimate.is_news());
  EXPECT_NEAR(
      to_milliseconds(estimate.measured().profile.components[0].time_by_shape.at("1g.10gb")), 20,
      0.5);
}

TEST(ProfileEstimate, TakesWhatWasMeasuredOnPurposeAsItIs) {
  ProfileEstimate estimate({}, 1);
  for (int i = 0; i < 100; ++i) estimate.add(run_of(milliseconds(20)), kSmall);
  estimate.replace(run_of(milliseconds(40)), kSmall);
  const auto time = [&] {
    return estimate.measured().profile.components[0].time_by_shape.at("1g.10gb");
  };
  EXPECT_EQ(time(), milliseconds(40));
  estimate.add(run_of(milliseconds(20)), kSmall);
  EXPECT_NEAR(to_milliseconds(time()), 39, 0.1) << "what production tells goes on from there";
}

TEST(ProfileEstimate, TellsOfWhatNeverRan) {
  const Dag dag{.inputs = {"x"}, .components = {{"rare", {{Source::Kind::kInput, 0}}, true}}};
  ProfileEstimate estimate({}, 1);
  estimate.replace({.requests = 1, .ran = 0, .memory = Bytes::mib(3), .weights = Bytes::mib(3)},
                   kSmall);
  const auto& rare = estimate.measured().profile.components[0];
  EXPECT_EQ(rare.probability, 0);
  EXPECT_EQ(rare.weights, Bytes::mib(3));
  EXPECT_TRUE(rare.time_by_shape.empty());
  EXPECT_NE(to_json(estimate.measured(), dag).find("\"rare\""), std::string::npos);
  // When it runs after all, what is known of it counts for so many runs.
  ProfileEstimate next(estimate.measured(), 1);
  next.add(run_of(milliseconds(20)), kSmall);
  EXPECT_LT(next.measured().profile.components[0].probability, 0.1);
  EXPECT_EQ(next.measured().profile.components[0].time_by_shape.at("1g.10gb"), milliseconds(20));
}

TEST(ProfileEstimate, LearnsNoChanceFromJobsThatDoNotTellIt) {
  ProfileEstimate estimate({}, 1);
  estimate.add(run_of(Duration(0), 0, 0), kSmall);
  EXPECT_DOUBLE_EQ(estimate.measured().profile.components[0].probability, 1);
}

TEST(ProfileEstimate, IgnoresWhatTheFunctionHasNot) {
  ProfileEstimate estimate({}, 1);
  estimate.add({.component = 7}, kSmall);
  EXPECT_FALSE(estimate.is_news());
  EXPECT_TRUE(estimate.measured().shapes.empty());
}

TEST(ProfileEstimate, KnowsHowLongStartsTake) {
  ProfileEstimate estimate({}, 1);
  estimate.add_start(milliseconds(300));
  estimate.add_start(milliseconds(500));
  EXPECT_EQ(estimate.measured().profile.start, milliseconds(400));
}

}  // namespace
}  // namespace lambent::pipeline
