#include "edge/cli/fetch_cache.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/fd.h"
#include "core/base/testing/testing.h"

namespace lambent::cli {
namespace {

constexpr const char* kUrl = "https://example.com/model.onnx";

// Each FetchCache is as one of another process: locks are of open files.
class FetchCacheTest : public testing::Test {
 protected:
  const TemporaryFolder temporary_;
  FetchCache mine_{temporary_.path()};
  FetchCache others_{temporary_.path()};
};

TEST_F(FetchCacheTest, AnEntryIsOnesOwnAsLongAsItIsRead) {
  auto entry = mine_.open(kUrl);
  ASSERT_TRUE(entry.ok());
  EXPECT_EQ(others_.open(kUrl).error().code, ErrorCode::kAborted);
  EXPECT_TRUE(others_.open("https://example.com/other.onnx").ok());
  entry->reset();
  EXPECT_TRUE(others_.open(kUrl).ok());
}

TEST_F(FetchCacheTest, FunctionsOfOneDeploymentShareAnEntry) {
  const auto first = mine_.open(kUrl);
  const auto second = mine_.open(kUrl);
  ASSERT_TRUE(second.ok()) << to_string(second.error());
  EXPECT_EQ(*first, *second);
}

TEST_F(FetchCacheTest, WhatIsDroppedIsNoOnesUntilItIsGivenBack) {
  auto entry = mine_.open(kUrl);
  ASSERT_TRUE(entry.ok());
  const std::string path = (*entry)->path();
  ASSERT_TRUE(write_file_atomically(path + "/model.onnx", "m", false).ok());
  EXPECT_FALSE((*entry)->is_empty());
  (*entry)->drop();
  EXPECT_FALSE(std::filesystem::exists(path));
  entry->reset();
  const auto again = others_.open(kUrl);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE((*again)->is_empty());
}

}  // namespace
}  // namespace lambent::cli
