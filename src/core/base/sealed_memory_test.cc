#include "core/base/sealed_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace lambent {
namespace {

TEST(SealedMemory, HoldsItsBytesAndCannotBeChanged) {
  auto fd = sealed_memory("twelve bytes");
  ASSERT_TRUE(fd.ok());
  EXPECT_EQ(*check_sealed(fd->get()), Bytes(12));
  EXPECT_EQ(write(fd->get(), "x", 1), -1);
  EXPECT_EQ(ftruncate(fd->get(), 1), -1);
  EXPECT_EQ(mmap(nullptr, 12, PROT_WRITE, MAP_SHARED, fd->get(), 0), MAP_FAILED);
  const auto mapped = MappedMemory::map(fd->get(), Bytes(12));
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(mapped->bytes(), "twelve bytes");
  EXPECT_EQ(*read_memory(fd->get(), Bytes(7), Bytes(5)), "bytes");
}

// Older kernels refuse MAP_SHARED for sealed memory; newer ones do not, so the map is asked.
TEST(SealedMemory, IsMappedAsEveryKernelAllows) {
  auto fd = sealed_memory("twelve bytes");
  ASSERT_TRUE(fd.ok());
  const auto mapped = MappedMemory::map(fd->get(), Bytes(12));
  ASSERT_TRUE(mapped.ok());
  char begin[32];
  std::snprintf(begin, sizeof(begin), "%08lx-",
                reinterpret_cast<unsigned long>(mapped->bytes().data()));
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line) && !line.starts_with(begin)) {
  }
  EXPECT_EQ(line.substr(line.find(' ') + 1, 4), "r--p") << line;
}

TEST(SealedMemory, OfNoBytesIsMemoryToo) {
  auto fd = sealed_memory("");
  ASSERT_TRUE(fd.ok());
  EXPECT_EQ(*check_sealed(fd->get()), Bytes(0));
  EXPECT_EQ(MappedMemory::map(fd->get(), Bytes(0))->bytes(), "");
}

TEST(SealedMemory, WhatIsNotSealedOrNoMemoryIsRefused) {
  auto open_memory = new_memory(Bytes(4));
  ASSERT_TRUE(open_memory.ok());
  EXPECT_EQ(check_sealed(open_memory->get()).error().code, ErrorCode::kInvalidArgument);
  const OwnedFd file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(check_sealed(file.get()).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(check_sealed(-1).error().code, ErrorCode::kInvalidArgument);
}

TEST(SealedMemory, IsNotSealedWhileSomebodyMayWrite) {
  auto fd = new_memory(Bytes(4096));
  ASSERT_TRUE(fd.ok());
  void* writable = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd->get(), 0);
  ASSERT_NE(writable, MAP_FAILED);
  EXPECT_EQ(seal(fd->get()).error().code, ErrorCode::kFailedPrecondition);
  munmap(writable, 4096);
  EXPECT_TRUE(seal(fd->get()).ok());
}

}  // namespace
}  // namespace lambent
