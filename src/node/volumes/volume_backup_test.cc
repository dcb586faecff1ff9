#include "node/volumes/volume_backup.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/fd.h"
#include "core/base/testing/testing.h"
#include "core/crypto/crypto.h"
#include "node/volumes/volume_folder.h"

namespace lambent::volumes {
namespace {

namespace fs = std::filesystem;

class VolumeBackupTest : public testing::Test {
 protected:
  VolumeBackupTest() { EXPECT_TRUE(make_volume(volume_).ok()); }

  void put(const std::string& path, const std::string& content) {
    const std::string sha256 = crypto::to_hex(crypto::sha256(content));
    const bool is_there = fs::exists(volume_ + "/contents/" + sha256);
    if (!is_there) std::ofstream(upload_path(volume_, "u")) << content;
    ASSERT_TRUE(publish(volume_, is_there ? "" : "u", sha256, path).ok());
  }
  Result<void> copy() { return copy_volumes(folder_ / "from", folder_ / "to"); }
  std::string copied(const std::string& path) {
    return read_file(copy_ + "/tree/" + path, 1 << 20).value();
  }

  const TemporaryFolder folder_;
  const std::string volume_ = folder_ / "from/3/weights";
  const std::string copy_ = folder_ / "to/3/weights";
};

TEST_F(VolumeBackupTest, WhatIsCopiedIsAVolumeWithEachContentOnce) {
  put("a", "same");
  put("deep/er/b", "same");
  put("c", "other");
  std::ofstream(upload_path(volume_, "unfinished")) << "half";
  ASSERT_TRUE(copy().ok());
  EXPECT_EQ(copied("a"), "same");
  EXPECT_TRUE(fs::equivalent(copy_ + "/tree/a", copy_ + "/tree/deep/er/b"));
  EXPECT_FALSE(fs::exists(upload_path(copy_, "unfinished")));
  const auto loaded = load_volume(copy_);
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->files.size(), 3u);
  EXPECT_TRUE(loaded->uploads.empty());
}

TEST_F(VolumeBackupTest, ASecondCallBringsWhatChanged) {
  put("kept", "1");
  put("replaced", "old");
  put("file", "becomes a folder");
  put("folder/in", "becomes a file");
  ASSERT_TRUE(copy().ok());
  put("replaced", "new");
  put("more", "came");
  fs::remove(volume_ + "/tree/file");
  put("file/in", "it");
  fs::remove_all(volume_ + "/tree/folder");
  put("folder", "it");
  ASSERT_TRUE(copy().ok());
  EXPECT_EQ(copied("kept"), "1");
  EXPECT_EQ(copied("replaced"), "new");
  EXPECT_EQ(copied("more"), "came");
  EXPECT_EQ(copied("file/in"), "it");
  EXPECT_EQ(copied("folder"), "it");
}

TEST_F(VolumeBackupTest, AContentThatIsNotWhatItsNameSaysIsDataLoss) {
  put("a", "right");
  const std::string content = volume_ + "/contents/" + crypto::to_hex(crypto::sha256("right"));
  fs::permissions(content, fs::perms::owner_all);
  std::ofstream(content) << "wrong";
  const auto done = copy();
  EXPECT_EQ(done.error().code, ErrorCode::kDataLoss);
  EXPECT_NE(done.error().message.find("weights"), std::string::npos);
}

TEST_F(VolumeBackupTest, WithoutVolumesThereIsNothingToCopy) {
  EXPECT_TRUE(copy_volumes(folder_ / "nothing", folder_ / "to").ok());
  EXPECT_FALSE(fs::exists(folder_ / "to"));
}

// Of one that a program copied without hard links, and of files whose content has no name.
TEST_F(VolumeBackupTest, FilesThatAreNoLinksAreCopiedByWhatIsInThem) {
  put("a", "same");
  put("b", "same");
  fs::remove_all(volume_ + "/contents");
  ASSERT_TRUE(copy().ok());
  EXPECT_EQ(copied("a"), "same");
  EXPECT_TRUE(fs::equivalent(copy_ + "/tree/a", copy_ + "/tree/b"));
}

}  // namespace
}  // namespace lambent::volumes
