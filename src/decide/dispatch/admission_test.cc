#include "decide/dispatch/admission.h"

#include <gtest/gtest.h>

#include "core/domain/stopping.h"
#include "decide/dispatch/testing/parts.h"

namespace lambent::dispatch {
namespace {

constexpr FunctionId kF{1};

class AdmissionTest : public testing::Test {
 protected:
  AdmissionTest() { parts_.add_function(kF, Bytes::gib(1)); }
  void submit(uint64_t number, FunctionId function = kF, bool asynchronous = false) {
    parts_.admission.submit({{0, number}, function, asynchronous});
  }
  // Of the last invocation that got an outcome.
  ErrorCode error() const {
    const auto outcomes = parts_.got<CompleteInvocation>();
    return outcomes.empty() || !outcomes.back().error ? ErrorCode::kUnknown
                                                      : outcomes.back().error->code;
  }

  Parts parts_;
};

TEST_F(AdmissionTest, LetsAnInvocationWaitOnceByItsId) {
  submit(1);
  submit(1);
  EXPECT_EQ(parts_.queues.queued(), 1u);
  EXPECT_EQ(parts_.log.counters().submitted, 1u);
  EXPECT_EQ(parts_.log.counters().ignored_events, 1u);
}

TEST_F(AdmissionTest, RefusesAFunctionThatIsUnknownOrThatNoGpuHolds) {
  submit(1, FunctionId{9});
  EXPECT_EQ(error(), ErrorCode::kNotFound);
  parts_.add_function(FunctionId{2}, Bytes::gib(99));
  submit(2, FunctionId{2});
  EXPECT_EQ(error(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(parts_.queues.queued(), 0u);
}

TEST_F(AdmissionTest, LearnsTheTimeBetweenArrivals) {
  submit(1);
  parts_.at(3);
  submit(2);
  EXPECT_EQ(parts_.flow(kF).interarrival.mean(), seconds(3));
}

TEST_F(AdmissionTest, RejectsOnlySynchronousInvocationsOnceItDrains) {
  submit(1);
  submit(2, kF, true);
  parts_.admission.start_drain();
  parts_.admission.reject_synchronous(kF);
  EXPECT_EQ(error(), ErrorCode::kUnavailable);
  EXPECT_EQ(parts_.got<CompleteInvocation>().back().error, stopping_error(false))
      << "another worker may run it";
  EXPECT_FALSE(parts_.queues.find({0, 1}));
  EXPECT_TRUE(parts_.queues.find({0, 2}));
  submit(3);
  EXPECT_FALSE(parts_.queues.find({0, 3}));
  submit(4, kF, true);
  EXPECT_TRUE(parts_.queues.find({0, 4}));
}

TEST_F(AdmissionTest, RejectsWhatWaitsOfAFunctionThatHasOutgrownTheGpus) {
  submit(1);
  parts_.admission.reject_unservable(kF);
  EXPECT_TRUE(parts_.queues.find({0, 1}));
  parts_.flow(kF).device_memory = Bytes::gib(99);
  parts_.admission.reject_unservable(kF);
  EXPECT_FALSE(parts_.queues.find({0, 1}));
}

TEST_F(AdmissionTest, CancelsOnlyAnInvocationThatWaits) {
  const InvocationSlot slot = parts_.submit(1, kF);
  ASSERT_TRUE(parts_.dispatch(kF));
  parts_.admission.cancel({{0, 1}});
  EXPECT_EQ(parts_.queues[slot].state, InvocationState::kStarting);
  submit(2);
  parts_.admission.cancel({{0, 2}});
  EXPECT_EQ(error(), ErrorCode::kCancelled);
}

TEST_F(AdmissionTest, MarksAFunctionThatShedsUntilItsQueueIsShort) {
  parts_.options.queued_per_function = scheduling::kCalm;
  for (uint64_t number = 1; number <= scheduling::kCalm; ++number) submit(number);
  EXPECT_FALSE(parts_.flow(kF).sheds);
  submit(99);
  EXPECT_EQ(error(), ErrorCode::kResourceExhausted);
  EXPECT_TRUE(parts_.flow(kF).sheds);
  parts_.admission.cancel({{0, 1}});
  EXPECT_FALSE(parts_.flow(kF).sheds);
}

}  // namespace
}  // namespace lambent::dispatch
