#include "emulator/emulated_node/contention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace lambent::emulated_node {
namespace {

class Contention : public testing::Test {
 protected:
  Contention() : model(new DeviceModel{}) {
    model->multiprocessors = 8;
    model->window_ns = 1000;
  }
  uint64_t launch(uint64_t context, uint32_t multiprocessors, int64_t duration_ns) {
    return launch_at(model->now_ns, context, multiprocessors, duration_ns);
  }
  // Not awaited: the model goes on over its end.
  uint64_t launch_at(int64_t begin_ns, uint64_t context, uint32_t multiprocessors,
                     int64_t duration_ns) {
    uint64_t ticket = start(*model, demand(begin_ns, context, multiprocessors, duration_ns));
    for (ModelKernel& kernel : model->kernels) {
      if (kernel.ticket == ticket) kernel.awaited = 0;
    }
    return ticket;
  }
  static KernelDemand demand(int64_t begin_ns, uint64_t context, uint32_t multiprocessors,
                             int64_t duration_ns) {
    return {.group = context,
            .process = static_cast<uint32_t>(context),
            .multiprocessors = multiprocessors,
            .duration_ns = duration_ns,
            .begin_ns = begin_ns};
  }
  int64_t finish(uint64_t ticket) { return finished_at(*model, ticket); }

