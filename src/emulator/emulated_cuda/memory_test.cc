#include "emulator/emulated_cuda/memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace lambent::emulated_cuda {
namespace {

int a_context, another_context;

TEST(Memory, AddressesAreAlignedAndApart) {
  Memory memory;
  std::vector<Allocation> held;
  for (size_t bytes : {1, 511, 512, 513, 4096, 100'000}) {
    held.push_back(*memory.allocate(bytes, bytes, bytes, 0, &a_context));
    EXPECT_EQ(held.back().base % 512, 0u);
    std::memset(reinterpret_cast<void*>(held.back().base), static_cast<int>(held.size()), bytes);
  }
  for (size_t i = 0; i < held.size(); i++) {
    EXPECT_EQ(*reinterpret_cast<unsigned char*>(held[i].base + held[i].bytes - 1), i + 1);
  }
}

TEST(Memory, FreedNeighboursBecomeOneRoomAgain) {
  Memory memory;
  std::vector<uintptr_t> bases;
  for (int i = 0; i < 31; i++) {
    bases.push_back(memory.allocate(1 << 20, 1 << 20, 1 << 20, 0, &a_context)->base);
  }
  for (uintptr_t base : bases) EXPECT_TRUE(memory.release(base, MemoryKind::kDevice));
  for (int i = 0; i < 3; i++) memory.allocate(7 << 20, 7 << 20, 7 << 20, 0, &a_context);
  EXPECT_EQ(memory.allocate(7 << 20, 1, 7 << 20, 0, &a_context)->base, bases[0] + (21u << 20));
}

TEST(Memory, FindsOnlyRangesWithinOneAllocation) {
  Memory memory;
  uintptr_t base = memory.allocate(1000, 1024, 1000, 0, &a_context)->base;
  EXPECT_TRUE(memory.find(base, 1000));
  EXPECT_TRUE(memory.find(base + 999, 1));
  EXPECT_FALSE(memory.find(base + 999, 2));
  EXPECT_FALSE(memory.find(base + 1000, 0));
  EXPECT_FALSE(memory.find(base + 1, SIZE_MAX));
  EXPECT_FALSE(memory.release(base, MemoryKind::kHostAllocated));
  EXPECT_TRUE(memory.release(base, MemoryKind::kDevice));
  EXPECT_FALSE(memory.find(base, 1));
}

TEST(Memory, AScaledAllocationRepeatsItsPages) {
  Memory memory;
  auto scaled = memory.allocate(16 << 20, 16 << 20, 1 << 20, 0, &a_context);
  auto* bytes = reinterpret_cast<volatile char*>(scaled->base);
  bytes[5] = 42;
  EXPECT_EQ(bytes[(15 << 20) + 5], 42);
  EXPECT_EQ(scaled->backing_bytes, size_t{1} << 20);
}

TEST(Memory, WhatAContextHoldsGoesWithIt) {
  Memory memory;
  uintptr_t mine = memory.allocate(100, 512, 100, 0, &a_context)->base;
  uintptr_t other = memory.allocate(100, 512, 100, 0, &another_context)->base;
  EXPECT_EQ(memory.release_all(&a_context), 512u);
  EXPECT_FALSE(memory.find(mine, 1));
  EXPECT_TRUE(memory.find(other, 1));
}

TEST(Memory, FreedPagesAreFoundAgainUpToTheirBound) {
  Memory memory;
  constexpr size_t kBytes = size_t{64} << 20;
  auto allocate = [&] { return memory.allocate(kBytes, kBytes, kBytes, 0, &a_context)->base; };
  uintptr_t first = allocate();
  *reinterpret_cast<volatile int*>(first) = 7;
  EXPECT_TRUE(memory.release(first, MemoryKind::kDevice));
  EXPECT_EQ(allocate(), first);
  EXPECT_EQ(*reinterpret_cast<volatile int*>(first), 7);
  std::vector<uintptr_t> bases = {first};
  for (int i = 0; i < 4; i++) bases.push_back(allocate());
  for (uintptr_t base : bases) {
    *reinterpret_cast<volatile int*>(base) = 8;
    EXPECT_TRUE(memory.release(base, MemoryKind::kDevice));
  }
  int found = 0;
  for (int i = 0; i < 5; i++) found += *reinterpret_cast<volatile int*>(allocate()) == 8;
  EXPECT_EQ(found, 4) << "256 MiB of 320";
}

}  // namespace
}  // namespace lambent::emulated_cuda
