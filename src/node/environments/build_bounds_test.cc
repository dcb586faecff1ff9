#include "node/environments/build_bounds.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/testing/testing.h"

namespace lambent::environments {
namespace {

namespace fs = std::filesystem;

class BuildBoundsTest : public testing::Test {
 protected:
  BuildBoundsTest() {
    for (const char* name : {"work", "cache", "others"}) fs::create_directory(folder_ / name);
    write("work/before", Bytes::mib(4));
  }
  void write(const std::string& name, Bytes size) {
    std::ofstream(folder_ / name) << std::string(size.count, 'x');
  }
  BuildBounds bounds(Duration timeout = seconds(100)) const {
    return {{folder_ / "work", folder_ / "cache", folder_ / "not there"},
            Bytes::mib(3),
            timeout,
            {"the packages", "--size", "--timeout"}};
  }

  const TemporaryFolder folder_;
};

TEST_F(BuildBoundsTest, WhatOthersWriteAndWhatWasThereDoesNotCount) {
  BuildBounds bounds = this->bounds();
  write("others/large", Bytes::mib(16));
  write("work/small", Bytes::mib(2));
  EXPECT_TRUE(bounds.check().ok());
  EXPECT_TRUE(bounds.check_all().ok());
}

TEST_F(BuildBoundsTest, AllThatTheBuildWroteCountsOnce) {
  BuildBounds bounds = this->bounds();
  fs::create_directories(folder_ / "cache/deep/er");
  write("cache/deep/er/one", Bytes::mib(2));
  for (const char* name : {"work/link", "work/another"}) {
    fs::create_hard_link(folder_ / "cache/deep/er/one", folder_ / name);
  }
  fs::create_directory_symlink(folder_ / "others", folder_ / "work/elsewhere");
  write("others/large", Bytes::mib(16));
  EXPECT_TRUE(bounds.check_all().ok());
  write("work/two", Bytes::mib(2));
  const auto refused = bounds.check_all();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("the packages took more than 3 MiB"), std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find("--size"), std::string::npos);
}

TEST_F(BuildBoundsTest, TheFirstCheckLooksAtTheFiles) {
  BuildBounds bounds = this->bounds();
  write("work/large", Bytes::mib(4));
  EXPECT_FALSE(bounds.check().ok());
}

TEST_F(BuildBoundsTest, ItTakesNoLongerThanItMay) {
  BuildBounds bounds = this->bounds(Duration(-1));
  EXPECT_EQ(bounds.check().error().code, ErrorCode::kDeadlineExceeded);
}

TEST_F(BuildBoundsTest, OfWhatHasOtherNamesNothingCountsWhereItIsSaid) {
  write("cache/one", Bytes::mib(2));
  fs::create_hard_link(folder_ / "cache/one", folder_ / "work/one");
  EXPECT_LT(size_on_disk(folder_ / "cache", true), Bytes::mib(1));
  EXPECT_GE(size_on_disk(folder_ / "cache"), Bytes::mib(2));
}

}  // namespace
}  // namespace lambent::environments
