#include "decide/batching/batch_policy.h"

#include <gtest/gtest.h>

#include <vector>

namespace lambent::batching {
namespace {

const Instant kStart = Instant() + seconds(100);

std::vector<Waiting> waiting(size_t count, Instant since = kStart, uint64_t elements = 1) {
  return std::vector<Waiting>(count, Waiting{since, elements});
}

TEST(BatchPolicy, WithoutBatchesEachRequestRunsByItself) {
  BatchPolicy policy({});
  EXPECT_EQ(policy.decide({}, kStart).requests, 0u);
  EXPECT_EQ(policy.decide(waiting(5), kStart).requests, 1u);
}

TEST(BatchPolicy, WhatWaitsRunsTogetherUpToTheLimit) {
  BatchPolicy policy({.most_elements = 8});
  EXPECT_EQ(policy.decide(waiting(3), kStart).requests, 3u) << "it waits for no more";
  EXPECT_EQ(policy.decide(waiting(20), kStart).requests, 8u);
  EXPECT_EQ(policy.decide(waiting(20, kStart, 3), kStart).requests, 2u) << "6 of 8, 9 are too many";
  EXPECT_EQ(policy.decide(waiting(2, kStart, 100), kStart).requests, 1u)
      << "one that is larger than a batch runs by itself";
}

TEST(BatchPolicy, AnIdleModelWaitsForOthersNoLongerThanItMay) {
  BatchPolicy policy({.most_elements = 4, .most_wait = milliseconds(5)});
  const auto two = waiting(2);
  const BatchDecision decision = policy.decide(two, kStart + milliseconds(1));
  EXPECT_EQ(decision.requests, 0u);
  EXPECT_EQ(decision.again, kStart + milliseconds(5));
  EXPECT_EQ(policy.decide(two, kStart + milliseconds(5)).requests, 2u);
  EXPECT_EQ(policy.decide(waiting(4), kStart).requests, 4u) << "a full batch waits for nothing";
}

TEST(BatchPolicy, BatchesGrowWhileTheSloAllowsAndShrinkWhenARunWasTooLong) {
  BatchPolicy policy({.most_elements = 64, .slo = milliseconds(20)});
  EXPECT_EQ(policy.size(), 1u);
  // A run takes 1 ms and 0.1 ms for each element: 64 of them fit 10 ms.
  for (int i = 0; i < 40; ++i) {
    policy.ran(policy.size(),
               milliseconds(1) + microseconds(100) * static_cast<int64_t>(policy.size()));
  }
  EXPECT_EQ(policy.size(), 64u);
  policy.ran(64, milliseconds(11));
  EXPECT_EQ(policy.size(), 32u);
}

TEST(BatchPolicy, ALargerBatchThatWouldTakeTooLongIsNotTried) {
  BatchPolicy policy({.most_elements = 64, .slo = milliseconds(20)});
  // A run takes 1 ms for each element: twice as many take twice as long.
  for (int i = 0; i < 40; ++i) {
    const Duration run = milliseconds(1) * static_cast<int64_t>(policy.size());
    ASSERT_LE(run, milliseconds(10));
    policy.ran(policy.size(), run);
  }
  EXPECT_GE(policy.size(), 8u);
  EXPECT_LE(policy.size(), 10u);
}

TEST(BatchPolicy, ABatchThatWasNotFullSaysNothingOfLargerOnes) {
  BatchPolicy policy({.most_elements = 64, .slo = milliseconds(20)});
  policy.ran(1, milliseconds(1));
  ASSERT_EQ(policy.size(), 2u);
  for (int i = 0; i < 10; ++i) policy.ran(1, milliseconds(1));
  EXPECT_EQ(policy.size(), 2u);
  policy.ran(1, milliseconds(30));
  EXPECT_EQ(policy.size(), 2u) << "one request cannot be made smaller";
}

TEST(BatchPolicy, ARequestRunsEarlyEnoughToBeInTime) {
  BatchPolicy policy({.most_elements = 64, .most_wait = milliseconds(50), .slo = milliseconds(10)});
  policy.ran(1, milliseconds(2));
  ASSERT_EQ(policy.size(), 2u);
  const BatchDecision decision = policy.decide(waiting(1), kStart);
  EXPECT_EQ(decision.requests, 0u);
  EXPECT_EQ(decision.again, kStart + milliseconds(8));
  EXPECT_EQ(policy.decide(waiting(1), kStart + milliseconds(8)).requests, 1u);
}

TEST(BatchPolicy, NoSequenceOfRunsLeavesItsBounds) {
  BatchPolicy policy({.most_elements = 10, .slo = milliseconds(10)});
  uint64_t state = 1;
  for (int i = 0; i < 10'000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    policy.ran(1 + (state >> 33) % 20, microseconds(static_cast<int64_t>((state >> 20) % 8'000)));
    ASSERT_GE(policy.size(), 1u);
    ASSERT_LE(policy.size(), 10u);
  }
}

}  // namespace
}  // namespace lambent::batching
