#include "decide/scheduling/pool_scaling.h"

#include <gtest/gtest.h>

#include "core/base/random.h"

namespace lambent::scheduling {
namespace {

MemoryProfile profile_of(std::initializer_list<std::pair<int, uint64_t>> kernels) {
  MemoryProfile profile;
  for (const auto& [duration_ms, live_mib] : kernels) {
    profile.kernels.push_back({milliseconds(duration_ms), Bytes::mib(live_mib)});
    profile.whole += Bytes::mib(live_mib);
  }
  return profile;
}

TEST(ProfileTable, GivesTheSmallestProfileThatHoldsWhatIsAskedFor) {
  ProfileTable table;
  table.add(8, Bytes(100), profile_of({{8, 80}}));
  table.add(1, Bytes(100), profile_of({{1, 9}}));
  table.add(1, Bytes(400), profile_of({{2, 40}}));
  table.add(1, Bytes(100), profile_of({{1, 10}}));
  EXPECT_EQ(table.find(1, Bytes(90))->peak(), Bytes::mib(10));
  EXPECT_EQ(table.find(1, Bytes(101))->peak(), Bytes::mib(40));
  EXPECT_EQ(table.find(2, Bytes(100))->peak(), Bytes::mib(80));
  EXPECT_EQ(table.find(9, Bytes(1)), nullptr);
  EXPECT_EQ(table.find(2, Bytes(101)), nullptr);
}

TEST(Demand, IsTheMostOfTheKernelsThatCanBeginInTime) {
  const MemoryProfile model = profile_of({{5, 10}, {5, 30}, {5, 20}, {5, 90}});
  const auto demand = [&](size_t kernel, int elapsed_ms, int ahead_ms) {
    return demand_of(RunningFunction{&model, kernel, milliseconds(elapsed_ms)},
                     milliseconds(ahead_ms));
  };
  EXPECT_EQ(demand(0, 0, 4), Bytes::mib(10));
  EXPECT_EQ(demand(0, 0, 5), Bytes::mib(30));
  EXPECT_EQ(demand(0, 2, 3), Bytes::mib(30)) << "the first has run for a while";
  EXPECT_EQ(demand(0, 0, 14), Bytes::mib(30));
  EXPECT_EQ(demand(0, 0, 15), Bytes::mib(90));
  EXPECT_EQ(demand(0, 9, 0), Bytes::mib(30)) << "the first takes longer than profiled";
  EXPECT_EQ(demand(3, 0, 100), Bytes::mib(90));
  EXPECT_EQ(demand(4, 0, 100), Bytes());
}

TEST(Demand, OfSeveralFunctionsIsTheSumOfWhatEachNeedsMost) {
  const MemoryProfile large = profile_of({{5, 90}}), small = profile_of({{5, 10}, {5, 20}});
  const RunningFunction both[] = {{&large, 0, {}}, {&small, 0, {}}};
  // The paper's listing never sets m_next back: the second would be charged with 90 again.
  EXPECT_EQ(demand_of(both, milliseconds(5)), Bytes::mib(110));
}

TEST(Scaling, GrowsAheadAndGivesBackWhatNobodyNeeds) {
  const MemoryProfile model = profile_of({{5, 10}, {5, 30}, {5, 4}, {50, 4}});
  PoolOptions options{.interval = milliseconds(6)};
  RunningFunction function{&model, 0, {}};
  EXPECT_EQ(scale_pool(options, Bytes(), Bytes(), {&function, 1}), (PoolStep{Bytes::mib(30), {}}));
  function.kernel = 2;
  EXPECT_EQ(scale_pool(options, Bytes::mib(30), Bytes(), {&function, 1}),
            (PoolStep{{}, Bytes::mib(26)}));
  EXPECT_EQ(scale_pool(options, Bytes::mib(30), Bytes::mib(9), {&function, 1}),
            (PoolStep{{}, Bytes::mib(20)}))
      << "nine are in use, rounded to what the driver gives";
  EXPECT_EQ(scale_pool(options, Bytes::mib(4), Bytes(), {&function, 1}), PoolStep{});
  EXPECT_EQ(scale_pool(options, Bytes::mib(30), Bytes(), {}), (PoolStep{{}, Bytes::mib(30)}));
  options.least = Bytes::mib(8);
  EXPECT_EQ(scale_pool(options, Bytes::mib(30), Bytes(), {}), (PoolStep{{}, Bytes::mib(22)}));
  EXPECT_EQ(scale_pool(options, Bytes(), Bytes(), {}), (PoolStep{Bytes::mib(8), {}}));
}

TEST(Scaling, StopsAtTheMostThereMayBe) {
  const MemoryProfile model = profile_of({{5, 100}});
  PoolOptions options{.most = Bytes::mib(60)};
  const RunningFunction function{&model, 0, {}};
  EXPECT_EQ(scale_pool(options, Bytes::mib(20), {}, {&function, 1}),
            (PoolStep{Bytes::mib(40), {}}));
  EXPECT_EQ(scale_pool(options, Bytes::mib(60), {}, {&function, 1}), PoolStep{});
  EXPECT_EQ(scale_pool(options, Bytes::mib(80), Bytes::mib(70), {&function, 1}),
            (PoolStep{{}, Bytes::mib(10)}))
      << "the limit was lowered; what is in use stays";
}

TEST(Scaling, AStaticPoolTakesEverythingAtOnceAndKeepsIt) {
  const MemoryProfile model = profile_of({{5, 10}, {5, 30}, {5, 20}});
  PoolOptions options{.rule = PoolRule::kStatic};
  const RunningFunction function{&model, 2, {}};
  EXPECT_EQ(scale_pool(options, {}, {}, {&function, 1}), (PoolStep{Bytes::mib(60), {}}));
  EXPECT_EQ(scale_pool(options, Bytes::mib(60), {}, {}), PoolStep{});
  options.rule = PoolRule::kFineGrained;
  EXPECT_EQ(scale_pool(options, {}, {}, {&function, 1}), (PoolStep{Bytes::mib(20), {}}));
  EXPECT_EQ(scale_pool(options, Bytes::mib(60), {}, {}), PoolStep{});
}

TEST(Scaling, LooksAsOftenAsMemoryCanBeGot) {
  EXPECT_EQ(scaling_interval(milliseconds(30), milliseconds(10)), milliseconds(40));
  EXPECT_EQ(scaling_interval(microseconds(3), microseconds(2)), milliseconds(1));
  EXPECT_EQ(scaling_period(milliseconds(40)), milliseconds(20));
}

// Functions that come at random, and whose kernels take as long as profiled or up to twice that.
struct Run {
  const MemoryProfile* profile;
  size_t kernel = 0;
  Duration elapsed{}, left{};
};

class RandomRuns {
 public:
  explicit RandomRuns(uint64_t seed) : random_(seed) {
    for (int model = 0; model < 4; ++model) {
      MemoryProfile profile;
      const uint64_t kernels = 1 + random_.below(12);
      for (uint64_t i = 0; i < kernels; ++i) {
        profile.kernels.push_back(
            {microseconds(100 + random_.below(4000)), Bytes::mib(random_.below(50))});
        profile.whole += profile.kernels.back().live;
      }
      models_.push_back(std::move(profile));
    }
  }

