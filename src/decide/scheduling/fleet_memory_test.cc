// Memory that is offloaded, in the fleet's accounting: counted on the host, and on the device once
// a fetch was admitted there. And the second try of a move onto several devices.
#include <gtest/gtest.h>

#include "decide/scheduling/fleet.h"

namespace lambent::scheduling {
namespace {

// Function 1 has 6 GiB, function 2 has 4, on a device of 10.
class OffloadedPieces : public testing::Test {
 protected:
  OffloadedPieces() : fleet_(options()) {
    for (uint32_t id : {1u, 2u}) {
      flow_.device_memory = Bytes::gib(id == 1 ? 6 : 4);
      slots_[id] = fleet_.plan(SandboxId{id}, FunctionId{id}, flow_, Place{0}, at(0));
      fleet_.start(slots_[id], at(0));
      fleet_.run(slots_[id], at(0));
      fleet_.rest(slots_[id], at(1));
    }
    offload(Bytes::gib(5));
  }
  static FleetOptions options() {
    FleetOptions options;
    options.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(10), .tokens = 4}};
    options.memory_rule = MemoryRule::kMoveIdle;
    return options;
  }
  static Instant at(int64_t s) { return Instant(seconds(s)); }
  // The first goes out and comes in again with the rest.
  void offload(Bytes offloaded) {
    fleet_.memory().begin_move_out(slots_[1], false);
    fleet_.memory().end_move(slots_[1], true, Bytes(0), offloaded);
    fleet_.memory().begin_move_in(slots_[1]);
    fleet_.memory().end_move(slots_[1], true, Bytes(0));
  }
  const Device& device() const { return fleet_.devices()[0]; }

  Flow flow_;
  Fleet fleet_;
  SandboxSlot slots_[3] = {};
};

TEST_F(OffloadedPieces, CountOnTheHostAndNotOnTheDevice) {
  EXPECT_EQ(device().resident, Bytes::gib(5));
  EXPECT_EQ(fleet_.memory().on_host(), Bytes::gib(5));
  EXPECT_TRUE(fleet_.run(slots_[1], at(2))) << "its memory is in";
  EXPECT_EQ(device().committed, Bytes::gib(1));
}

TEST_F(OffloadedPieces, AreFetchedBesideThoseAtWork) {
  fleet_.run(slots_[1], at(2));
  ASSERT_TRUE(fleet_.memory().admits_fetch(slots_[1], Bytes::gib(5)));
  fleet_.memory().begin_fetch(slots_[1], Bytes::gib(5));
  EXPECT_EQ(device().committed, Bytes::gib(6));
  EXPECT_EQ(device().promised, Bytes::gib(5));
  ASSERT_TRUE(fleet_.memory().may_fetch(slots_[1])) << "five beside five";
  fleet_.memory().end_fetch(slots_[1], true);
  EXPECT_EQ(device().resident, Bytes::gib(10));
  EXPECT_EQ(device().promised, Bytes(0));
  EXPECT_EQ(fleet_.memory().on_host(), Bytes(0));
}

TEST_F(OffloadedPieces, AreNotAdmittedWhereThoseAtWorkLeaveNoRoom) {
  fleet_.run(slots_[1], at(2));
  flow_.device_memory = Bytes::gib(4);
  fleet_.plan(SandboxId{3}, FunctionId{3}, flow_, Place{0}, at(2));
  fleet_.run(slots_[2], at(2));
  EXPECT_EQ(device().committed, Bytes::gib(9));
  EXPECT_TRUE(fleet_.memory().admits_fetch(slots_[1], Bytes::gib(1)));
  EXPECT_FALSE(fleet_.memory().admits_fetch(slots_[1], Bytes::gib(2)));
}

TEST_F(OffloadedPieces, AreFetchedByRunsAlone) {
  EXPECT_FALSE(fleet_.memory().admits_fetch(slots_[1], Bytes::gib(1))) << "it rests";
  fleet_.run(slots_[1], at(2));
  EXPECT_FALSE(fleet_.memory().admits_fetch(slots_[1], Bytes::gib(6))) << "more than lies there";
  fleet_.memory().begin_fetch(slots_[1], Bytes::gib(1));
  EXPECT_FALSE(fleet_.memory().admits_fetch(slots_[1], Bytes::gib(1))) << "one at a time";
}

