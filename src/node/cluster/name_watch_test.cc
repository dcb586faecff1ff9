#include "node/cluster/name_watch.h"

#include <gtest/gtest.h>

namespace lambent::cluster {
namespace {

constexpr const char* kAddress = "http://127.0.0.1:1";

TEST(NameWatchTest, TheProcessAtTheListedAddressHasTheName) {
  NameWatch first("a");
  NameWatch second("a");
  EXPECT_NE(first.life(), second.life());
  EXPECT_FALSE(first.heard({.node = "a", .life = first.life()}, kAddress));
  EXPECT_EQ(first.problem(), "");
  EXPECT_TRUE(second.heard({.node = "a", .life = first.life()}, kAddress));
  EXPECT_NE(second.problem().find("another worker is called 'a' and answers at http://127.0.0.1:1"),
            std::string::npos);
  EXPECT_FALSE(second.heard({.node = "a", .life = first.life()}, kAddress));
  // Its address is its own from now on.
  EXPECT_TRUE(second.heard({.node = "a", .life = second.life()}, kAddress));
  EXPECT_EQ(second.problem(), "");
}

TEST(NameWatchTest, AProgramOfBeforeAtTheAddressIsAnotherProcess) {
  NameWatch watch("a");
  EXPECT_TRUE(watch.heard({.node = "a"}, kAddress));
}

TEST(NameWatchTest, AnotherNodeAtTheAddressIsAMistakeOfTheList) {
  NameWatch watch("a");
  EXPECT_TRUE(watch.heard({.node = "b", .life = "f00d"}, kAddress));
  EXPECT_NE(watch.problem().find("node 'b' answers"), std::string::npos);
  EXPECT_NE(watch.problem().find("--cluster-node"), std::string::npos);
}

TEST(NameWatchTest, ItLooksOftenAtFirstAndThenOnceInAWhile) {
  NameWatch watch("a");
  int looks = 0;
  for (int period = 0; period < 100; ++period) looks += watch.is_due() ? 1 : 0;
  EXPECT_EQ(looks, 19);
}

}  // namespace
}  // namespace lambent::cluster
