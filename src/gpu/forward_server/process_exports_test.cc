#include "gpu/forward_server/process_exports.h"

#include <gtest/gtest.h>

#include "gpu/forward_server/testing/parts_testing.h"

namespace lambent::forward_server {
namespace {

constexpr uint64_t kBlock = 1 << 20;

// A second process of another client opens what the first hands out.
class ProcessExportsTest : public PartsTest {
 protected:
  struct Opened {
    CUresult result = CUDA_SUCCESS;
    uint64_t address = 0, bytes = 0;
  };
  MemoryHandle hand_out(uint64_t address, MemoryHandle name = {}) {
    EXPECT_TRUE(ask(exports_, kExportMemory, {address, name.high, name.low}));
    EXPECT_EQ(result(), CUDA_SUCCESS);
    return {value(0), value(1)};
  }
  CUresult refused(uint64_t address, MemoryHandle name = {}) {
    EXPECT_TRUE(ask(exports_, kExportMemory, {address, name.high, name.low}));
    return result();
  }
  Opened open(MemoryHandle handle) {
    EXPECT_TRUE(ask(other_exports_, kOpenMemory, {context_, handle.high, handle.low}));
    return {result(), value(0), value(1)};
  }
  void close(uint64_t address) {
    other_ranges_.erase(address);
    EXPECT_TRUE(other_exports_.release(address));
  }
  void free(uint64_t address) {
    EXPECT_TRUE(ask(process_memory_, kFree, {address}));
    EXPECT_EQ(wait_for_answer(), CUDA_SUCCESS);
  }

