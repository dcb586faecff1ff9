#include "node/environments/build_bounds.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

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

// Root may read every folder: then another user looks.
class AsAnotherUser {
 public:
  static constexpr uid_t kUser = 65534;
  AsAnotherUser() {
    if (geteuid() == 0 && seteuid(kUser) == 0) is_other_ = true;
  }
  ~AsAnotherUser() {
    if (is_other_) (void)!seteuid(0);
  }
  AsAnotherUser(const AsAnotherUser&) = delete;
  AsAnotherUser& operator=(const AsAnotherUser&) = delete;

 private:
  bool is_other_ = false;
};

void give_away(const fs::path& path) {
  if (geteuid() != 0) return;
  ASSERT_EQ(lchown(path.c_str(), AsAnotherUser::kUser, -1), 0);
}

TEST_F(BuildBoundsTest, FoldersThatTheBuildHidFromItsUserCountAndStayHidden) {
  BuildBounds bounds = this->bounds();
  fs::create_directories(folder_ / "work/hidden/deep");
  write("work/hidden/deep/large", Bytes::mib(4));
  give_away(folder_.path());
  for (const char* name : {"work", "work/hidden", "work/hidden/deep"}) give_away(folder_ / name);
  fs::permissions(folder_ / "work/hidden/deep", fs::perms::owner_read);
  fs::permissions(folder_ / "work/hidden", fs::perms::none);
  Result<void> checked;
  {
    const AsAnotherUser other;
    checked = bounds.check_all();
  }
  ASSERT_FALSE(checked.ok());
  EXPECT_NE(checked.error().message.find("took more than 3 MiB"), std::string::npos)
      << checked.error().message;
  struct stat status {};
  ASSERT_EQ(stat((folder_ / "work/hidden").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0u);
  fs::permissions(folder_ / "work/hidden", fs::perms::owner_all);
  ASSERT_EQ(stat((folder_ / "work/hidden/deep").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0400u);
  fs::permissions(folder_ / "work/hidden/deep", fs::perms::owner_all);
}

TEST_F(BuildBoundsTest, AFolderThatTheBuildOpensWhileItIsWalkedStaysSo) {
  fs::create_directory(folder_ / "work/hidden");
  for (int i = 0; i < 3000; ++i) write("work/hidden/" + std::to_string(i), Bytes(0));
  give_away(folder_.path());
  give_away(folder_ / "work/hidden");
  const std::string hidden = folder_ / "work/hidden";
  const auto mode = [&] {
    struct stat status {};
    EXPECT_EQ(stat(hidden.c_str(), &status), 0);
    return status.st_mode & 07777;
  };
  {
    const AsAnotherUser other;
    for (int tries = 0; tries < 200 && mode() != 0750; ++tries) {
      ASSERT_EQ(::chmod(hidden.c_str(), 0), 0);
      std::atomic<bool> is_over = false;
      std::thread build([&] {
        while (!is_over) {
          if (mode() == 0500) return (void)::chmod(hidden.c_str(), 0750);
        }
      });
      EXPECT_GT(disk_use({folder_ / "work"}).files, 3000U);
      is_over = true;
      build.join();
    }
    EXPECT_EQ(mode(), 0750U);
  }
}

TEST_F(BuildBoundsTest, AFolderOfAnotherUserThatCannotBeReadEndsTheBuild) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make folders of another user";
  fs::create_directory(folder_ / "work/foreign");
  give_away(folder_.path());
  fs::permissions(folder_ / "work/foreign", fs::perms::owner_all);
  const AsAnotherUser other;
  EXPECT_TRUE(this->bounds().check_all().ok()) << "what was there before is not the build's";
  BuildBounds bounds = this->bounds();
  (void)!seteuid(0);
  fs::create_directory(folder_ / "work/later");
  fs::permissions(folder_ / "work/later", fs::perms::owner_all);
  ASSERT_EQ(seteuid(AsAnotherUser::kUser), 0);
  const auto checked = bounds.check_all();
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(BuildBoundsTest, OfWhatHasOtherNamesNothingCountsWhereItIsSaid) {
  write("cache/one", Bytes::mib(2));
  fs::create_hard_link(folder_ / "cache/one", folder_ / "work/one");
  EXPECT_LT(size_on_disk(folder_ / "cache", true), Bytes::mib(1));
  EXPECT_GE(size_on_disk(folder_ / "cache"), Bytes::mib(2));
}

}  // namespace
}  // namespace lambent::environments
