#include "gpu/forward_server/process_memory.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "gpu/forward_server/testing/parts_testing.h"

namespace lambent::forward_server {
namespace {

constexpr uint64_t kBlock = 1 << 20;

class ProcessMemoryTest : public PartsTest {};

TEST_F(ProcessMemoryTest, AnAllocationCountsInWholeStepsUntilItIsFreed) {
  const uint64_t address = allocate(1000);
  EXPECT_EQ(memory_.used(), Bytes(1024));
  EXPECT_TRUE(ranges_.contains(address, 1000));
  EXPECT_FALSE(ranges_.contains(address, 1001));
  EXPECT_TRUE(ask(process_memory_, kFree, {address}));
  EXPECT_EQ(wait_for_answer(), CUDA_SUCCESS);
  EXPECT_EQ(memory_.used(), Bytes(0));
  EXPECT_FALSE(ranges_.contains(address, 1));
}

TEST_F(ProcessMemoryTest, MemoryThatIsAllocatedAgainIsZeroed) {
  const uint64_t before = allocate(kLimit.count);
  EXPECT_TRUE(
      send(process_memory_, kFill, {stream_, before, 0, 0xAB, 1, kLimit.count, uint64_t{1}}));
  EXPECT_EQ(wait_for_stream(stream_), CUDA_SUCCESS);
  EXPECT_EQ(first_byte(before), static_cast<char>(0xAB));
  EXPECT_TRUE(ask(process_memory_, kFree, {before}));
  EXPECT_EQ(wait_for_answer(), CUDA_SUCCESS);
  EXPECT_EQ(first_byte(allocate(kLimit.count)), 0);
}

TEST_F(ProcessMemoryTest, AnAllocationAboveTheLimitIsRefusedAndCountsNothing) {
  allocate(kLimit.count - kBlock);
  EXPECT_TRUE(ask(process_memory_, kAllocate, {context_, 2 * kBlock}));
  EXPECT_EQ(result(), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(memory_.used(), Bytes(kLimit.count - kBlock));
}

TEST_F(ProcessMemoryTest, AnAllocationNeedsAContextAndASize) {
  EXPECT_TRUE(ask(process_memory_, kAllocate, {context_ + 1, kBlock}));
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_TRUE(ask(process_memory_, kAllocate, {context_, 0}));
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ProcessMemoryTest, AnAllocationWaitsForFreesThatAStreamHasNotReached) {
  const uint64_t address = allocate(kLimit.count);
  const size_t gate = hold(stream_);
  EXPECT_TRUE(send(process_memory_, kFreeAsync, {address, stream_}));
  EXPECT_EQ(memory_.used(), kLimit);
  EXPECT_TRUE(ask(process_memory_, kAllocateAsync, {context_, kLimit.count, stream_}));
  completions_.poll();
  EXPECT_FALSE(is_answered());
  open(gate);
  EXPECT_EQ(wait_for_answer(), CUDA_SUCCESS);
  EXPECT_EQ(memory_.used(), kLimit);
}

TEST_F(ProcessMemoryTest, AFreeWaitsForTheWorkOfAllStreams) {
  const uint64_t address = allocate(kBlock);
  const size_t gate = hold(create_stream());
  EXPECT_TRUE(ask(process_memory_, kFree, {address}));
  completions_.poll();
  EXPECT_FALSE(is_answered());
  EXPECT_EQ(memory_.used(), Bytes(kBlock));
  open(gate);
  EXPECT_EQ(wait_for_answer(), CUDA_SUCCESS);
  EXPECT_EQ(memory_.used(), Bytes(0));
}

// What is queued on another stream touches the memory when that has come so far.
TEST_F(ProcessMemoryTest, AFreeInTheOrderOfAStreamWaitsForOthersThatUseMemory) {
  const uint64_t other = create_stream(), second = allocate(kBlock);
  const std::vector<std::function<bool(uint64_t address)>> uses = {
      [&](uint64_t at) {
        return send(process_memory_, kFill, {other, at, 0, 1, 1, 64, 1});
      },
      [&](uint64_t at) {
        return send(process_memory_, kCopyInline, {other, at}, "inline");
      },
      [&](uint64_t at) {
        return send(process_memory_, kCopyRows, {other, second, 64, at, 64, 64, 2});
      },
      [&](uint64_t at) {
        return send(chunk_copies_, kCopyOut, {other, at, 0, 64});
      }};
  for (size_t i = 0; i < uses.size(); ++i) {
    const uint64_t address = allocate(kBlock);
    const size_t gate = hold(other);
    EXPECT_TRUE(uses[i](address));
    EXPECT_TRUE(send(process_memory_, kFreeAsync, {address, stream_}));
    EXPECT_EQ(wait_for_stream(stream_), CUDA_SUCCESS);
    EXPECT_FALSE(ranges_.contains(address, 1)) << i;
    EXPECT_EQ(memory_.used(), Bytes(2 * kBlock)) << i;
    open(gate);
    EXPECT_TRUE(poll_until([&] { return memory_.used() == Bytes(kBlock); })) << i;
  }
}

TEST_F(ProcessMemoryTest, ManyFreesThatWaitForOthersTakeFewStreams) {
  constexpr size_t kFrees = 300, kBytes = 512;
  const uint64_t other = create_stream();
  const size_t gate = hold(other);
  for (size_t i = 0; i < kFrees; ++i) {
    const uint64_t address = allocate(kBytes);
    EXPECT_TRUE(send(process_memory_, kFill, {other, address, 0, 1, 1, 64, 1}));
    EXPECT_TRUE(send(process_memory_, kFreeAsync, {address, stream_}));
  }
  EXPECT_EQ(completions_.size(), kFrees);
  completions_.hand_over();
  EXPECT_LE(completions_.notifiers(), 2U);
  EXPECT_EQ(memory_.used(), Bytes(kFrees * kBytes));
  open(gate);
  EXPECT_TRUE(poll_until([&] { return memory_.used() == Bytes(0); }));
}

// A kernel may run for as long as it likes, such as until its client has got memory.
TEST_F(ProcessMemoryTest, FreesInTheOrderOfOneStreamDoNotWaitForAnothers) {
  const uint64_t other = create_stream(), computes = create_stream();
  const uint64_t first = allocate(kBlock), second = allocate(kBlock);
  const size_t kernel = hold(computes), gate = hold(other);
  EXPECT_TRUE(send(process_memory_, kFill, {other, first, 0, 1, 1, 64, 1}));
  EXPECT_TRUE(send(process_memory_, kFreeAsync, {first, computes}));
  EXPECT_TRUE(send(process_memory_, kFreeAsync, {second, stream_}));
  open(gate);
  EXPECT_TRUE(poll_until([&] { return memory_.used() == Bytes(kBlock); }));
  open(kernel);
  EXPECT_TRUE(poll_until([&] { return memory_.used() == Bytes(0); }));
}

TEST_F(ProcessMemoryTest, ZerosOfAnAllocationInOrderAreAUseOfItsStream) {
  const uint64_t other = create_stream();
  const size_t gate = hold(other);
  EXPECT_TRUE(ask(process_memory_, kAllocateAsync, {context_, kBlock, other}));
  ASSERT_EQ(result(), CUDA_SUCCESS);
  EXPECT_TRUE(send(process_memory_, kFreeAsync, {value(0), stream_}));
  EXPECT_EQ(wait_for_stream(stream_), CUDA_SUCCESS);
  EXPECT_EQ(memory_.used(), Bytes(kBlock));
  open(gate);
  EXPECT_TRUE(poll_until([&] { return memory_.used() == Bytes(0); }));
}

TEST_F(ProcessMemoryTest, AFreeInTheOrderOfAStreamWaitsForNoOtherThatOnlyWaits) {
  const size_t gate = hold(create_stream());
  const uint64_t address = allocate(kBlock);
  EXPECT_TRUE(send(process_memory_, kFreeAsync, {address, stream_}));
  EXPECT_EQ(wait_for_stream(stream_), CUDA_SUCCESS);
  EXPECT_TRUE(poll_until([&] { return memory_.used() == Bytes(0); }));
  open(gate);
}

TEST_F(ProcessMemoryTest, CopiesAndFillsBeyondWhatIsTheProcesssAreRefused) {
  const uint64_t address = allocate(kBlock);
  EXPECT_TRUE(send(process_memory_, kCopyInline, {stream_, address + kBlock - 1}, "ab"));
  EXPECT_EQ(wait_for_stream(stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(send(process_memory_, kFill, {stream_, address, 0, 1, 4, kBlock, 1}));
  EXPECT_EQ(wait_for_stream(stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(send(process_memory_, kCopyRows,
                   {stream_, address, kBlock / 2, address, kBlock, kBlock / 2, 2}));
  EXPECT_EQ(wait_for_stream(stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(send(process_memory_, kCopyRows, {stream_, address, 0, address, 0, 64, 2}));
  EXPECT_EQ(wait_for_stream(stream_), CUDA_ERROR_INVALID_VALUE) << "a pitch of 0 may mean any";
  EXPECT_TRUE(send(process_memory_, kFill, {stream_, address, 0, 1, 1, 64, uint64_t{1} << 32}));
  EXPECT_EQ(wait_for_stream(stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(send(chunk_copies_, kCopyOut, {stream_, address, 0, kBlock}));  // more than a chunk
  EXPECT_EQ(pages_.chunks[0].result.load(), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ProcessMemoryTest, WhatIsCopiedInAndWithinTheDeviceComesOut) {
  const uint64_t from = allocate(kBlock), to = allocate(kBlock);
  EXPECT_TRUE(send(process_memory_, kCopyInline, {stream_, from}, "inline"));
  EXPECT_TRUE(send(process_memory_, kCopyRows, {stream_, to, 0, from, 0, 6, 1}));
  EXPECT_TRUE(send(chunk_copies_, kCopyOut, {stream_, to, 1, 6}));
  EXPECT_TRUE(poll_until([&] { return pages_.chunks[1].done.load() == 1; }));
  EXPECT_EQ(pages_.chunks[1].result.load(), CUDA_SUCCESS);
  EXPECT_EQ(std::string(pages_.chunk_bytes[1], 6), "inline");
}

TEST_F(ProcessMemoryTest, MemoryThatIsWithdrawnCountsAndCannotBeNamed) {
  const uint64_t address = allocate(kBlock);
  process_memory_.withdraw_all_of(context_);
  EXPECT_FALSE(ranges_.contains(address, 1));
  EXPECT_EQ(memory_.used(), Bytes(kBlock));
  process_memory_.free_all_of(context_);
  EXPECT_EQ(memory_.used(), Bytes(0));
}

TEST_F(ProcessMemoryTest, TheMemoryOfAContextGoesWithItAndNoOther) {
  allocate(kBlock);
  EXPECT_TRUE(ask(streams_, kCreateContext, {}));
  const uint64_t other = value(0);
  EXPECT_TRUE(ask(process_memory_, kAllocate, {other, 2 * kBlock}));
  ASSERT_EQ(result(), CUDA_SUCCESS);
  process_memory_.free_all_of(context_);
  EXPECT_EQ(memory_.used(), Bytes(2 * kBlock));
  EXPECT_EQ(ranges_.all().size(), 1U);
}

// How much of the device is taken; what else takes it stands still.
TEST_F(ProcessMemoryTest, WhatWasFreeForAWhileGoesBackToTheDevice) {
  const auto taken = [&] {
    size_t free = 0, total = 0;
    EXPECT_EQ(driver_->mem_get_info(&free, &total), CUDA_SUCCESS);
    return total - free;
  };
  const size_t before = taken();
  Instant now{};
  for (int round = 0; round < 2; ++round) {
    const uint64_t address = allocate(kLimit.count);
    EXPECT_GE(taken(), before + kLimit.count);
    pool_.recycle(now += seconds(1));
    EXPECT_TRUE(ask(process_memory_, kFree, {address}));
    EXPECT_EQ(wait_for_answer(), CUDA_SUCCESS);
    pool_.recycle(now);
    pool_.recycle(now += ClientPool::kHold - milliseconds(1));
    EXPECT_GE(taken(), before + kLimit.count) << "the next request finds it";
    EXPECT_TRUE(poll_until([&] {  // the device comes to the free when it does
      pool_.freed();
      pool_.recycle(now);
      pool_.recycle(now += ClientPool::kHold);
      return taken() <= before;
    }));
  }
}

TEST_F(ProcessMemoryTest, WhatIsFreeIsWhatTheLimitLeaves) {
  allocate(kBlock);
  EXPECT_TRUE(ask(process_memory_, kMemoryInfo, {}));
  EXPECT_EQ(value(0), kLimit.count - kBlock);
  EXPECT_EQ(value(1), kLimit.count);
}

}  // namespace
}  // namespace lambent::forward_server
