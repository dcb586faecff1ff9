#include "emulator/emulated_cuda/backing.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace lambent::emulated_cuda {
namespace {

constexpr size_t kBlock = kBackingBlockBytes;

size_t file_bytes(const Backing& backing) {
  struct stat info {};
  fstat(backing.descriptor(), &info);
  return static_cast<size_t>(info.st_size);
}

TEST(Backing, WhatIsGivenBackIsTakenAgain) {
  Backing backing;
  size_t a = *backing.take(3 * kBlock), b = *backing.take(1);
  EXPECT_EQ(b - a, 3 * kBlock);
  backing.give_back(a, 3 * kBlock);
  EXPECT_EQ(backing.kept_bytes(), 3 * kBlock);
  EXPECT_EQ(*backing.take(kBlock), a);
  EXPECT_EQ(*backing.take(2 * kBlock), a + kBlock);
  EXPECT_EQ(backing.kept_bytes(), 0u);
  EXPECT_EQ(file_bytes(backing), 4 * kBlock);
}

TEST(Backing, NeighboursBecomeOneExtent) {
  Backing backing;
  size_t first = *backing.take(kBlock);
  size_t second = *backing.take(kBlock), third = *backing.take(kBlock);
  backing.give_back(first, kBlock);
  backing.give_back(third, kBlock);
  backing.give_back(second, kBlock);
  EXPECT_EQ(*backing.take(3 * kBlock), first);
}

TEST(Backing, NoMoreIsKeptThanItsBound) {
  Backing backing;
  size_t offset = *backing.take(kMostKeptBackingBytes);
  size_t another = *backing.take(kBlock);
  backing.give_back(offset, kMostKeptBackingBytes);
  backing.give_back(another, kBlock);
  EXPECT_EQ(backing.kept_bytes(), kMostKeptBackingBytes);
  EXPECT_EQ(*backing.take(kMostKeptBackingBytes + kBlock), offset + kMostKeptBackingBytes + kBlock)
      << "pages and holes are not mixed";
  EXPECT_EQ(*backing.take(kMostKeptBackingBytes), offset);
  EXPECT_EQ(*backing.take(kBlock), another);
}

}  // namespace
}  // namespace lambent::emulated_cuda
