#include "edge/cli/version_policy.h"

#include <gtest/gtest.h>

namespace lambent::cli {
namespace {

std::vector<uint64_t> served(const char* policy, const std::set<uint64_t>& there) {
  const auto parsed = parse_version_policy(policy);
  EXPECT_TRUE(parsed.ok()) << policy;
  return served_versions(*parsed, there).value();
}

TEST(VersionPolicy, ChoosesWhatIsServed) {
  using Versions = std::vector<uint64_t>;
  EXPECT_EQ(served("latest:1", {1, 3, 20}), Versions({20}));
  EXPECT_EQ(served("latest:2", {1, 3, 20}), Versions({3, 20}));
  EXPECT_EQ(served("latest:9", {1, 3}), Versions({1, 3}));
  EXPECT_EQ(served("all", {1, 3}), Versions({1, 3}));
  EXPECT_EQ(served("specific:3,1", {1, 2, 3}), Versions({1, 3}));
  EXPECT_EQ(VersionPolicy().latest, 1u) << "as Triton has it";
}

TEST(VersionPolicy, WhatIsNotThereIsNamed) {
  const auto missing = served_versions(parse_version_policy("specific:1,7").value(), {1});
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("version 7"), std::string::npos);
}

TEST(VersionPolicy, OtherWordsAreRefused) {
  for (const char* text : {"", "latest", "latest:", "latest:0", "latest:x", "latest:1,2",
                           "specific:", "specific:1,", "specific:-1", "All", "newest:1"}) {
    EXPECT_FALSE(parse_version_policy(text).ok()) << text;
  }
}

}  // namespace
}  // namespace lambent::cli