  std::unique_ptr<DeviceModel> model;
};

TEST_F(Contention, AKernelAloneTakesItsDuration) {
  uint64_t kernel = launch(1, 8, 1000);
  EXPECT_EQ(predicted_finish(*model, kernel), 1000);
  advance(*model, 5000);
  EXPECT_EQ(finish(kernel), 1000);
  EXPECT_EQ(model->busy_ns, 1000);
}

TEST_F(Contention, SmallKernelsOfOneContextRunSideBySide) {
  uint64_t a = launch(1, 4, 1000), b = launch(1, 4, 1000);
  advance(*model, 5000);
  EXPECT_EQ(finish(a), 1000);
  EXPECT_EQ(finish(b), 1000);
  EXPECT_EQ(model->busy_ns, 1000);
}

TEST_F(Contention, AKernelWithoutRoomWaitsForTheOneBeforeIt) {
  uint64_t a = launch(1, 8, 1000), b = launch(1, 8, 1000);
  advance(*model, 5000);
  EXPECT_EQ(finish(a), 1000);
  EXPECT_EQ(finish(b), 2000);
}

TEST_F(Contention, AKernelRunsOnTheRoomThatIsLeft) {
  uint64_t a = launch(1, 6, 1000), b = launch(1, 8, 1000);
  advance(*model, 5000);
  EXPECT_EQ(finish(a), 1000);
  EXPECT_EQ(finish(b), 1750);  // a quarter of its work in the first 1000 ns
}

TEST_F(Contention, ContextsTakeTurns) {
  uint64_t a = launch(1, 8, 1000), b = launch(2, 8, 1000);
  advance(*model, 5000);
  EXPECT_EQ(finish(a), 2000);
  EXPECT_EQ(finish(b), 2000);
}

TEST_F(Contention, ALateComerDelaysTheOtherOnlyWhileBothRun) {
  uint64_t a = launch(1, 8, 1000);
  advance(*model, 600);
  uint64_t b = launch(2, 8, 200);
  EXPECT_EQ(predicted_finish(*model, a), 1200);
  advance(*model, 5000);
  EXPECT_EQ(finish(b), 1000);
  EXPECT_EQ(finish(a), 1200);
  EXPECT_EQ(model->busy_ns, 1200);
}

TEST_F(Contention, RemovingAProcessSpeedsUpTheOthers) {
  uint64_t a = launch(1, 8, 1000);
  launch(2, 8, 1000);
  advance(*model, 1000);
  remove_process(*model, 2);
  advance(*model, 5000);
  EXPECT_EQ(finish(a), 1500);
}

TEST_F(Contention, TimeSlicingCanCostExtra) {
  model->context_penalty = 0.25;
  uint64_t a = launch(1, 8, 1000), b = launch(2, 8, 1000);
  advance(*model, 5000);
  EXPECT_EQ(finish(a), 2500);
  EXPECT_EQ(finish(b), 2500);
}

TEST_F(Contention, HowOftenTheModelIsAskedChangesNothing) {
  uint64_t a = launch(1, 8, 1000), b = launch(2, 3, 700), c = launch(2, 6, 500);
  std::unique_ptr<DeviceModel> coarse(new DeviceModel(*model));
  advance(*coarse, 10000);
  for (int64_t now = 0; now <= 10000; now += 7) advance(*model, now);
  for (uint64_t ticket : {a, b, c}) {
    EXPECT_NEAR(finish(ticket), finished_at(*coarse, ticket), 2) << ticket;
  }
}

TEST_F(Contention, AStarterThatComesLateIsCreditedWhatItMissed) {
  advance(*model, 500);
  uint64_t kernel = launch_at(400, 1, 8, 1000);
  EXPECT_EQ(predicted_finish(*model, kernel), 1400);
  uint64_t shorter = launch_at(400, 1, 8, 10);
  advance(*model, 5000);
  EXPECT_EQ(finish(kernel), 1400);
  EXPECT_LE(finish(shorter), 1410);
}

TEST_F(Contention, AKernelMayBeGivenBeforeItBegins) {
  uint64_t early = launch(1, 8, 1000), later = launch_at(500, 2, 8, 200);
  EXPECT_EQ(predicted_finish(*model, early), 1200);
  advance(*model, 499);
  EXPECT_EQ(active_kernels(*model), 1);
  advance(*model, 5000);
  EXPECT_EQ(finish(later), 900);
  EXPECT_EQ(finish(early), 1200);
  EXPECT_EQ(model->busy_ns, 1200);
}

TEST_F(Contention, TheModelStandsAtTheEndOfAnAwaitedKernel) {
  uint64_t first = start(*model, demand(0, 1, 8, 1000));
  uint64_t other = launch(2, 8, 3000);
  advance(*model, 9000);
  EXPECT_TRUE(stands_still(*model));
  EXPECT_EQ(model->now_ns, 2000);
  EXPECT_EQ(finish(other), -1);
  // The owner looks late, and what it starts next joins where the first one ended.
  uint64_t next = launch_at(2000, 1, 8, 1000);
  remove(*model, first);
  EXPECT_FALSE(stands_still(*model));
  advance(*model, 9000);
  EXPECT_EQ(finish(next), 4000);
  EXPECT_EQ(finish(other), 5000);
}

TEST_F(Contention, AKernelWhoseBodyRunsIsNotAwaitedBeforeTheBodyEnds) {
  KernelDemand with_body = demand(0, 1, 8, 1000);
  with_body.held = true;
  uint64_t kernel = start(*model, with_body);
  advance(*model, 500);
  release_hold(*model, kernel);
  advance(*model, 3000);
  EXPECT_EQ(model->now_ns, 1000);
  remove(*model, kernel);
  with_body.begin_ns = 1000;
  start(*model, with_body);
  advance(*model, 3000);
  EXPECT_EQ(model->now_ns, 3000);
  EXPECT_FALSE(stands_still(*model));
}

TEST_F(Contention, ReleasingWhatIsNotHeldChangesNothing) {
  uint64_t kernel = start(*model, demand(0, 1, 8, 1000));
  advance(*model, 3000);
  release_hold(*model, kernel);
  advance(*model, 3000);
  EXPECT_EQ(model->now_ns, 1000);
}

TEST_F(Contention, WaitingCanBeGivenUp) {
  start(*model, demand(0, 1, 8, 1000));
  advance(*model, 3000);
  ASSERT_TRUE(stands_still(*model));
  stop_waiting(*model);
  advance(*model, 3000);
  EXPECT_EQ(model->now_ns, 3000);
}

TEST_F(Contention, AmongEqualsTheOneSubmittedFirstRunsFirstWhoeverComesFirst) {
  KernelDemand first = demand(0, 1, 8, 1000), second = demand(0, 1, 8, 1000);
  first.sequence = 1;
  second.sequence = 2;
  uint64_t b = start(*model, second), a = start(*model, first);
  advance(*model, 5000);
  remove(*model, a);
  advance(*model, 5000);
  EXPECT_EQ(predicted_finish(*model, b), 2000);
}

TEST_F(Contention, AHigherPriorityTakesTheRoomFromARunningKernel) {
  uint64_t low = launch(1, 8, 1000);
  advance(*model, 400);
  KernelDemand urgent = demand(400, 1, 8, 300);
  urgent.priority = -5;
  uint64_t high = start(*model, urgent);
  EXPECT_EQ(predicted_finish(*model, high), 700);
  EXPECT_EQ(predicted_finish(*model, low), 1300);
}

TEST_F(Contention, UtilizationIsTheBusyShareOfTheLastWindow) {
  for (int64_t now = 0; now < 4000; now += 10) {
    advance(*model, now);
    if (now % 100 == 0) launch(1, 8, 40);
  }
  EXPECT_NEAR(utilization_percent(*model), 40, 5);
  for (int64_t now = 4000; now < 8000; now += 10) advance(*model, now);
  EXPECT_EQ(utilization_percent(*model), 0);
}

TEST_F(Contention, AFullTableRefusesOneMore) {
  for (int i = 0; i < kMaxKernels; i++) EXPECT_NE(launch(1, 1, 1000), 0u);
  EXPECT_EQ(launch(1, 1, 1000), 0u);
}

TEST_F(Contention, LooksOnlyAsFarAsThereAreKernels) {
  const uint64_t first = launch(1, 2, 1000), second = launch(1, 2, 2000);
  EXPECT_EQ(model->kernel_bound, 2u);
  remove(*model, first);
  advance(*model, 500);
  EXPECT_EQ(model->kernel_bound, 2u) << "one is left above it";
  EXPECT_EQ(predicted_finish(*model, second), 2000);
  remove(*model, second);
  advance(*model, 600);
  EXPECT_EQ(model->kernel_bound, 0u);
  const uint64_t third = launch(1, 8, 100);
  EXPECT_EQ(predicted_finish(*model, third), 700);
}

TEST_F(Contention, RepairFindsAKernelThatTheBoundLeavesOut) {
  const uint64_t ticket = launch(1, 8, 1000);
  model->kernel_bound = 0;
  repair(*model);
  advance(*model, 5000);
  EXPECT_EQ(finish(ticket), 1000);
}

TEST_F(Contention, RepairDropsAKernelWithoutAState) {
  uint64_t a = launch(1, 8, 1000);
  uint64_t b = launch(1, 8, 1000);
  model->kernels[1].state = static_cast<KernelState>(77);
  repair(*model);
  advance(*model, 5000);
  EXPECT_EQ(finish(a), 1000);
  EXPECT_EQ(finish(b), 5000);  // gone
}

TEST_F(Contention, AKernelIsConfinedToItsMultiprocessors) {
  KernelDemand slice = demand(0, 1, 8, 1000);
  slice.allowed = MultiprocessorSet::first(2);
  uint64_t confined = start(*model, slice);
  EXPECT_EQ(held_by(*model, confined), MultiprocessorSet::first(2));
  EXPECT_EQ(predicted_finish(*model, confined), 4000);
  slice.allowed = MultiprocessorSet::first(8) - MultiprocessorSet::first(2);
  uint64_t other = start(*model, slice);
  EXPECT_NEAR(static_cast<double>(predicted_finish(*model, confined)), 4000, 1);
  EXPECT_NEAR(static_cast<double>(predicted_finish(*model, other)), 1000 * 8 / 6., 1);
}

TEST_F(Contention, WhoMayGoAnywhereLeavesTheConfinedTheirs) {
  uint64_t free = launch(1, 4, 1000);
  KernelDemand slice = demand(0, 1, 2, 1000);
  slice.allowed = MultiprocessorSet::first(2);
  uint64_t confined = start(*model, slice);
  EXPECT_EQ(held_by(*model, confined).count(), 2);
  EXPECT_EQ(held_by(*model, free).count(), 4);
  uint64_t more = launch(1, 4, 1000);
  EXPECT_EQ(held_by(*model, more).count(), 2);
}

TEST_F(Contention, TheKernelsOfALimitedClientShareItsLimit) {
  KernelDemand client = demand(0, 1, 4, 1000);
  client.client = 7;
  client.limit = 5;
  uint64_t a = start(*model, client), b = start(*model, client);
  client.client = 8;
  uint64_t c = start(*model, client);
  EXPECT_EQ(held_by(*model, a).count(), 4);
  EXPECT_EQ(held_by(*model, b).count(), 1);
  EXPECT_EQ(held_by(*model, c).count(), 3);  // what is left of the device
}

// Every random set of demands: none holds what another of the group holds or what it must not,
// nothing lies idle that one that waits could use, and the order of equal arrivals is of no
// matter.
TEST_F(Contention, RandomKernelsNeverShareAMultiprocessorAndNeverLeaveOneIdle) {
  for (unsigned seed = 1; seed <= 300; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    *model = {};
    model->multiprocessors = 1 + static_cast<int>(random() % 200);
    MultiprocessorSet all = MultiprocessorSet::first(model->multiprocessors);
    std::vector<KernelDemand> demands;
    for (unsigned i = 0; i < 1 + random() % 12; i++) {
      KernelDemand one = demand(0, 1 + random() % 2, 1 + random() % 150,
                                static_cast<int64_t>(1 + random() % 1000));
      one.sequence = i;
      one.priority = -static_cast<int>(random() % 3);
      if (random() % 2) {
        for (uint64_t& word : one.allowed.words) word = (uint64_t{random()} << 32) | random();
        one.allowed = one.allowed & all;
      }
      demands.push_back(one);
    }
    std::map<uint64_t, int64_t> finishes;
    for (int order = 0; order < 2; order++) {
      std::unique_ptr<DeviceModel> copy(new DeviceModel(*model));
      std::map<uint64_t, uint64_t> tickets;
      for (const KernelDemand& one : demands) tickets[one.sequence] = start(*copy, one);
      std::map<uint64_t, MultiprocessorSet> used;
      for (const KernelDemand& one : demands) {
        MultiprocessorSet held = held_by(*copy, tickets[one.sequence]);
        EXPECT_FALSE(used[one.group].intersects(held));
        used[one.group] = used[one.group] | held;
        EXPECT_LE(held.count(), static_cast<int>(one.multiprocessors));
        EXPECT_TRUE((held - all).empty());
        EXPECT_TRUE(one.allowed.empty() || (held - one.allowed).empty());
      }
      for (const KernelDemand& one : demands) {
        int most = std::min<int>(static_cast<int>(one.multiprocessors), model->multiprocessors);
        MultiprocessorSet open = one.allowed.empty() ? all : one.allowed;
        if (held_by(*copy, tickets[one.sequence]).count() < most) {
          EXPECT_TRUE((open - used[one.group]).empty());
        }
      }
      for (auto [sequence, ticket] : tickets) {
        int64_t finish_ns = predicted_finish(*copy, ticket);
        if (order == 0) finishes[sequence] = finish_ns;
        EXPECT_EQ(finish_ns, finishes[sequence]);
      }
      std::reverse(demands.begin(), demands.end());
    }
  }
}

}  // namespace
}  // namespace lambent::emulated_node