  AddressRanges other_ranges_;
  std::shared_ptr<ClientMemory> other_memory_ = std::make_shared<ClientMemory>(kLimit, OwnedFd());
  ProcessExports other_exports_{
      memory_handles_, {8, other_memory_, nullptr}, other_ranges_, streams_, answers_};
};

TEST_F(ProcessExportsTest, WhatIsHandedOnIsOpenedAtItsAddressAndIsTheMemoryItself) {
  const uint64_t address = allocate(kBlock);
  EXPECT_TRUE(send(process_memory_, kFill, {stream_, address, 0, 'a', 1, kBlock, uint64_t{1}}));
  EXPECT_EQ(wait_for_stream(stream_), CUDA_SUCCESS);
  const Opened opened = open(hand_out(address));
  EXPECT_EQ(opened.result, CUDA_SUCCESS);
  EXPECT_EQ(opened.address, address);
  EXPECT_EQ(opened.bytes, kBlock);
  EXPECT_TRUE(other_ranges_.contains(address, kBlock));
  EXPECT_EQ(first_byte(address), 'a');
  close(address);
}

TEST_F(ProcessExportsTest, MemoryStaysUntilItsLastHolderIsDoneWithIt) {
  const uint64_t address = allocate(kBlock);
  EXPECT_EQ(open(hand_out(address)).result, CUDA_SUCCESS);
  free(address);
  EXPECT_EQ(memory_.used(), Bytes(kBlock));  // its maker pays
  EXPECT_EQ(other_memory_->used(), Bytes(0));
  EXPECT_FALSE(ranges_.contains(address, 1));
  close(address);
  EXPECT_EQ(memory_.used(), Bytes(0));
}

TEST_F(ProcessExportsTest, MemoryThatItsMakerFreedWaitsForAsManyOpeningsAsItWasHandedOut) {
  const uint64_t address = allocate(kBlock);
  const MemoryHandle handle = hand_out(address);
  EXPECT_EQ(hand_out(address), handle);
  free(address);
  for (int reader = 0; reader < 2; ++reader) {
    EXPECT_EQ(open(handle).result, CUDA_SUCCESS) << reader;
    close(address);
  }
  EXPECT_EQ(memory_.used(), Bytes(0));
  EXPECT_EQ(open(handle).result, CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ProcessExportsTest, WhatNobodyOpensIsGivenUpAfterItsHold) {
  const uint64_t address = allocate(kBlock);
  const MemoryHandle handle = hand_out(address);
  free(address);
  clock_.advance(kHold - milliseconds(1));
  memory_handles_.expire();
  EXPECT_EQ(memory_.used(), Bytes(kBlock));
  clock_.advance(milliseconds(1));
  memory_handles_.expire();
  EXPECT_EQ(memory_.used(), Bytes(0));
  EXPECT_EQ(open(handle).result, CUDA_ERROR_INVALID_HANDLE);
  memory_handles_.expire();
  EXPECT_EQ(memory_handles_.size(), 0U);
}

TEST_F(ProcessExportsTest, WhatNobodyOpenedGoesWithItsClient) {
  const uint64_t address = allocate(kBlock);
  const MemoryHandle handle = hand_out(address);
  free(address);
  memory_handles_.forget_client(8);  // another
  EXPECT_EQ(memory_.used(), Bytes(kBlock));
  memory_handles_.forget_client(7);
  EXPECT_EQ(memory_.used(), Bytes(0));
  EXPECT_EQ(open(handle).result, CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ProcessExportsTest, OnlyWhatTheProcessHasCanBeHandedOn) {
  const uint64_t address = allocate(kBlock);
  EXPECT_EQ(refused(address + 512), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(refused(0), CUDA_ERROR_INVALID_VALUE);
  free(address);
  EXPECT_EQ(refused(address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(open({1, 2}).result, CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(open({}).result, CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ProcessExportsTest, ANameIsOfOneMemoryWhileAnybodyHasIt) {
  const MemoryHandle name = {1, 2};
  const uint64_t weights = allocate(kBlock), others = allocate(kBlock);
  EXPECT_EQ(open(name).result, CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(hand_out(weights, name), name);
  EXPECT_EQ(hand_out(weights, name), name);
  EXPECT_EQ(refused(others, name), CUDA_ERROR_ALREADY_MAPPED);
  EXPECT_EQ(refused(weights, {3, 4}), CUDA_ERROR_ALREADY_MAPPED);
  EXPECT_EQ(open(name).address, weights);
  free(weights);
  EXPECT_EQ(memory_.used(), Bytes(2 * kBlock));
  close(weights);
  EXPECT_EQ(memory_.used(), Bytes(kBlock));
  EXPECT_EQ(hand_out(others, name), name);
}

TEST_F(ProcessExportsTest, AProcessCannotOpenWhatItHasAndTheOpeningIsStillToCome) {
  const uint64_t address = allocate(kBlock);
  const MemoryHandle handle = hand_out(address);
  EXPECT_TRUE(ask(exports_, kOpenMemory, {context_, handle.high, handle.low}));
  EXPECT_EQ(result(), CUDA_ERROR_ALREADY_MAPPED);
  free(address);
  EXPECT_TRUE(ask(exports_, kOpenMemory, {context_, handle.high, handle.low}));
  EXPECT_EQ(result(), CUDA_SUCCESS);
  free(address);
  EXPECT_EQ(memory_.used(), Bytes(0));
}

// A free that waits for a stream ends the hold that the process had, not one that it has since.
TEST_F(ProcessExportsTest, WhatIsOpenedWhileItsFreeWaitsIsKept) {
  const uint64_t address = allocate(kBlock);
  const MemoryHandle handle = hand_out(address);
  const size_t gate = hold(create_stream());
  EXPECT_TRUE(ask(process_memory_, kFree, {address}));
  Call opening = call_of(kOpenMemory, {context_, handle.high, handle.low});
  opening.slot = 1;
  EXPECT_TRUE(answers_.expect(opening));
  EXPECT_TRUE(exports_.handle(opening));
  EXPECT_EQ(pages_.slots[1].result, CUDA_SUCCESS);
  PartsTest::open(gate);
  EXPECT_EQ(wait_for_answer(), CUDA_SUCCESS);
  EXPECT_EQ(memory_.used(), Bytes(kBlock));
  EXPECT_TRUE(ranges_.contains(address, kBlock));
}

TEST_F(ProcessExportsTest, AClientExportsNoMoreThanItMay) {
  memory_.quotas.exports.take(4096);
  EXPECT_EQ(refused(allocate(kBlock)), CUDA_ERROR_OUT_OF_MEMORY);
  memory_.quotas.exports.give_back(4096);
}

TEST_F(ProcessExportsTest, TheEndOfAContextEndsItsHolds) {
  const uint64_t address = allocate(kBlock);
  EXPECT_EQ(open(hand_out(address)).result, CUDA_SUCCESS);
  process_memory_.free_all_of(context_);
  EXPECT_EQ(memory_.used(), Bytes(kBlock));
  EXPECT_TRUE(ranges_.all().empty());
  close(address);
  EXPECT_EQ(memory_.used(), Bytes(0));
}

}  // namespace
}  // namespace lambent::forward_server
