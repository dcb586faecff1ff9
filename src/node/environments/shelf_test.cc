#include "node/environments/shelf.h"

#include <gtest/gtest.h>

namespace lambent::environments {
namespace {

using Keys = std::vector<std::string>;

Shelf three() {
  Shelf shelf(Bytes(100));
  shelf.add("new", Bytes(40), seconds(30));
  shelf.add("old", Bytes(40), seconds(10));
  shelf.add("older", Bytes(40), seconds(5));
  return shelf;
}

TEST(ShelfTest, TheLongestUnusedGoesFirstAndNoMoreThanIsNeeded) {
  const Shelf shelf = three();
  EXPECT_EQ(shelf.size(), Bytes(120));
  EXPECT_FALSE(shelf.fits(Bytes(0)));
  EXPECT_EQ(shelf.to_evict({}, Bytes(0), seconds(100), seconds(1)), (Keys{"older"}));
  EXPECT_EQ(shelf.to_evict({}, Bytes(30), seconds(100), seconds(1)), (Keys{"older", "old"}));
}

TEST(ShelfTest, WhatFunctionsReferToStays) {
  const Shelf shelf = three();
  EXPECT_EQ(shelf.to_evict({"older", "old", "new"}, Bytes(50), seconds(100), seconds(1)), Keys{});
  EXPECT_EQ(shelf.to_evict({"older"}, Bytes(0), seconds(100), seconds(1)), (Keys{"old"}));
}

TEST(ShelfTest, WhatWasUsedAShortTimeAgoStays) {
  const Shelf shelf = three();
  EXPECT_EQ(shelf.to_evict({}, Bytes(1000), seconds(31), seconds(20)), (Keys{"older", "old"}));
}

TEST(ShelfTest, BeingUsedMakesItYoung) {
  Shelf shelf = three();
  shelf.touch({"older", "unknown"}, seconds(50));
  EXPECT_EQ(shelf.count(), 3u);
  EXPECT_EQ(shelf.to_evict({}, Bytes(0), seconds(100), seconds(1)), (Keys{"old"}));
}

TEST(ShelfTest, WhatFitsStays) {
  Shelf shelf = three();
  shelf.remove("older");
  EXPECT_TRUE(shelf.fits(Bytes(20)));
  EXPECT_EQ(shelf.to_evict({}, Bytes(20), seconds(100), seconds(1)), Keys{});
}

}  // namespace
}  // namespace lambent::environments
