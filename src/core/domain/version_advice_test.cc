#include "core/domain/version_advice.h"

#include <gtest/gtest.h>

namespace lambent {
namespace {

TEST(VersionAdviceTest, TheOlderProgramIsToBeUpgraded) {
  EXPECT_EQ(version_advice("0.9.0", "b", "0.10.0"),
            "this node has version 0.9.0 and node 'b' version 0.10.0: upgrade this node");
  EXPECT_EQ(version_advice("1.0.0", "b", "0.10.7"),
            "this node has version 1.0.0 and node 'b' version 0.10.7: upgrade that node");
  EXPECT_EQ(version_advice("1.0.0", "b", "1.0.0-dev"),
            "this node has version 1.0.0 and node 'b' version 1.0.0-dev: run one program on both");
}

TEST(VersionAdviceTest, WhatIsNotKnownOrTheSameAdvisesNothing) {
  EXPECT_EQ(version_advice("1.0.0", "b", "1.0.0"), "");
  EXPECT_EQ(version_advice("1.0.0", "b", ""), "");
  EXPECT_EQ(version_advice("", "b", "1.0.0"), "");
  EXPECT_EQ(compare_versions("no", "numbers"), 0);
  EXPECT_LT(compare_versions("1.2", "1.2.1"), 0);
  EXPECT_GT(compare_versions("2", "1.99999999999999999999"), 0);
}

}  // namespace
}  // namespace lambent
