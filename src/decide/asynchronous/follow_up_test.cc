// Which ends are which, and what a function's settings make of the worker's. Whole lives are told
// by tests/scenarios/asynchronous.
#include "decide/asynchronous/follow_up.h"

#include <gtest/gtest.h>

#include "core/domain/async_limits.h"

namespace lambent::asynchronous {
namespace {

InvocationResult rejected(ErrorCode code, std::string error_type = "") {
  InvocationResult result;
  result.outcome = Outcome::kRejected;
  result.error = Error{code, "why"};
  result.error_type = std::move(error_type);
  return result;
}

TEST(FollowUp, KnowsWhatPassesFromWhatDoesNot) {
  EXPECT_EQ(end_of({}, false), End::kSucceeded);
  EXPECT_EQ(end_of({}, true), End::kSucceeded) << "the request came too late";
  InvocationResult failed;
  failed.outcome = Outcome::kFunctionError;
  EXPECT_EQ(end_of(failed, false), End::kFailed);
  EXPECT_EQ(end_of(failed, true), End::kCancelled) << "its handler ended with its sandbox";
  EXPECT_EQ(end_of(rejected(ErrorCode::kCancelled), true), End::kCancelled);
  EXPECT_EQ(end_of(rejected(ErrorCode::kUnavailable), false), End::kPutOff);
  EXPECT_EQ(end_of(rejected(ErrorCode::kResourceExhausted), false), End::kPutOff);
  EXPECT_EQ(end_of(rejected(ErrorCode::kAborted), false), End::kRefused);
  EXPECT_EQ(end_of(rejected(ErrorCode::kNotFound), false), End::kRefused);
  const auto too_old = rejected(ErrorCode::kDeadlineExceeded, std::string(kEventTooOldErrorType));
  EXPECT_EQ(end_of(too_old, false), End::kExpired);
}

TEST(FollowUp, AFunctionSaysHowOftenOrLeavesItToTheWorker) {
  const Rules of_worker{.retries = 2};
  EXPECT_EQ(rules_of({}, of_worker).retries, 2U);
  EXPECT_EQ(rules_of({.retries = 0}, of_worker).retries, 0U);
  EXPECT_EQ(rules_of({.retries = 1}, of_worker).retries, 1U);
  EXPECT_EQ(rules_of({}, of_worker).max_age, Rules::kUsualMaxAge);
  EXPECT_EQ(rules_of({.max_age_s = 60}, of_worker).max_age, seconds(60));
}

TEST(FollowUp, WhatIsPutOffComesBackAtLeastEveryFiveMinutes) {
  const Rules rules;
  EXPECT_EQ(decide(End::kPutOff, {.put_off = 0}, rules).again_in, seconds(1));
  EXPECT_EQ(decide(End::kPutOff, {.put_off = 3}, rules).again_in, seconds(8));
  EXPECT_EQ(decide(End::kPutOff, {.put_off = 4'000'000'000}, rules).again_in, seconds(300));
}

TEST(FollowUp, AChainOfDestinationsEnds) {
  EXPECT_TRUE(may_lead_on(0));
  EXPECT_TRUE(may_lead_on(limits::kDestinationChain - 1));
  EXPECT_FALSE(may_lead_on(limits::kDestinationChain));
}

}  // namespace
}  // namespace lambent::asynchronous
