#include "node/worker/parked_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/worker/testing/testing.h"

namespace lambent::worker {
namespace {

using testing::ElementsAre;

const FunctionName kFirst{kDefaultTenant, "a"};
const FunctionName kSecond{kDefaultTenant, "b"};

class ParkedCallsTest : public testing::Test {
 protected:
  void park(const FunctionName& function, uint64_t call) {
    const uint64_t number = calls.park(function, {1, call});
    names[{1, call}] = {function, number};
  }
  void turn(Duration later) {
    clock.advance(later);
    loop.run_once(Duration(0));
  }

  FakeClock clock;
  loop::EventLoop loop{clock};
  size_t room = 0;
  std::vector<uint64_t> submitted;
  std::map<InvocationId, std::pair<FunctionName, uint64_t>> names;
  ParkedCalls calls{loop, [this](InvocationId id) {
                      if (room == 0) return false;
                      --room;
                      submitted.push_back(id.low);
                      calls.remove(names[id].first, names[id].second);
                      return true;
                    }};
};

TEST_F(ParkedCallsTest, GoInTheOrderOfTheirParkingWhileThereIsRoom) {
  park(kFirst, 1);
  park(kFirst, 2);
  park(kFirst, 3);
  EXPECT_TRUE(calls.any_of(kFirst));
  EXPECT_EQ(calls.count(), 3u);
  room = 2;
  calls.try_soon();
  turn(milliseconds(20));
  EXPECT_THAT(submitted, ElementsAre(1, 2));
  EXPECT_EQ(calls.count(), 1u);
}

TEST_F(ParkedCallsTest, OfSeveralFunctionsTakeTurns) {
  park(kFirst, 1);
  park(kFirst, 2);
  park(kSecond, 3);
  park(kSecond, 4);
  room = 4;
  calls.try_soon();
  turn(milliseconds(20));
  EXPECT_THAT(submitted, ElementsAre(1, 3, 2, 4));
  EXPECT_FALSE(calls.any_of(kFirst));
}

TEST_F(ParkedCallsTest, AreTriedOnceASecondWhenNothingEnds) {
  park(kFirst, 1);
  turn(milliseconds(500));
  room = 1;
  turn(milliseconds(400));
  EXPECT_TRUE(submitted.empty());
  turn(milliseconds(200));
  EXPECT_THAT(submitted, ElementsAre(1));
}

TEST_F(ParkedCallsTest, ThatWereRemovedAreNotTried) {
  park(kFirst, 1);
  park(kSecond, 2);
  calls.remove(kFirst, names[{1, 1}].second);
  room = 5;
  calls.try_soon();
  turn(milliseconds(20));
  EXPECT_THAT(submitted, ElementsAre(2));
}

}  // namespace
}  // namespace lambent::worker