TEST_F(OffloadedPieces, StayWhereAFetchIsGivenUp) {
  fleet_.run(slots_[1], at(2));
  fleet_.memory().begin_fetch(slots_[1], Bytes::gib(2));
  fleet_.memory().end_fetch(slots_[1], false);
  EXPECT_EQ(device().committed, Bytes::gib(1));
  EXPECT_EQ(device().promised, Bytes(0));
  EXPECT_EQ(fleet_.memory().on_host(), Bytes::gib(5));
  fleet_.memory().begin_fetch(slots_[1], Bytes::gib(2));
  fleet_.stop(slots_[1], at(3));
  EXPECT_EQ(device().promised, Bytes(0));
  fleet_.remove(slots_[1]);
  EXPECT_EQ(device().resident, Bytes::gib(4));
  EXPECT_EQ(fleet_.memory().on_host(), Bytes(0));
}

TEST_F(OffloadedPieces, AreNotMoreThanThereIs) {
  offload(Bytes::gib(100));
  EXPECT_EQ(device().resident, Bytes::gib(4));
  fleet_.memory().begin_move_out(slots_[1], false);
  fleet_.memory().end_move(slots_[1], true, Bytes::gib(2), Bytes(0));
  EXPECT_EQ(device().resident, Bytes::gib(4)) << "nor can more have stayed than was there";
}

// Two devices of 10 GiB: one of 4 GiB on both, whose move in has failed, and one of 2 GiB on each,
// which leaves.
class SecondTries : public testing::Test {
 protected:
  SecondTries() : fleet_(options()) {
    flow_.device_memory = Bytes::gib(4);
    flow_.gpu_count = 2;
    on_both_ = resting(1, Place{.device = 0, .beside = 0b10});
    flow_.device_memory = Bytes::gib(2);
    flow_.gpu_count = 1;
    for (const uint32_t device : {0u, 1u}) on_one_[device] = resting(2 + device, Place{device});
    fleet_.memory().begin_move_out(on_both_, false);
    fleet_.memory().end_move(on_both_, true, Bytes(0));
    fleet_.run(on_both_, at(2));
    fail_to_come_in();
  }
  static FleetOptions options() {
    FleetOptions options;
    options.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(10), .tokens = 4},
                       {.id = DeviceId{2}, .memory = Bytes::gib(10), .tokens = 4}};
    options.memory_rule = MemoryRule::kMoveIdle;
    return options;
  }
  static Instant at(int64_t s) { return Instant(seconds(s)); }
  SandboxSlot resting(uint32_t id, Place place) {
    const SandboxSlot slot = fleet_.plan(SandboxId{id}, FunctionId{id}, flow_, place, at(0));
    fleet_.start(slot, at(0));
    fleet_.run(slot, at(0));
    fleet_.rest(slot, at(1));
    return slot;
  }
  void fail_to_come_in() {
    fleet_.memory().begin_move_in(on_both_);
    fleet_.memory().end_move(on_both_, false, Bytes(0));
  }
  void begin_to_leave(uint32_t device) {
    fleet_.memory().begin_move_out(on_one_[device], false);
    fleet_.memory().note_cleared(on_both_);
  }
  void leave(uint32_t device) {
    fleet_.memory().end_move(on_one_[device], true, Bytes(0));
    fleet_.memory().note_cleared(on_both_);
  }
  bool may() const { return fleet_.memory().may_move_in(on_both_); }

  Flow flow_;
  Fleet fleet_;
  SandboxSlot on_both_ = 0;
  SandboxSlot on_one_[2] = {};
};

TEST_F(SecondTries, WaitForWhatLeavesEachDeviceOnceAndNotForBothAtTheSameTime) {
  fleet_.memory().begin_move_out(on_one_[0], false);
  begin_to_leave(1);
  EXPECT_FALSE(may());
  leave(0);
  EXPECT_FALSE(may()) << "the second has not been cleared";
  fleet_.memory().begin_move_in(on_one_[0]);
  fleet_.memory().end_move(on_one_[0], true, Bytes(0));
  begin_to_leave(0);
  leave(1);
  EXPECT_TRUE(may()) << "what leaves the first now began after it had been cleared";
}

TEST_F(SecondTries, AskAgainForWhatWasClearedBeforeTheyFailed) {
  fleet_.memory().note_cleared(on_both_);
  ASSERT_TRUE(may());
  fail_to_come_in();
  fleet_.memory().begin_move_out(on_one_[0], false);
  EXPECT_FALSE(may());
}

}  // namespace
}  // namespace lambent::scheduling
