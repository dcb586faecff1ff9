// Arrivals that are drawn again from the gaps of others.
#include "sim/workload/resampled.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace lambent::workload {
namespace {

Trace trace_of(std::vector<Arrival> arrivals, Duration length, size_t functions) {
  Trace trace;
  trace.format = "exact";
  for (size_t i = 0; i < functions; ++i) trace.functions.push_back({.name = std::to_string(i)});
  trace.arrivals = source_of(std::move(arrivals));
  trace.length = length;
  return trace;
}

std::vector<Arrival> arrivals_of(Trace trace, uint64_t seed) {
  auto drawn = resample(std::move(trace), seed);
  EXPECT_TRUE(drawn.ok());
  return drawn.ok() ? drain(*drawn->arrivals) : std::vector<Arrival>();
}

// Function 0 every ten seconds; function 1 in pairs, a second apart, every 100; 2 never.
Trace example() {
  std::vector<Arrival> arrivals;
  for (int at = 5; at < 10'000; at += 10) arrivals.push_back({seconds(at), 0});
  for (int at = 20; at < 10'000; at += 100) {
    arrivals.push_back({seconds(at), 1});
    arrivals.push_back({seconds(at + 1), 1});
  }
  return trace_of(std::move(arrivals), seconds(10'000), 3);
}

TEST(Resampled, EachFunctionHasItsOwnGapsAndItsRate) {
  std::map<uint32_t, std::vector<Duration>> times;
  for (const Arrival& arrival : arrivals_of(example(), 7)) {
    EXPECT_GE(arrival.at, Duration::zero());
    EXPECT_LT(arrival.at, seconds(10'000));
    times[arrival.function].push_back(arrival.at);
  }
  EXPECT_EQ(times.size(), 2u) << "who never came does not come";
  ASSERT_NEAR(static_cast<double>(times[0].size()), 1000, 1);
  ASSERT_NEAR(static_cast<double>(times[1].size()), 200, 60);
  for (size_t i = 1; i < times[0].size(); ++i)
    EXPECT_EQ(times[0][i] - times[0][i - 1], seconds(10));
  std::map<Duration, int> gaps;
  for (size_t i = 1; i < times[1].size(); ++i) ++gaps[times[1][i] - times[1][i - 1]];
  EXPECT_EQ(gaps.size(), 2u);
  EXPECT_GT(gaps[seconds(1)], 50);
  EXPECT_GT(gaps[seconds(99)], 50);
}

TEST(Resampled, RunTimesAreDrawnFromTheirFunctions) {
  std::vector<Arrival> arrivals;
  for (int i = 0; i < 100; ++i) {
    arrivals.push_back({seconds(i), 0, i % 4 == 0 ? 3.0F : 1.0F});
    arrivals.push_back({seconds(i), 1, 7.0F});
  }
  Trace trace = trace_of(std::move(arrivals), seconds(100), 2);
  trace.has_run_times = true;
  int longer = 0;
  for (const Arrival& arrival : arrivals_of(std::move(trace), 3)) {
    if (arrival.function == 1) {
      EXPECT_EQ(arrival.execution_s, 7.0F);
      continue;
    }
    EXPECT_TRUE(arrival.execution_s == 1.0F || arrival.execution_s == 3.0F);
    longer += arrival.execution_s == 3.0F;
  }
  EXPECT_GT(longer, 10);
  EXPECT_LT(longer, 45);
}

TEST(Resampled, TheRateIsKeptOnAverageOverSeeds) {
  double pairs = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (const Arrival& arrival : arrivals_of(example(), seed)) pairs += arrival.function == 1;
  }
  EXPECT_NEAR(pairs / 50, 200, 8);
}

TEST(Resampled, ASeedSaysEverythingAndAnotherOneOtherwise) {
  EXPECT_EQ(arrivals_of(example(), 1), arrivals_of(example(), 1));
  EXPECT_NE(arrivals_of(example(), 1), arrivals_of(example(), 2));
}

TEST(Resampled, WhatAFunctionGetsDoesNotDependOnOthers) {
  std::vector<Arrival> alone;
  Trace first_only = example();
  for (const Arrival& arrival : drain(*first_only.arrivals)) {
    if (arrival.function == 0) alone.push_back(arrival);
  }
  std::vector<Arrival> among;
  for (const Arrival& arrival : arrivals_of(example(), 3)) {
    if (arrival.function == 0) among.push_back(arrival);
  }
  EXPECT_EQ(arrivals_of(trace_of(std::move(alone), seconds(10'000), 1), 3), among);
}

TEST(Resampled, OneArrivalComesOnceInEveryLengthOfTheTrace) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_LE(arrivals_of(trace_of({{seconds(3), 0}}, seconds(60), 1), seed).size(), 1u);
  }
}

TEST(Resampled, ManyAtOneInstantStayTogether) {
  std::vector<Arrival> burst(40, Arrival{seconds(30), 0});
  std::set<Duration> instants;
  for (const Arrival& arrival : arrivals_of(trace_of(burst, seconds(60), 1), 1)) {
    instants.insert(arrival.at);
  }
  EXPECT_LE(instants.size(), 1u);
}

class Failing final : public ArrivalSource {
 public:
  std::optional<Arrival> next() override { return std::nullopt; }
  std::optional<Error> failure() const override {
    return Error{ErrorCode::kAborted, "another program wrote to it"};
  }
};

TEST(Resampled, HalfATraceIsNoTrace) {
  Trace trace = example();
  trace.arrivals = std::make_unique<Failing>();
  EXPECT_EQ(resample(std::move(trace), 1).error().code, ErrorCode::kAborted);
  EXPECT_EQ(resample(trace_of({}, Duration::zero(), 1), 1).error().code,
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace lambent::workload
