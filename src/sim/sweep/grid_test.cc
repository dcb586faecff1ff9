#include "sim/sweep/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lambent::sweep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> values(const std::string& text) {
  const auto axis = parse_axis(text);
  return axis.ok() ? axis->values : std::vector<std::string>{axis.error().message};
}

TEST(ParseAxis, ListsAndRangesMayBeMixed) {
  EXPECT_THAT(values("policy=fcfs,batch"), ElementsAre("fcfs", "batch"));
  EXPECT_THAT(values("D=1:3"), ElementsAre("1", "2", "3"));
  EXPECT_THAT(values("T=5:20:5,40"), ElementsAre("5", "10", "15", "20", "40"));
  EXPECT_THAT(values("pool=4:32:x2"), ElementsAre("4", "8", "16", "32"));
  EXPECT_THAT(values("trace=/a:b/t1.csv"), ElementsAre("/a:b/t1.csv"));
}

TEST(ParseAxis, StepsOfATenthReachTheLastAndReadWell) {
  EXPECT_THAT(values("load=0.1:0.5:0.1"), ElementsAre("0.1", "0.2", "0.3", "0.4", "0.5"));
  EXPECT_THAT(values("load=-0.2:0:0.1"), ElementsAre("-0.2", "-0.1", "0"));
}

TEST(ParseAxis, SaysWhatIsWrong) {
  for (const auto& [text, why] :
       {std::pair("D", "write NAME="), std::pair("D=", "write NAME="),
        std::pair("=1", "write NAME="), std::pair("D=1,,2", "empty"),
        std::pair("D=3:1", "least first"), std::pair("D=1:3:0", "above 0"),
        std::pair("D=1:8:x1", "above 1"), std::pair("D=0:8:x2", "above 0"),
        std::pair("D=1:3:z", "FIRST:LAST"), std::pair("D=1,2,1", "twice"),
        std::pair("D=0:1e9", "more than")}) {
    const auto axis = parse_axis(text);
    ASSERT_FALSE(axis.ok()) << text;
    EXPECT_EQ(axis.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(axis.error().message, HasSubstr(why)) << text;
  }
}

TEST(Grid, WalksEveryCellOnce) {
  const Grid grid{{{"D", {"1", "2"}}, {"pool", {"4", "8", "16"}}}, 7, 2};
  const auto cells = grid.cells();
  ASSERT_EQ(cells.size(), 12u);
  EXPECT_EQ(cells[0], (Cell{{"1", "4"}, 7}));
  EXPECT_EQ(cells[1], (Cell{{"1", "4"}, 8}));
  EXPECT_EQ(cells[2], (Cell{{"1", "8"}, 7}));
  EXPECT_EQ(cells[11], (Cell{{"2", "16"}, 8}));
}

TEST(Grid, RefusesTwoAxesOfOneNameAndTooManyCells) {
  EXPECT_FALSE((Grid{{{"D", {"1"}}, {"D", {"2"}}}, 1, 1}).check().ok());
  const std::vector<std::string> thousand(1000, "1");
  const auto checked = Grid{{{"a", thousand}, {"b", thousand}}, 1, 2}.check();
  ASSERT_FALSE(checked.ok());
  EXPECT_THAT(checked.error().message, HasSubstr("2000000 cells"));
}

}  // namespace
}  // namespace lambent::sweep
