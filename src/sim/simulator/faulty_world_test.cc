#include "sim/simulator/faulty_world.h"

#include <gtest/gtest.h>

namespace lambent::simulator {
namespace {

TEST(FaultyWorld, HoldsEveryInvariantAndHasEveryKindOfFault) {
  FaultCounts faults{};
  uint64_t returned = 0, gpu_cold = 0, moves_in = 0, moves_out = 0, prefetch_hits = 0,
           host_runs = 0, fetches = 0, refused_fetches = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    const FaultyWorldResult result = run_faulty_world({.seed = seed, .trace_length = 5});
    ASSERT_FALSE(result.violation) << "seed " << seed << ": " << result.violation->what
                                   << "; replay it with ./dev soak --replay " << seed;
    for (size_t i = 0; i < kFaults; ++i) faults[i] += result.faults[i];
    returned += result.counters.returned;
    gpu_cold += result.counters.gpu_cold_starts;
    moves_in += result.counters.moves_in;
    moves_out += result.counters.moves_out;
    prefetch_hits += result.counters.prefetch_hits;
    host_runs += result.counters.host_runs;
    fetches += result.counters.fetches;
    refused_fetches += result.counters.refused_fetches;
  }
  for (size_t i = 0; i < kFaults; ++i) {
    EXPECT_GT(faults[i], 0u) << name_of(static_cast<Fault>(i)) << " never happened";
  }
  EXPECT_GT(returned, 0u);
  EXPECT_GT(gpu_cold, 100u);
  EXPECT_GT(moves_in, 100u);
  EXPECT_GT(moves_out, moves_in);
  EXPECT_GT(prefetch_hits, 0u);
  EXPECT_GT(host_runs, 500u);
  EXPECT_GT(fetches, 100u);
  EXPECT_GT(refused_fetches, 50u);
}

TEST(FaultyWorld, IsTheSameForTheSameSeed) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto once = run_faulty_world({.seed = seed, .trace_length = 3});
    const auto again = run_faulty_world({.seed = seed, .trace_length = 3});
    EXPECT_EQ(once.log_hash, again.log_hash);
    EXPECT_EQ(once.trace, again.trace);
  }
  EXPECT_NE(run_faulty_world({.seed = 1}).log_hash, run_faulty_world({.seed = 2}).log_hash);
}

TEST(FaultyWorld, DecidesTheSameFromSnapshots) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const FaultyWorldResult result = run_faulty_world({.seed = seed, .twin_period = 7});
    ASSERT_FALSE(result.violation) << "seed " << seed << ": " << result.violation->what;
  }
}

TEST(FaultyWorld, LeavesOutWhatItIsToldTo) {
  FaultyWorldOptions options{.most_arrivals = 40};
  options.without.fill(true);
  for (options.seed = 1; options.seed <= 20; ++options.seed) {
    const auto result = run_faulty_world(options);
    EXPECT_EQ(result.faults, FaultCounts{});
    EXPECT_LE(result.arrivals, 40u);
    EXPECT_FALSE(result.violation);
  }
}

TEST(Fault, HasANameOfItsOwn) {
  for (size_t i = 0; i < kFaults; ++i) {
    EXPECT_EQ(fault_from_name(name_of(static_cast<Fault>(i))), static_cast<Fault>(i));
  }
  EXPECT_EQ(fault_from_name("gravity"), std::nullopt);
}

}  // namespace
}  // namespace lambent::simulator
