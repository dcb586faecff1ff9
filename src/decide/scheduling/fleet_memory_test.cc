// Memory that is offloaded, in the fleet's accounting: counted on the host, and on the device once
// a fetch was admitted there.
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

}  // namespace
}  // namespace lambent::scheduling
