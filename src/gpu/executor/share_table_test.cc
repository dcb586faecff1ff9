#include "gpu/executor/share_table.h"

#include <gtest/gtest.h>

namespace lambent::executor {
namespace {

using Part = ShareTable::Part;
using Groups = std::vector<uint32_t>;

TEST(ShareTable, RoundsDownToWholeGroupsAndGivesAtLeastOne) {
  ShareTable table(132, 8, 16);                       // a Hopper, of which 4 are in no group
  EXPECT_EQ(table.give(1, 25).multiprocessors, 32u);  // of 33
  EXPECT_EQ(table.give(1, 1).multiprocessors, 8u);
  EXPECT_EQ(table.give(1, 99).multiprocessors, 128u);
  EXPECT_EQ(table.give(1, 100), (Part{{}, 132}));
}

TEST(ShareTable, GivesWhatTheFewestOthersHave) {
  ShareTable table(80, 20, 4);
  EXPECT_EQ(table.give(1, 50).groups, (Groups{0, 1}));
  EXPECT_EQ(table.give(2, 25).groups, (Groups{2}));
  EXPECT_EQ(table.give(3, 50).groups, (Groups{0, 3}));
  table.take_back(2);
  table.take_back(2);
  EXPECT_EQ(table.give(4, 25).groups, (Groups{2}));
  EXPECT_EQ(table.give(1, 25).groups, (Groups{1})) << "in place of what it had";
}

TEST(ShareTable, AllOfADeviceThatIsOneGroup) {
  ShareTable table(8, 8, 1);
  EXPECT_EQ(table.give(1, 10), (Part{{}, 8}));
}

}  // namespace
}  // namespace lambent::executor
