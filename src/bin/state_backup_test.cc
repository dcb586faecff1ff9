#include "bin/state_backup.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "core/base/fd.h"
#include "core/crypto/crypto.h"
#include "node/catalog/testing/testing.h"
#include "node/volumes/volume_folder.h"

namespace lambent::bin {
namespace {

namespace fs = std::filesystem;

class StateBackupTest : public testing::Test {
 protected:
  StateBackupTest() {
    fs::create_directories(state_ + "/code/one");
    fs::create_directories(state_ + "/logs");
    write("code/one/app.py", "code");
    fs::create_symlink("app.py", state_ + "/code/one/link");
    fs::permissions(state_ + "/code/one/app.py", fs::perms(0755));
    write("node.key", "key");
    fs::permissions(state_ + "/node.key", fs::perms(0600));
    write("logs/1-0.log", "printed");
    write("scratch", "is not kept");
    catalog_ = std::move(*catalog::Catalog::open(state_ + "/catalog.db", {}, loop_.post()));
    EXPECT_TRUE(loop_
                    .await<FunctionSpec>([&](auto done) {
                      catalog_->put_function(catalog::sample_function("f"), done);
                    })
                    .ok());
  }

  void write(const std::string& path, const std::string& text) {
    std::ofstream(state_ + "/" + path) << text;
  }
  std::string text_of(const std::string& path) { return read_file(path, 1 << 20).value(); }