  void maybe_arrive() {
    if (random_.below(3) != 0 || runs_.size() > 6) return;
    Run run{&models_[random_.below(models_.size())]};
    run.left = time_of(run);
    runs_.push_back(run);
  }
  void pass(Duration time) {
    for (Run& run : runs_) {
      Duration left = time;
      while (run.kernel < run.profile->kernels.size() && left >= run.left) {
        left -= run.left;
        ++run.kernel;
        run.elapsed = Duration(0);
        run.left = time_of(run);
      }
      run.elapsed += left;
      run.left -= std::min(left, run.left);
    }
  }
  void forget_the_ended() {
    std::erase_if(runs_, [](const Run& run) { return run.kernel == run.profile->kernels.size(); });
  }
  std::vector<RunningFunction> now() const {
    std::vector<RunningFunction> functions;
    for (const Run& run : runs_) functions.push_back({run.profile, run.kernel, run.elapsed});
    return functions;
  }
  Bytes needed() const {
    Bytes sum;
    for (const Run& run : runs_) {
      if (run.kernel < run.profile->kernels.size()) sum += run.profile->kernels[run.kernel].live;
    }
    return sum;
  }

 private:
  Duration time_of(const Run& run) {
    if (run.kernel == run.profile->kernels.size()) return Duration::max();
    return run.profile->kernels[run.kernel].duration * (100 + random_.below(100)) / 100;
  }

  SeededRandom random_;
  std::vector<MemoryProfile> models_;
  std::vector<Run> runs_;
};

Bytes after(Bytes size, const PoolStep& step) { return size + step.grow - step.shrink; }

TEST(AnyRun, HasItsMemoryUntilTheNextLookAndTheRulesAreOrderedBySize) {
  uint64_t shrunk = 0, smaller = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomRuns runs(seed);
    PoolOptions resilient{.interval = milliseconds(4)};
    PoolOptions fine = resilient, fixed = resilient;
    fine.rule = PoolRule::kFineGrained;
    fixed.rule = PoolRule::kStatic;
    Bytes sizes[3];
    for (int look = 0; look < 60; ++look) {
      runs.maybe_arrive();
      const auto functions = runs.now();
      const PoolStep step = scale_pool(resilient, sizes[0], runs.needed(), functions);
      ASSERT_TRUE(step.grow == Bytes() || step.shrink == Bytes());
      if (step.shrink > Bytes()) ++shrunk;
      sizes[0] = after(sizes[0], step);
      sizes[1] = after(sizes[1], scale_pool(fine, sizes[1], runs.needed(), functions));
      sizes[2] = after(sizes[2], scale_pool(fixed, sizes[2], runs.needed(), functions));
      ASSERT_LE(sizes[0], sizes[1]);
      ASSERT_LE(sizes[1], sizes[2]);
      if (sizes[0] < sizes[1]) ++smaller;
      for (int moment = 0; moment < 8; ++moment) {
        ASSERT_LE(runs.needed(), sizes[0]) << "look " << look << ", moment " << moment;
        runs.pass(scaling_period(resilient.interval) / 8);
      }
      runs.forget_the_ended();
    }
  }
  EXPECT_GT(shrunk, 1000u);  // or the runs would show nothing
  EXPECT_GT(smaller, 5000u);
}

}  // namespace
}  // namespace lambent::scheduling
