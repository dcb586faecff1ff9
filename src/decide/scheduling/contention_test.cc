#include "decide/scheduling/contention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "core/base/random.h"

namespace lambent::scheduling {
namespace {

constexpr FunctionId kShort{1};
constexpr FunctionId kLong{2};
constexpr uint32_t kDevice = 0;

// A device on which each of n runs takes 1 + slowdown (n - 1) times as long, and two clients whose
// runs begin one after the other with pauses between them.
class World {
 public:
  World(double slowdown, double spread, uint64_t seed, Spread weighs = Spread::kIgnored)
      : contention(1, true, weighs), slowdown_(slowdown), spread_(spread), random_(seed) {}

  void slows_down_by(double slowdown) { slowdown_ = slowdown; }
  void run_for(double length_s) {
    const double end_s = now_s_ + length_s;
    while (now_s_ < end_s) step();
  }

  Contention contention;

 private:
  struct Client {
    FunctionId function;
    double takes_s;
    bool at_work = false;
    double left_s = 0.1;  // of the run, or of the pause
  };

  void step() {
    const int at_work = (clients_[0].at_work ? 1 : 0) + (clients_[1].at_work ? 1 : 0);
    const double factor = at_work == 2 ? 1 + slowdown_ : 1;
    const auto until = [&](const Client& client) {
      return client.left_s * (client.at_work ? factor : 1);
    };
    const double passes_s = std::min(until(clients_[0]), until(clients_[1]));
    now_s_ += passes_s;
    for (uint32_t i = 0; i < 2; ++i) {
      Client& client = clients_[i];
      client.left_s -= passes_s / (client.at_work ? factor : 1);
      if (client.left_s > 1e-9) continue;
      const Instant now = Instant{} + from_seconds(now_s_);
      if (client.at_work) {
        contention.end(i, kDevice, true, now);
      } else {
        contention.begin(i, client.function, kDevice, now);
      }
      client.at_work = !client.at_work;
      client.left_s = client.takes_s;
      if (client.at_work) {
        client.left_s *= 1 + spread_ * (2 * random_.uniform() - 1);
      } else {
        client.left_s *= 2 * random_.uniform();
      }
    }
  }

