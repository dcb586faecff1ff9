#include "decide/scheduling/host_victims.h"

#include <gtest/gtest.h>

namespace lambent::scheduling {
namespace {

using Slots = std::vector<SandboxSlot>;

Instant at(int64_t second) { return Instant(seconds(second)); }

class HostVictims : public testing::Test {
 protected:
  explicit HostVictims(EvictionRule rule = EvictionRule::kCostAware) : host_(options(rule)) {}

  static FleetOptions options(EvictionRule rule) {
    FleetOptions options;
    options.devices = {{.id = kHostDevice, .tokens = 8}};
    options.eviction = rule;
    return options;
  }
  // Starts in `start`, is called every `gap`, and holds so much since it was used last.
  SandboxSlot rests(uint32_t function, Duration start, Duration gap, Bytes memory, int64_t used,
                    bool at_rest = true) {
    Flow& flow = flows_[function];
    flow.cold_start = RunningMean(start, 4);
    flow.interarrival = RunningMean(gap, 4);
    const SandboxSlot slot =
        host_.plan(SandboxId{next_++}, FunctionId{function}, flow, Place{0}, at(used));
    host_.start(slot, at(used));
    host_.run(slot, at(used));
    if (at_rest) host_.rest(slot, at(used));
    measured_.push_back({slot, memory});
    return slot;
  }
  Slots victims(Bytes needed, Bytes may_wait = {}) const {
    return host_victims(host_, flows_, measured_, {needed, may_wait}, at(100));
  }