  const TemporaryFolder folder_;
  const std::string state_ = folder_ / "state";
  const std::string backup_ = folder_ / "backup";
  catalog::TestLoop loop_;
  std::unique_ptr<catalog::Catalog> catalog_;
};

TEST_F(StateBackupTest, ABackupOfARunningWorkersStateIsRestored) {
  ASSERT_TRUE(back_up_state(state_, backup_).ok());
  struct stat about {};
  ASSERT_EQ(::stat(backup_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0700U);
  EXPECT_FALSE(fs::exists(backup_ + "/scratch"));

  const std::string again = folder_ / "again";
  fs::create_directory(again);
  ASSERT_TRUE(restore_state(backup_, again).ok());
  EXPECT_EQ(text_of(again + "/code/one/app.py"), "code");
  EXPECT_EQ(fs::status(again + "/code/one/app.py").permissions(), fs::perms(0755));
  EXPECT_EQ(fs::read_symlink(again + "/code/one/link"), "app.py");
  EXPECT_EQ(text_of(again + "/node.key"), "key");
  EXPECT_EQ(fs::status(again + "/node.key").permissions(), fs::perms(0600));
  EXPECT_EQ(text_of(again + "/logs/1-0.log"), "printed");
  catalog::TestLoop loop;
  const auto restored = std::move(*catalog::Catalog::open(again + "/catalog.db", {}, loop.post()));
  EXPECT_EQ(restored->load_all()->functions.size(), 1u);
}

// They read volumes as a user of their own.
TEST_F(StateBackupTest, FunctionsReadVolumesThatCameBackUnderAStrictUmask) {
  const std::string volume = state_ + "/volumes/1/weights";
  ASSERT_TRUE(volumes::make_volume(volume).ok());
  std::ofstream(volumes::upload_path(volume, "u")) << "w";
  ASSERT_TRUE(
      volumes::publish(volume, "u", crypto::to_hex(crypto::sha256("w")), "deep/model").ok());
  const mode_t before = ::umask(0077);
  const auto backed_up = back_up_state(state_, backup_);
  ::umask(0077);
  const auto restored = restore_state(backup_, folder_ / "again");
  ::umask(before);
  ASSERT_TRUE(backed_up.ok());
  ASSERT_TRUE(restored.ok());
  const fs::path tree = folder_ / "again/volumes/1/weights/tree";
  EXPECT_EQ(fs::status(tree / "deep").permissions(), fs::perms(0755));
  EXPECT_EQ(fs::status(tree / "deep/model").permissions(), fs::perms(0555));
}

TEST_F(StateBackupTest, WhatWasChangedInABackupIsNotRestored) {
  ASSERT_TRUE(back_up_state(state_, backup_).ok());
  fs::remove(backup_ + "/node.key");  // it may be kept elsewhere
  ASSERT_TRUE(restore_state(backup_ + "/", folder_ / "first").ok());
  std::ofstream(backup_ + "/code/one/app.py") << "gone";
  const auto changed = restore_state(backup_, folder_ / "second");
  EXPECT_EQ(changed.error().code, ErrorCode::kDataLoss);
  EXPECT_NE(changed.error().message.find("code/one/app.py is not what was backed up"),
            std::string::npos)
      << changed.error().message;
  EXPECT_FALSE(fs::exists(folder_ / "second"));
  fs::remove(backup_ + "/code/one/app.py");
  EXPECT_EQ(restore_state(backup_, folder_ / "second").error().code, ErrorCode::kDataLoss);
  fs::remove(backup_ + "/SHA256SUMS");  // as an earlier version made it
  EXPECT_TRUE(restore_state(backup_, folder_ / "second").ok());
}

TEST_F(StateBackupTest, NamesThatALineCannotHaveAreCheckedToo) {
  write("code/one/a\nb\\c", "odd");
  ASSERT_TRUE(back_up_state(state_, backup_).ok());
  ASSERT_TRUE(restore_state(backup_, folder_ / "first").ok());
  std::ofstream(backup_ + "/code/one/a\nb\\c") << "other";
  EXPECT_EQ(restore_state(backup_, folder_ / "second").error().code, ErrorCode::kDataLoss);
}

TEST_F(StateBackupTest, VolumesAreLeftOutIfThatIsWanted) {
  fs::create_directories(state_ + "/volumes/1/v/tree");
  fs::create_directories(state_ + "/volumes/1/v/contents");
  write("volumes/1/v/tree/file", "of the volume");
  ASSERT_TRUE(back_up_state(state_, backup_, {.volumes = false}).ok());
  EXPECT_FALSE(fs::exists(backup_ + "/volumes"));
  ASSERT_TRUE(back_up_state(state_, backup_ + "2").ok());
  EXPECT_EQ(text_of(backup_ + "2/volumes/1/v/tree/file"), "of the volume");
}

TEST_F(StateBackupTest, AFolderBesideItStaysAndASlashBehindItsNameChangesNothing) {
  const std::string beside = backup_ + ".partial";
  fs::create_directory(beside);
  std::ofstream(beside + "/mine") << "x";
  ASSERT_TRUE(back_up_state(state_, backup_ + "/").ok());
  EXPECT_EQ(text_of(beside + "/mine"), "x");
  EXPECT_EQ(text_of(backup_ + "/logs/1-0.log"), "printed");
  EXPECT_EQ(std::distance(fs::directory_iterator(backup_ + "/.."), fs::directory_iterator()), 3)
      << "state, backup and what was there";
}

TEST_F(StateBackupTest, NothingIsReplaced) {
  ASSERT_TRUE(back_up_state(state_, backup_).ok());
  EXPECT_EQ(back_up_state(state_, backup_).error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(restore_state(backup_, state_).error().code, ErrorCode::kAlreadyExists);
  const std::string full = folder_ / "full";
  fs::create_directory(full);
  std::ofstream(full + "/file") << "x";
  EXPECT_EQ(restore_state(backup_, full).error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(text_of(full + "/file"), "x");
}

TEST_F(StateBackupTest, WhatIsNoStateIsToldAndLeavesNothing) {
  const std::string empty = folder_ / "empty";
  fs::create_directory(empty);
  EXPECT_EQ(back_up_state(empty, backup_).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(restore_state(empty, folder_ / "new").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(fs::exists(backup_));
  EXPECT_FALSE(fs::exists(backup_ + ".partial"));
  EXPECT_FALSE(fs::exists(folder_ / "new"));
}

}  // namespace
}  // namespace lambent::bin