  double slowdown_, spread_;
  SeededRandom random_;
  double now_s_ = 0;
  Client clients_[2] = {{kShort, 0.3}, {kLong, 1.7}};
};

TEST(Contention, IsThePriorBeforeAnythingWasSeen) {
  const Contention contention(1, true);
  EXPECT_EQ(contention.slowdown(), Contention::kPrior);
  EXPECT_EQ(contention.slowdown_of(kShort), Contention::kPrior);
  EXPECT_FALSE(contention.unshared(kShort));
}

TEST(Contention, IsLearntFromFewRunsAndFromNoisyOnes) {
  for (const double slowdown : {0.0, 0.2, 0.5, 1.0, 1.2}) {
    for (const double spread : {0.0, 0.05, 0.5}) {
      SCOPED_TRACE(std::to_string(slowdown) + ", " + std::to_string(spread));
      World world(slowdown, spread, 7);
      world.run_for(60);
      EXPECT_NEAR(world.contention.slowdown(), slowdown, spread == 0.5 ? 0.35 : 0.2);
      world.run_for(540);
      EXPECT_NEAR(world.contention.slowdown(), slowdown, spread == 0.5 ? 0.2 : 0.05);
      EXPECT_NEAR(to_seconds(*world.contention.unshared(kShort)), 0.3, spread == 0.5 ? 0.06 : 0.02);
      EXPECT_NEAR(to_seconds(*world.contention.unshared(kLong)), 1.7, spread == 0.5 ? 0.3 : 0.1);
    }
  }
}

TEST(Contention, FollowsADeviceThatChanges) {
  World world(0.1, 0.1, 3);
  world.run_for(600);
  ASSERT_NEAR(world.contention.slowdown(), 0.1, 0.1);
  world.slows_down_by(1.1);
  world.run_for(900);
  EXPECT_NEAR(world.contention.slowdown(), 1.1, 0.15);
}

TEST(Contention, TwoLongRunsThatMeetByChanceAreNoSlowdownWhereItWeighsTheSpread) {
  const auto slowdown = [](Spread weighs) {
    Contention contention(1, true, weighs);
    Instant now{};
    for (int i = 0; i < 3; ++i) {
      contention.begin(1, kShort, kDevice, now);
      contention.end(1, kDevice, true, now += seconds(1));
    }
    contention.begin(1, kShort, kDevice, now);
    contention.begin(2, kLong, kDevice, now);
    contention.end(1, kDevice, true, now + seconds(10));
    return contention.slowdown_of(kShort);
  };
  EXPECT_GT(slowdown(Spread::kIgnored), 1.5);
  EXPECT_LT(slowdown(Spread::kOfEach), 0.5);
  EXPECT_LT(slowdown(Spread::kOfSeveral), 0.5);
}

// Dozens of runs in a row take 3 s each and dozens 0.5 s, and the long ones are more often beside
// others. Each is about as far off as the one before it, so all together tell little.
double learnt_where_lengths_follow_each_other(Spread weighs) {
  double sum = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Contention contention(1, true, weighs);
    SeededRandom random(seed);
    Instant now{};
    for (int phase = 0; phase < 60; ++phase) {
      const bool is_long = random.uniform() < 0.5;
      const bool beside = random.uniform() < (is_long ? 0.8 : 0.2);
      for (int run = 0; run < 12; ++run) {
        contention.begin(1, kShort, kDevice, now);
        if (beside) contention.begin(2, kShort, kDevice, now);
        now += from_seconds(is_long ? 3 : 0.5);
        contention.end(1, kDevice, true, now);
        if (beside) contention.end(2, kDevice, true, now);
      }
      sum += contention.slowdown_of(kShort) / 60 / 4;
    }
  }
  return sum;
}

TEST(Contention, RunsThatAreLongInARowTellLessWhereItWeighsSeveral) {
  const double each = learnt_where_lengths_follow_each_other(Spread::kOfEach);
  EXPECT_LT(each, learnt_where_lengths_follow_each_other(Spread::kIgnored));
  EXPECT_LT(learnt_where_lengths_follow_each_other(Spread::kOfSeveral), 0.75 * each);
}

// A device where contexts take turns is found out all the same.
TEST(Contention, StillLearnsSlowdownsWhereItWeighsTheSpread) {
  for (const Spread weighs : {Spread::kOfEach, Spread::kOfSeveral}) {
    for (const double slowdown : {0.0, 0.2, 0.5, 1.0, 1.2}) {
      for (const double spread : {0.0, 0.05, 0.5}) {
        SCOPED_TRACE(std::to_string(slowdown) + ", " + std::to_string(spread));
        World world(slowdown, spread, 7, weighs);
        world.run_for(60);
        EXPECT_NEAR(world.contention.slowdown(), slowdown, 0.35);
        world.run_for(540);
        EXPECT_NEAR(world.contention.slowdown(), slowdown, spread == 0.5 ? 0.2 : 0.05);
      }
    }
  }
}

TEST(Contention, LearnsNothingFromRunsThatAreAlwaysBesideAsMany) {
  Contention contention(1, true);
  Instant now{};
  for (SandboxSlot slot = 0; slot < 200; ++slot) {
    contention.begin(slot, kShort, kDevice, now);
    contention.end(slot, kDevice, true, now += milliseconds(100 + slot % 7));
  }
  EXPECT_EQ(contention.slowdown(), Contention::kPrior);
}

TEST(Contention, LearnsNothingFromARunThatEndedWithoutAnAnswer) {
  Contention contention(1, true);
  contention.begin(1, kShort, kDevice, Instant{});
  contention.end(1, kDevice, false, Instant{} + seconds(1));
  EXPECT_FALSE(contention.unshared(kShort));
  contention.end(1, kDevice, true, Instant{} + seconds(2));
  EXPECT_FALSE(contention.unshared(kShort)) << "it was at work no longer";
}

TEST(Contention, OfOneFunctionIsItsOwn) {
  // Two functions beside the same third one: one takes twice as long for it, one is not slowed.
  Contention contention(1, true);
  Instant now{};
  const FunctionId third{3};
  for (int i = 0; i < 200; ++i) {
    for (const FunctionId function : {kShort, kLong}) {
      const bool beside = i % 2 == 0;
      if (beside) contention.begin(9, third, kDevice, now);
      contention.begin(1, function, kDevice, now);
      now += seconds(beside && function == kShort ? 2 : 1);
      contention.end(1, kDevice, true, now);
      if (beside) contention.end(9, kDevice, false, now);
    }
  }
  EXPECT_NEAR(contention.slowdown_of(kShort), 1, 0.1);
  EXPECT_NEAR(contention.slowdown_of(kLong), 0, 0.1);
}

TEST(Contention, TellsWhatARunAtWorkHasDone) {
  Contention contention(2, true);
  contention.begin(1, kLong, 1, Instant{});
  contention.begin(2, kShort, 1, Instant{} + seconds(1));
  EXPECT_EQ(contention.at_work(0), 0u);
  EXPECT_EQ(contention.at_work(1), 2u);
  double done_s[3] = {};
  contention.for_each_at_work(1, Instant{} + seconds(2), [&](FunctionId function, Duration done) {
    done_s[function.value] = to_seconds(done);
  });
  EXPECT_NEAR(done_s[kLong.value], 1 + 1 / (1 + Contention::kPrior), 1e-6);
  EXPECT_NEAR(done_s[kShort.value], 1 / (1 + Contention::kPrior), 1e-6);
}

TEST(Contention, ForgetsAFunctionThatIsAnotherOne) {
  Contention contention(1, true);
  contention.begin(1, kShort, kDevice, Instant{});
  contention.end(1, kDevice, true, Instant{} + seconds(1));
  ASSERT_EQ(contention.unshared(kShort), seconds(1));
  contention.forget(kShort);
  EXPECT_FALSE(contention.unshared(kShort));
  contention.forget(FunctionId{1000});
}

TEST(Contention, ComesBackFromItsBytesAndRefusesOthers) {
  for (const Spread weighs : {Spread::kIgnored, Spread::kOfEach, Spread::kOfSeveral}) {
    World world(1.0, 0.2, 5, weighs);
    world.run_for(100.4);
    std::string bytes;
    StateArchive to(&bytes);
    world.contention.archive(to);
    Contention restored(1, true, weighs);
    StateArchive from(bytes);
    restored.archive(from);
    EXPECT_TRUE(from.complete());
    EXPECT_EQ(restored.slowdown(), world.contention.slowdown());
    EXPECT_EQ(restored.unshared(kLong), world.contention.unshared(kLong));
    std::string again;
    StateArchive to_again(&again);
    restored.archive(to_again);
    EXPECT_EQ(again, bytes);
    EXPECT_EQ(restored.at_work(kDevice), world.contention.at_work(kDevice));
    for (size_t size = 0; size < bytes.size(); ++size) {
      Contention cut(1, true, weighs);
      StateArchive part(std::string_view(bytes).substr(0, size));
      cut.archive(part);
      EXPECT_FALSE(part.complete());
    }
  }
}

TEST(Contention, ThatIsNotAskedForFollowsNothing) {
  Contention contention(1, false);
  contention.begin(1, kShort, kDevice, Instant{});
  EXPECT_EQ(contention.at_work(kDevice), 0u);
  contention.end(1, kDevice, true, Instant{} + seconds(1));
  EXPECT_FALSE(contention.unshared(kShort));
  std::string bytes;
  StateArchive to(&bytes);
  contention.archive(to);
  EXPECT_TRUE(bytes.empty());
}

}  // namespace
}  // namespace lambent::scheduling
