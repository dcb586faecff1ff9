#include "node/objects/spill_folder.h"

#include "node/objects/testing/object_store_testing.h"

namespace lambent::objects {
namespace {

class SpillFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::make_unique<SpillFolder>(loop_, log_, disk_.disk(), root_ / "spill");
  }
  static std::shared_ptr<const OwnedFd> memfd(const std::string& bytes) {
    auto made = sealed_memory(bytes);
    EXPECT_TRUE(made.ok());
    return std::make_shared<OwnedFd>(std::move(*made));
  }
  // Writes 60 bytes of it, and returns the checksum.
  uint32_t write(uint64_t version, char byte) {
    std::optional<Result<uint32_t>> checksum;
    EXPECT_TRUE(folder_->write(version, memfd(std::string(60, byte)), Bytes(60),
                               [&](Result<uint32_t> written) { checksum = written; }));
    EXPECT_FALSE(checksum.has_value()) << "it is done elsewhere";
    disk_.work();
    EXPECT_TRUE(checksum && checksum->ok());
    return checksum && checksum->ok() ? **checksum : 0;
  }
  bool exists(uint64_t version) const {
    return std::filesystem::exists(root_ / ("spill/" + std::to_string(version)));
  }

  TemporaryFolder root_;
  FakeClock clock_;
  loop::EventLoop loop_{clock_};
  NullLogSink log_;
  HeldDisk disk_;
  std::unique_ptr<SpillFolder> folder_;
};

TEST_F(SpillFolderTest, WhatWasWrittenIsReadBackAndRemoved) {
  const uint64_t version = folder_->next_version();
  EXPECT_NE(folder_->next_version(), version);
  const uint32_t checksum = write(version, 'a');
  EXPECT_TRUE(exists(version));
  Bytes size;
  ASSERT_TRUE(folder_->read(version, Bytes(60), checksum, [&](Result<OwnedFd> memfd) {
    ASSERT_TRUE(memfd.ok()) << to_string(memfd.error());
    size = *check_sealed(memfd->get());
  }));
  disk_.work();
  EXPECT_EQ(size, Bytes(60));
  folder_->remove(version);
  disk_.work();
  EXPECT_FALSE(exists(version));
}

TEST_F(SpillFolderTest, AFileThatIsNotWhatWasWrittenIsALoss) {
  const uint32_t checksum = write(1, 'a');
  std::optional<ErrorCode> code;
  ASSERT_TRUE(folder_->read(1, Bytes(60), checksum + 1, [&](Result<OwnedFd> memfd) {
    if (!memfd.ok()) code = memfd.error().code;
  }));
  disk_.work();
  EXPECT_EQ(code, ErrorCode::kDataLoss);
}

TEST_F(SpillFolderTest, ADiskThatIsFullTakesNeitherWritesNorReads) {
  disk_.full = true;
  bool is_called = false;
  EXPECT_FALSE(folder_->write(1, memfd("a"), Bytes(1), [&](auto) { is_called = true; }));
  EXPECT_FALSE(folder_->read(1, Bytes(1), 0, [&](auto) { is_called = true; }));
  disk_.work();
  EXPECT_FALSE(is_called);
}

TEST_F(SpillFolderTest, FilesThatTheDiskDoesNotRemoveGoWhenItHasLessToDo) {
  write(1, 'a');
  write(2, 'b');
  disk_.full = true;
  folder_->remove(1);
  folder_->remove(2);
  disk_.full = false;
  disk_.work();
  EXPECT_TRUE(exists(1));
  clock_.advance(seconds(1));
  loop_.run_once(Duration(0));
  disk_.work();
  EXPECT_FALSE(exists(1));
  EXPECT_FALSE(exists(2));
}

TEST_F(SpillFolderTest, FilesOfAnEarlierFolderAreRemovedAndItsCallbacksAreNotCalled) {
  bool is_called = false;
  ASSERT_TRUE(folder_->write(1, memfd("a"), Bytes(1), [&](auto) { is_called = true; }));
  folder_.reset();
  disk_.work();
  EXPECT_FALSE(is_called);
  EXPECT_TRUE(exists(1));
  SetUp();
  EXPECT_FALSE(exists(1));
}

}  // namespace
}  // namespace lambent::objects
