#include "node/environments/build_process.h"

#include <gtest/gtest.h>

namespace lambent::environments {
namespace {

TEST(BuildLinesTest, ProgressIsTheLastThingThatWasToldAndMayComeInPieces) {
  BuildLines lines;
  lines.add("tell resolving\ntell Downlo");
  EXPECT_EQ(lines.progress(), "resolving");
  lines.add("ading numpy\n");
  EXPECT_EQ(lines.progress(), "Downloading numpy");
  EXPECT_EQ(lines.outcome().error().code, ErrorCode::kInternal);
}

TEST(BuildLinesTest, AReportIsTheOutcome) {
  BuildLines lines;
  lines.add("done {\"bytes\":5,\"cache_bytes\":6,\"packages\":[\"a==1\"]}\n");
  ASSERT_TRUE(lines.outcome().ok());
  EXPECT_EQ(*lines.outcome(), "{\"bytes\":5,\"cache_bytes\":6,\"packages\":[\"a==1\"]}");
}

TEST(BuildLinesTest, AFailureHasItsCode) {
  BuildLines lines;
  lines.add("tell x\nfailed INVALID_ARGUMENT there is no numpy 99\n");
  EXPECT_EQ(lines.outcome().error(), (Error{ErrorCode::kInvalidArgument, "there is no numpy 99"}));
}

TEST(BuildLinesTest, WhatIsNoLineOfOursChangesNothing) {
  BuildLines lines;
  lines.add("\n\nnoise\ndone\nfailed\n" + std::string(3 << 20, 'x'));
  EXPECT_FALSE(lines.outcome().ok());
  EXPECT_EQ(lines.progress(), "starting");
}

}  // namespace
}  // namespace lambent::environments
