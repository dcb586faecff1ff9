#include "node/worker/drain.h"

#include <gtest/gtest.h>

#include "node/worker/testing/testing.h"

namespace lambent::worker {
namespace {

class DrainTest : public testing::Test {
 protected:
  void turn() { loop.run_once(Duration(0)); }

  FakeClock clock;
  loop::EventLoop loop{clock};
  bool idle = false;
  int drained = 0;
  Drain drain{loop, [this] { return idle; }};
};

TEST_F(DrainTest, EndsWhenTheLastWorkHas) {
  drain.check();
  EXPECT_FALSE(drain.draining());
  EXPECT_TRUE(drain.begin([this] { ++drained; }));
  EXPECT_TRUE(drain.draining());
  drain.check();
  turn();
  EXPECT_EQ(drained, 0);

  idle = true;
  drain.check();
  EXPECT_EQ(drained, 0) << "the caller may be in the middle of an event";
  turn();
  EXPECT_EQ(drained, 1);
  drain.check();
  turn();
  EXPECT_EQ(drained, 1);
}

TEST_F(DrainTest, IsBegunOnceAndTellsTheLastWhoAsked) {
  EXPECT_TRUE(drain.begin([] { FAIL() << "replaced"; }));
  EXPECT_FALSE(drain.begin([this] { ++drained; }));
  idle = true;
  drain.check();
  turn();
  EXPECT_EQ(drained, 1);
}

}  // namespace
}  // namespace lambent::worker
