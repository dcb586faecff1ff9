// Objects on disk: which go there, how they come back, and what the disk may do wrong.
#include <fstream>

#include "node/objects/testing/object_store_testing.h"

namespace lambent::objects {
namespace {

TEST_F(ObjectStoreTest, UnderPressureObjectsGoToDiskAndComeBackWhenAskedFor) {
  for (uint32_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(put(i, std::string(30, static_cast<char>('a' + i))).ok()) << i;
    disk_.work();
  }
  EXPECT_EQ(store_->statistics().objects, 8u);
  EXPECT_LE(store_->statistics().memory, Bytes(90));
  EXPECT_GE(store_->statistics().disk, Bytes(150));
  for (uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(get_now(i), std::string(30, static_cast<char>('a' + i)));
  }
  EXPECT_EQ(files().size(), store_->statistics().disk.count / 30);
  EXPECT_GE(store_->statistics().read_back, 5u);
  pass(seconds(10));
  disk_.work();
  EXPECT_TRUE(files().empty());
}

TEST_F(ObjectStoreTest, WhoOpensItWhileItIsWrittenGetsItFromMemory) {
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  ASSERT_TRUE(put(2, std::string(30, 'b')).ok());
  ASSERT_EQ(store_->status(kTenant, id(1))->place, ObjectPlace::kSpilling);
  std::string seen;
  get(1, seen);
  EXPECT_EQ(seen, std::string(60, 'a'));
}

TEST_F(ObjectStoreTest, DamageOnDiskIsNoticed) {
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  ASSERT_TRUE(put(2, std::string(60, 'b')).ok());
  disk_.work();
  ASSERT_EQ(files().size(), 1u);
  std::fstream(files()[0], std::ios::in | std::ios::out).put('x');
  EXPECT_EQ(get_now(1).substr(0, 9), "DATA_LOSS");
  EXPECT_EQ(get_now(1).substr(0, 9), "DATA_LOSS");
  EXPECT_EQ(files().size(), 1u);  // of the other, which had made way
  EXPECT_EQ(store_->statistics().lost, 1u);
}

TEST_F(ObjectStoreTest, AMissingFileIsALossToo) {
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  ASSERT_TRUE(put(2, std::string(60, 'b')).ok());
  disk_.work();
  std::filesystem::remove(files().at(0));
  EXPECT_EQ(get_now(1).substr(0, 9), "DATA_LOSS");
}

TEST_F(ObjectStoreTest, AFileThatCouldNotBeRemovedGoesLaterAndIsInNobodysWay) {
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  ASSERT_TRUE(put(2, std::string(60, 'b')).ok());
  disk_.work();
  const std::string old = files().at(0);
  std::string seen;
  get(1, seen);
  disk_.full = true;  // when it is read, and its file may go
  disk_.work();
  ASSERT_EQ(seen, std::string(60, 'a'));
  EXPECT_TRUE(std::filesystem::exists(old));
  disk_.full = false;
  ASSERT_TRUE(put(3, std::string(60, 'c')).ok());
  disk_.work();
  EXPECT_EQ(store_->status(kTenant, id(1))->place, ObjectPlace::kDisk);
  EXPECT_TRUE(std::filesystem::exists(old));
  pass(seconds(1));
  disk_.work();
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_EQ(get_now(1), std::string(60, 'a'));
}

TEST_F(ObjectStoreTest, WhatTheDiskCannotTakeStaysInMemory) {
  std::filesystem::remove_all(folder_ / "spill");
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  ASSERT_TRUE(put(2, std::string(30, 'b')).ok());
  disk_.work();
  EXPECT_EQ(store_->status(kTenant, id(1))->place, ObjectPlace::kMemory);
  EXPECT_EQ(get_now(1), std::string(60, 'a'));
  EXPECT_EQ(put(3, std::string(40, 'c')).error().code, ErrorCode::kResourceExhausted);
  // Once the disk is well again, it is tried again.
  std::filesystem::create_directories(folder_ / "spill");
  pass(seconds(1));
  EXPECT_TRUE(put(3, std::string(40, 'c')).ok());
  disk_.work();
  EXPECT_EQ(get_now(1), std::string(60, 'a'));
  EXPECT_EQ(get_now(3), std::string(40, 'c'));
}

TEST_F(ObjectStoreTest, ADiskWithTooMuchToDoIsNotWaitedFor) {
  disk_.full = true;
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  EXPECT_EQ(put(2, std::string(60, 'b')).error().code, ErrorCode::kResourceExhausted);
  disk_.full = false;
  pass(seconds(1));
  ASSERT_TRUE(put(2, std::string(60, 'b')).ok());
  disk_.work();
  disk_.full = true;
  EXPECT_EQ(get_now(1).substr(0, 18), "RESOURCE_EXHAUSTED");
  disk_.full = false;
  pass(seconds(1));
  EXPECT_EQ(get_now(1), std::string(60, 'a'));
}

TEST_F(ObjectStoreTest, AnObjectThatGoesWhileItTravelsLeavesNothingBehind) {
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  ASSERT_TRUE(put(2, std::string(30, 'b')).ok());
  ASSERT_EQ(store_->status(kTenant, id(1))->place, ObjectPlace::kSpilling);
  ASSERT_TRUE(store_->remove(kTenant, id(1)).ok());
  // The same name again, before the disk is done with the old one.
  ASSERT_TRUE(put(1, "new").ok());
  disk_.work();
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(get_now(1), "new");
}

TEST_F(ObjectStoreTest, MemoryIsGivenBackOffTheLoop) {
  ASSERT_TRUE(put(1, "x").ok());
  ASSERT_TRUE(disk_.idle());
  ASSERT_TRUE(store_->remove(kTenant, id(1)).ok());
  EXPECT_FALSE(disk_.idle());
  disk_.work();
}

TEST_F(ObjectStoreTest, WhoWaitsForAnObjectFromDiskHearsThatItWent) {
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  ASSERT_TRUE(put(2, std::string(60, 'b')).ok());
  disk_.work();
  std::string seen;
  get(1, seen);
  EXPECT_EQ(seen, "");
  ASSERT_TRUE(store_->remove(kTenant, id(1)).ok());
  EXPECT_NE(seen.find("removed"), std::string::npos);
  disk_.work();
}

TEST_F(ObjectStoreTest, ManyReadsTakeTurnsInLittleMemory) {
  for (uint32_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(put(i, std::string(80, static_cast<char>('a' + i))).ok());
    disk_.work();
  }
  std::vector<std::string> seen(5);
  for (uint32_t i = 0; i < 5; ++i) get(i, seen[i]);
  disk_.work();
  for (uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(seen[i], std::string(80, static_cast<char>('a' + i)));
  }
}

TEST_F(ObjectStoreTest, NothingOfAnEarlierWorkerIsLeft) {
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  ASSERT_TRUE(put(2, std::string(60, 'b')).ok());
  disk_.work();
  store_.reset();
  ASSERT_EQ(files().size(), 1u);
  start();
  EXPECT_TRUE(files().empty());
  EXPECT_NE(get_now(1).find("lost when the worker stopped"), std::string::npos);
}

TEST_F(ObjectStoreTest, WhatTheDiskDoesLastFindsNoStore) {
  ASSERT_TRUE(put(1, std::string(60, 'a')).ok());
  ASSERT_TRUE(put(2, std::string(30, 'b')).ok());
  ASSERT_FALSE(disk_.idle());
  store_.reset();
  disk_.work();
}

TEST_F(ObjectStoreTest, WithoutAFolderNothingIsSpilled) {
  ObjectStore store(loop_, log_, disk_.disk(), {.folder = "", .index = {.memory = Bytes(10)}});
  auto one = sealed_memory("12345678");
  auto two = sealed_memory("12345678");
  ASSERT_TRUE(store.store(kTenant, id(1), raw_tensor(Bytes(8)), std::move(*one)).ok());
  EXPECT_EQ(store.store(kTenant, id(2), raw_tensor(Bytes(8)), std::move(*two)).error().code,
            ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace lambent::objects
