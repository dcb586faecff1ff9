#include "bin/scheduler_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lambent {
namespace {

using testing::HasSubstr;

TEST(SchedulerSettings, ApplyWhatIsWritten) {
  SchedulerSettings settings = default_settings();
  ASSERT_TRUE(apply_settings({"over_run_s=2.5", "order=length-first", "second_grace_period=3",
                              "grace_period_s=7", "prefetch=false", "queue_wait_s=0.25",
                              "max_queue_time_s=auto", "queued_per_function=12"},
                             settings)
                  .ok());
  EXPECT_EQ(settings.policy.mqfq.over_run, milliseconds(2500));
  EXPECT_EQ(settings.policy.mqfq.order, scheduling::CandidateOrder::kLengthFirst);
  EXPECT_EQ(settings.dispatch.fleet.second_grace_period, 3);
  EXPECT_EQ(settings.policy.density.grace_period, seconds(7));
  EXPECT_FALSE(settings.dispatch.fleet.prefetch);
  EXPECT_EQ(settings.dispatch.queue_wait, milliseconds(250));
  EXPECT_EQ(settings.dispatch.max_queue_time, scheduling::kLearntQueueTime);
  EXPECT_EQ(settings.dispatch.queued_per_function, 12u);
}

TEST(SchedulerSettings, RefuseWhatTheyDoNotKnowAndNameWhatThereIs) {
  SchedulerSettings settings = default_settings();
  for (const char* text : {"over_run=1", "over_run_s", "", "=", "=1"}) {
    const auto applied = apply_settings({text}, settings);
    ASSERT_FALSE(applied.ok()) << text;
    EXPECT_EQ(applied.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(applied.error().message, HasSubstr("over_run_s"));
  }
  for (const char* text : {"over_run_s=", "over_run_s=x", "over_run_s=-1", "over_run_s=1s",
                           "order=sideways", "prefetch=yes", "hybrid=never-heard-of"}) {
    const auto applied = apply_settings({text}, settings);
    ASSERT_FALSE(applied.ok()) << text;
    EXPECT_THAT(applied.error().message, HasSubstr("not a value for it"));
  }
}

TEST(SchedulerSettings, TakeFormerNamesWithAWarningThatNamesTheNewOne) {
  struct Case {
    const char* former;
    const char* present;
  };
  for (const Case& each : {Case{"move_patience", "move_grace_period"},
                           {"second_patience", "second_grace_period"},
                           {"patience_s", "grace_period_s"}}) {
    SchedulerSettings by_former = default_settings();
    SchedulerSettings by_present = default_settings();
    testing::internal::CaptureStderr();
    ASSERT_TRUE(apply_settings({std::string(each.former) + "=5"}, by_former).ok());
    const std::string warning = testing::internal::GetCapturedStderr();
    EXPECT_THAT(warning, HasSubstr(each.former));
    EXPECT_THAT(warning, HasSubstr(each.present));
    testing::internal::CaptureStderr();
    ASSERT_TRUE(apply_settings({std::string(each.present) + "=5"}, by_present).ok());
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(by_former.dispatch.fleet.move_grace_period,
              by_present.dispatch.fleet.move_grace_period);
    EXPECT_EQ(by_former.dispatch.fleet.second_grace_period,
              by_present.dispatch.fleet.second_grace_period);
    EXPECT_EQ(by_former.policy.density.grace_period, by_present.policy.density.grace_period);
  }
}

TEST(SchedulerSettings, KnowTheNamesOfThePapers) {
  EXPECT_EQ(parameter_name("D"), "concurrency");
  EXPECT_EQ(parameter_name("T"), "over_run_s");
  EXPECT_EQ(parameter_name("alpha"), "anticipation");
  EXPECT_EQ(parameter_name("eviction"), "eviction");
}

TEST(SchedulerSettings, TimeScaleDividesTheSchedulersOwnTimes) {
  SchedulerSettings settings = default_settings();
  const Duration over_run = settings.policy.mqfq.over_run;
  scale_time(20, "mqfq-sticky", settings);
  EXPECT_EQ(settings.policy.mqfq.over_run, over_run / 20);
  EXPECT_FALSE(settings.policy.mqfq.uniform_cost);
  // What one policy has by itself, too.
  scale_time(4, "mqfq-uniform", settings);
  EXPECT_EQ(settings.policy.mqfq.uniform_cost, milliseconds(250));
}

}  // namespace
}  // namespace lambent