  Flows flows_ = Flows(6);
  Fleet host_;
  std::vector<MeasuredSandbox> measured_;
  uint64_t next_ = 1;
};

class HostVictimsByUse : public HostVictims {
 protected:
  HostVictimsByUse() : HostVictims(EvictionRule::kLeastRecentlyUsed) {}
};

TEST_F(HostVictims, AreNoneWhereNothingIsNeeded) {
  rests(1, seconds(1), seconds(10), Bytes::mib(100), 90);
  EXPECT_EQ(victims(Bytes(0)), Slots{});
}

TEST_F(HostVictims, AreWorthLeastForEachByte) {
  const SandboxSlot hot = rests(1, seconds(2), seconds(12), Bytes::mib(100), 90);
  const SandboxSlot large = rests(2, seconds(2), seconds(12), Bytes::mib(800), 99);
  const SandboxSlot quick = rests(3, milliseconds(50), seconds(12), Bytes::mib(100), 99);
  const SandboxSlot seldom = rests(4, seconds(2), seconds(600), Bytes::mib(100), 99);
  EXPECT_EQ(victims(Bytes::mib(1)), Slots{seldom});
  EXPECT_EQ(victims(Bytes::mib(200)), (Slots{seldom, quick}));
  EXPECT_EQ(victims(Bytes::gib(1)), (Slots{seldom, quick, large, hot}));
}

// Four that are alike, and are worth more than what the test adds: they tell what is usual.
class HostVictimsAmongOthers : public HostVictims {
 protected:
  HostVictimsAmongOthers() {
    for (uint32_t function = 1; function <= 4; ++function) {
      rests(function, milliseconds(100), seconds(5), Bytes::mib(10), 99);
    }
  }
  SandboxSlot rests_after(uint64_t starts, Duration start, Bytes memory) {
    const SandboxSlot slot = rests(5, start, seconds(100), memory, 99);
    flows_[5].cold_start = RunningMean(start, starts);
    return slot;
  }
};

TEST_F(HostVictimsAmongOthers, AreNoDearerForOneStartThatWasSlow) {
  const SandboxSlot seldom = rests_after(1, seconds(10), Bytes::mib(10));
  EXPECT_EQ(victims(Bytes::mib(1)), Slots{seldom});
}

TEST_F(HostVictimsAmongOthers, AreDearWhereManyStartsWereSlow) {
  const SandboxSlot slow = rests_after(8, seconds(10), Bytes::mib(10));
  EXPECT_NE(victims(Bytes::mib(1)), Slots{slow});
}

TEST_F(HostVictimsAmongOthers, ThatAreLargerMayStartLongerInProportion) {
  // A hundred times as large, and as long in proportion. Half as often called it would still be
  // dearer than them, were it believed in full.
  const SandboxSlot large = rests_after(1, seconds(10), Bytes::mib(1000));
  flows_[5].interarrival = RunningMean(seconds(4), 4);
  EXPECT_NE(victims(Bytes::mib(1)), Slots{large});
  flows_[5].cold_start = RunningMean(seconds(1000), 1);
  flows_[5].interarrival = RunningMean(seconds(15), 4);
  EXPECT_EQ(victims(Bytes::mib(1)), Slots{large}) << "more than twice that is not believed";
}

TEST_F(HostVictims, ThatOthersMakeUnnecessaryStay) {
  rests(1, seconds(1), seconds(600), Bytes::mib(10), 90);
  const SandboxSlot large = rests(2, seconds(50), seconds(600), Bytes::mib(400), 90);
  EXPECT_EQ(victims(Bytes::mib(300)), Slots{large});
}

TEST_F(HostVictims, OfLongSilenceComeAsRarelyAsThat) {
  const SandboxSlot silent = rests(1, seconds(1), seconds(1), Bytes::mib(100), 10);
  rests(2, seconds(1), seconds(30), Bytes::mib(100), 99);
  EXPECT_EQ(victims(Bytes::mib(100)), Slots{silent});
}

TEST_F(HostVictims, AreNeitherAtWorkNorPinnedNorWaitedFor) {
  rests(1, seconds(1), seconds(600), Bytes::gib(1), 90, false);
  flows_[2].min_instances = 1;
  rests(2, seconds(1), seconds(600), Bytes::gib(1), 90);
  rests(2, seconds(1), seconds(600), Bytes::gib(1), 95);
  rests(3, seconds(1), seconds(600), Bytes::gib(1), 90);
  flows_[3].pending = 1;
  rests(4, seconds(1), seconds(600), Bytes(0), 90);  // of which nothing is known
  const Slots chosen = victims(Bytes::gib(9));
  // One of two stays ready.
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_EQ(host_.sandbox(chosen[0]).function, FunctionId{2});
}

TEST_F(HostVictims, WaitForThoseAtWorkThatAreWorthLess) {
  const SandboxSlot hot = rests(1, seconds(1), seconds(2), Bytes::mib(100), 99);
  rests(2, seconds(1), seconds(600), Bytes::mib(100), 99, false);
  EXPECT_EQ(victims(Bytes::mib(100)), Slots{hot});
  EXPECT_EQ(victims(Bytes::mib(100), Bytes::mib(100)), Slots{});
  // What is missing beyond that, and more than may wait, is not waited for.
  EXPECT_EQ(victims(Bytes::mib(101), Bytes::mib(100)), Slots{hot});
  EXPECT_EQ(victims(Bytes::mib(100), Bytes::mib(99)), Slots{hot});
}

// It may not come to rest for long.
TEST_F(HostVictims, DoNotWaitForThoseAtWorkThatHaveCallsWaiting) {
  const SandboxSlot hot = rests(1, seconds(1), seconds(2), Bytes::mib(100), 99);
  rests(2, seconds(1), seconds(600), Bytes::mib(100), 99, false);
  flows_[2].pending = 1;
  EXPECT_EQ(victims(Bytes::mib(100), Bytes::mib(100)), Slots{hot});
}

TEST_F(HostVictims, DoNotWaitForThoseAtWorkThatAreWorthMoreOrStay) {
  const SandboxSlot seldom = rests(1, seconds(1), seconds(60), Bytes::mib(100), 99);
  rests(2, seconds(1), seconds(2), Bytes::mib(100), 0, false);
  EXPECT_EQ(victims(Bytes::mib(100), Bytes::gib(1)), Slots{seldom});
  rests(3, seconds(1), seconds(600), Bytes::mib(100), 99, false);
  flows_[3].min_instances = 1;
  EXPECT_EQ(victims(Bytes::mib(100), Bytes::gib(1)), Slots{seldom});
}

TEST_F(HostVictimsByUse, DoNotWaitForThoseAtWorkWhichAreUsedNow) {
  const SandboxSlot rested = rests(1, seconds(1), seconds(600), Bytes::mib(100), 90);
  rests(2, seconds(1), seconds(600), Bytes::mib(100), 10, false);
  EXPECT_EQ(victims(Bytes::mib(100), Bytes::gib(1)), Slots{rested});
}

TEST_F(HostVictimsByUse, WereNotUsedForLongest) {
  rests(1, seconds(1), seconds(600), Bytes::gib(1), 90);
  const SandboxSlot oldest = rests(2, seconds(9), seconds(1), Bytes::mib(1), 80);
  EXPECT_EQ(victims(Bytes::mib(1)), Slots{oldest});
}

}  // namespace
}  // namespace lambent::scheduling
