#include "sim/simulator/modelled_device.h"

#include <gtest/gtest.h>

namespace lambent::simulator {
namespace {

Instant at(double when) { return Instant(from_seconds(when)); }

TEST(ModelledDevice, OneItemTakesItsTime) {
  ModelledDevice device(0.5);
  device.start(1, seconds(2), at(1));
  EXPECT_EQ(device.next_finish(), at(3));
  EXPECT_EQ(device.finish(at(3)), 1u);
  EXPECT_EQ(device.next_finish(), kNever);
  EXPECT_EQ(device.busy(at(10)), seconds(2));
}

TEST(ModelledDevice, TwoItemsSlowEachOtherDownWhileBothRun) {
  ModelledDevice device(0.5);
  device.start(1, seconds(2), at(0));
  device.start(2, seconds(2), at(1));
  // The first has 1 s of work left, at two thirds of the speed.
  EXPECT_EQ(device.next_finish(), at(2.5));
  EXPECT_EQ(device.finish(at(2.5)), 1u);
  EXPECT_EQ(device.next_finish(), at(3.5));
}

TEST(ModelledDevice, SideBySideOnlyWhatDoesNotFitSlowsDown) {
  ModelledDevice device(0, {}, Sharing::kSideBySide);
  device.start(1, seconds(2), at(0), 0.5);
  device.start(2, seconds(2), at(0), 0.5);
  EXPECT_EQ(device.next_finish(), at(2));
  // Three halves on one device: each at two thirds of its speed.
  device.start(3, seconds(2), at(1), 0.5);
  EXPECT_EQ(device.next_finish(), at(2.5));
  device.stop(3, at(2.5));
  EXPECT_EQ(device.finish(at(2.5)), 1u);
}

TEST(ModelledDevice, MeasuredContentionGoesOnAsItEnded) {
  ModelledDevice device(0, {1, 2, 2.5});
  for (uint64_t key = 1; key <= 4; ++key) device.start(key, seconds(1), at(0));
  // With four at work each takes 3 times as long.
  EXPECT_EQ(device.next_finish(), at(3));
  device.stop(4, at(3));
  device.stop(3, at(3));
  device.start(5, seconds(1), at(3));
  device.stop(2, at(3));
  EXPECT_EQ(device.finish(at(3)), 1u);
  EXPECT_EQ(device.next_finish(), at(4));
}

TEST(ModelledDevice, AStoppedItemAndAnEndlessOneNeverFinish) {
  ModelledDevice device(0);
  device.start(1, seconds(2), at(0));
  device.start(2, Duration::max(), at(0));
  device.stop(1, at(1));
  device.stop(1, at(1));
  EXPECT_EQ(device.next_finish(), kNever);
  EXPECT_EQ(device.running(), 1u);
}

TEST(ModelledDevice, GuestsSlowWorkDownWithoutBeingWork) {
  ModelledDevice device(1);
  device.start(1, seconds(2), at(0));
  device.set_guests(1, at(1));
  EXPECT_EQ(device.next_finish(), at(3));
}

}  // namespace
}  // namespace lambent::simulator
