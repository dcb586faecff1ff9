// Processes of a real executor that hand device memory to each other, and copy beside each other:
// also those that hand on what is not theirs, that die meanwhile, and that take all they can.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "forwarded/forwarded_testing.h"
#include "gpu/executor/testing/testing.h"

namespace lambent::forwarded_testing {
namespace {

using enum CallCode;

class HandingTest : public ForwardedTest {
 protected:
  struct Handle {
    uint64_t high = 0, low = 0;
  };
  void SetUp() override {
    ForwardedTest::SetUp();
    maker_ledger_.emplace(host_.add_client(1, kMemory));
    host_.add_client(2, kMemory);
  }
  static Handle hand_out(RawClient& process, uint64_t address) {
    EXPECT_EQ(process.ask(kExportMemory, {address, 0, 0}), CUDA_SUCCESS);
    return {process.value(0), process.value(1)};
  }
  static CUresult open(RawClient& process, Handle handle) {
    return process.ask(kOpenMemory, {process.context, handle.high, handle.low});
  }
  static void fill(RawClient& process, uint64_t address, char content) {
    process.send(kFill, {process.stream, address, 0, static_cast<uint64_t>(content), 1, kBlock, 1});
    EXPECT_EQ(process.ask(kSynchronizeStream, {process.stream}), CUDA_SUCCESS);
  }
  static char read(RawClient& process, uint64_t address) {
    EXPECT_EQ(process.copy(kCopyOut, process.stream, address, 4096), CUDA_SUCCESS);
    return process.pages().chunk_bytes[0][4095];
  }
  Bytes held_by_maker() {
    const auto readings = maker_ledger_->read();
    return readings.ok() ? readings->used : Bytes(UINT64_MAX);
  }
  bool comes_to_hold(Bytes bytes) {
    for (int tries = 0; tries < 1000; ++tries) {
      if (held_by_maker() == bytes) return true;
      usleep(10'000);  // the end of a process is another process's work
    }
    return false;
  }

  std::optional<ledger::LedgerReader> maker_ledger_;
};

TEST_F(HandingTest, AProcessOfAnotherFunctionReadsWhatWasPutAtTheSameAddress) {
  const auto maker = connect(1), reader = connect(2);
  const uint64_t address = allocate(*maker, kBlock);
  fill(*maker, address, 'a');
  const Handle handle = hand_out(*maker, address);
  EXPECT_EQ(maker->ask(kFree, {address}), CUDA_SUCCESS);
  EXPECT_EQ(maker->copy(kCopyOut, maker->stream, address, 16), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(open(*reader, handle), CUDA_SUCCESS);
  EXPECT_EQ(reader->value(0), address);
  EXPECT_EQ(reader->value(1), kBlock);
  EXPECT_EQ(read(*reader, address), 'a');
  EXPECT_EQ(held_by_maker(), Bytes(kBlock));
  EXPECT_EQ(reader->ask(kFree, {address}), CUDA_SUCCESS);
  EXPECT_EQ(held_by_maker(), Bytes(0));
  EXPECT_EQ(reader->ask(kFree, {address}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(open(*reader, handle), CUDA_ERROR_INVALID_HANDLE);
  // The next one to have that memory finds zeros.
  const uint64_t next = allocate(*maker, kBlock);
  EXPECT_EQ(read(*maker, next), 0);
}

TEST_F(HandingTest, WhatIsNotTheirsTheyCanNeitherHandOnNorOpenNorFree) {
  const auto maker = connect(1), other = connect(2);
  const uint64_t address = allocate(*maker, kBlock);
  fill(*maker, address, 'a');
  EXPECT_EQ(other->ask(kExportMemory, {address, 0, 0}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(other->ask(kExportMemory, {0, 0, 0}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(maker->ask(kExportMemory, {address + 1, 0, 0}), CUDA_ERROR_INVALID_VALUE);
  for (const Handle forged : {Handle{0, 0}, {1, 1}, {UINT64_MAX, UINT64_MAX}}) {
    EXPECT_EQ(open(*other, forged), CUDA_ERROR_INVALID_HANDLE);
  }
  const Handle handle = hand_out(*maker, address);
  EXPECT_EQ(other->ask(kOpenMemory, {other->context + 1, handle.high, handle.low}),
            CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(other->ask(kFree, {address}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(open(*other, handle), CUDA_SUCCESS);
  EXPECT_EQ(open(*other, handle), CUDA_ERROR_ALREADY_MAPPED);
  EXPECT_EQ(read(*maker, address), 'a');
}

TEST_F(HandingTest, AReaderThatDiesGivesItsHoldBackAndTheOthersKeepTheirs) {
  const auto maker = connect(1), reader = connect(2);
  const uint64_t address = allocate(*maker, kBlock);
  fill(*maker, address, 'a');
  const Handle handle = hand_out(*maker, address);
  const auto dies = connect(2);
  ASSERT_EQ(open(*dies, handle), CUDA_SUCCESS);
  ASSERT_EQ(open(*reader, handle), CUDA_SUCCESS);
  EXPECT_EQ(maker->ask(kFree, {address}), CUDA_SUCCESS);
  dies->hang_up();
  EXPECT_EQ(read(*reader, address), 'a');
  reader->hang_up();
  EXPECT_TRUE(comes_to_hold(Bytes(0)));
}

TEST_F(HandingTest, WhatAMakerThatDiedPutIsThereForItsReaderAndGoesWithItsSandbox) {
  const auto reader = connect(2);
  Handle taken, left;
  {
    const auto maker = connect(1);
    const uint64_t first = allocate(*maker, kBlock), second = allocate(*maker, kBlock);
    fill(*maker, first, 'a');
    taken = hand_out(*maker, first);
    left = hand_out(*maker, second);
    allocate(*maker, kBlock);  // this one was not put
    maker->hang_up();
  }
  EXPECT_TRUE(comes_to_hold(Bytes(2 * kBlock)));
  ASSERT_EQ(open(*reader, taken), CUDA_SUCCESS);
  const uint64_t address = reader->value(0);
  host_.remove_client(1);
  EXPECT_TRUE(comes_to_hold(Bytes(kBlock)));
  EXPECT_EQ(open(*reader, left), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(read(*reader, address), 'a');
  EXPECT_EQ(reader->ask(kFree, {address}), CUDA_SUCCESS);
  EXPECT_TRUE(comes_to_hold(Bytes(0)));
}

TEST_F(HandingTest, OneThatPutsAllItMayIsRefusedMoreUntilItIsRead) {
  const auto maker = connect(1), reader = connect(2);
  std::vector<Handle> handles;
  for (uint64_t taken = 0; taken < kMemory.count; taken += kBlock) {
    const uint64_t address = allocate(*maker, kBlock);
    handles.push_back(hand_out(*maker, address));
    EXPECT_EQ(maker->ask(kFree, {address}), CUDA_SUCCESS);
  }
  EXPECT_EQ(maker->ask(kAllocate, {maker->context, kBlock}), CUDA_ERROR_OUT_OF_MEMORY);
  // Its neighbour has all of its own memory.
  const uint64_t all = allocate(*reader, kMemory.count);
  EXPECT_EQ(reader->ask(kFree, {all}), CUDA_SUCCESS);
  ASSERT_EQ(open(*reader, handles[7]), CUDA_SUCCESS);
  EXPECT_EQ(reader->ask(kFree, {reader->value(0)}), CUDA_SUCCESS);
  allocate(*maker, kBlock);
}

// What the device itself has, as another process on it sees.
class RecyclingTest : public executor::EmulatedDevice {
 protected:
  Bytes free_memory() const {
    size_t free = 0, total = 0;
    EXPECT_EQ((*driver_)->mem_get_info(&free, &total), CUDA_SUCCESS);
    return Bytes(free);
  }
  bool comes_to_have(Bytes free) const {
    for (int tries = 0; tries < 1000 && free_memory() < free; ++tries) usleep(10'000);
    return free_memory() >= free;
  }
};

TEST_F(RecyclingTest, WhatAProcessFreedIsTheDevicesAgainWhileTheProcessLives) {
  ForwardingHost host({{"EMULATED_CUDA_NODE", *folder_ / "node"}});
  ASSERT_TRUE(host.executor.expect<protocol::ExecutorHello>());
  host.add_client(1, kMemory);
  host.add_client(2, kMemory);
  RawClient process(host.socket_of(1)), reader(host.socket_of(2));
  ASSERT_TRUE(process.begin());
  ASSERT_TRUE(reader.begin());
  const Bytes before = free_memory();
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(process.ask(kAllocate, {process.context, 24 * kBlock}), CUDA_SUCCESS);
    const uint64_t address = process.value(0);
    EXPECT_LE(free_memory(), before - Bytes(24 * kBlock));
    // Also what was handed on, with its last holder.
    if (round == 2) {
      ASSERT_EQ(process.ask(kExportMemory, {address, 0, 0}), CUDA_SUCCESS);
      ASSERT_EQ(reader.ask(kOpenMemory, {reader.context, process.value(0), process.value(1)}),
                CUDA_SUCCESS);
    }
    ASSERT_EQ(process.ask(kFree, {address}), CUDA_SUCCESS);
    if (round == 2) {
      EXPECT_LE(free_memory(), before - Bytes(24 * kBlock));
      ASSERT_EQ(reader.ask(kFree, {address}), CUDA_SUCCESS);
    }
    EXPECT_TRUE(comes_to_have(before - Bytes(kBlock))) << round;
  }
}

// Each has as many copies on their way as it can, both ways, when its process goes.
TEST_F(HandingTest, ProcessesThatDieInTheMiddleOfTheirCopiesHoldUpNobody) {
  const auto neighbour = connect(2);
  const uint64_t mine = allocate(*neighbour, kBlock);
  for (int round = 0; round < 10; ++round) {
    std::vector<std::unique_ptr<RawClient>> dying;
    for (int i = 0; i < 4; ++i) {
      dying.push_back(connect(1));
      RawClient& process = *dying.back();
      const uint64_t address = allocate(process, 4 * kBlock);
      for (uint64_t chunk = 0; chunk < forward_ring::kChunks; ++chunk) {
        process.send((chunk + i) % 3 == 0 ? kCopyOut : kCopyIn,
                     {process.stream, address + chunk * forward_ring::kChunkBytes, chunk,
                      forward_ring::kChunkBytes});
      }
    }
    for (const auto& process : dying) process->hang_up();
    std::memset(neighbour->pages().chunk_bytes[0], round, forward_ring::kChunkBytes);
    EXPECT_EQ(neighbour->copy(kCopyIn, neighbour->stream, mine, forward_ring::kChunkBytes),
              CUDA_SUCCESS);
    EXPECT_EQ(read(*neighbour, mine), round);
  }
  EXPECT_TRUE(comes_to_hold(Bytes(0)));
}

// A stream that never comes to its copies does not keep the link from others.
TEST_F(HandingTest, CopiesBehindAHostFunctionThatDoesNotReturnTakeNoTurns) {
  std::vector<std::unique_ptr<RawClient>> stuck;
  for (int i = 0; i < 4; ++i) {
    stuck.push_back(connect(1));
    RawClient& process = *stuck.back();
    const uint64_t address = allocate(process, 4 * kBlock);
    process.send(kHostFunction, {process.stream, 1});
    for (uint64_t chunk = 0; chunk < forward_ring::kChunks; ++chunk) {
      process.send(kCopyIn, {process.stream, address, chunk, forward_ring::kChunkBytes});
    }
    ASSERT_EQ(process.ask(kQueryStream, {process.stream}), CUDA_ERROR_NOT_READY);
  }
  const auto neighbour = connect(2);
  const uint64_t mine = allocate(*neighbour, kBlock);
  for (char round = 1; round < 40; ++round) {
    std::memset(neighbour->pages().chunk_bytes[0], round, forward_ring::kChunkBytes);
    EXPECT_EQ(neighbour->copy(kCopyIn, neighbour->stream, mine, forward_ring::kChunkBytes),
              CUDA_SUCCESS);
    EXPECT_EQ(read(*neighbour, mine), round);
  }
  stuck.clear();
  EXPECT_TRUE(comes_to_hold(Bytes(0)));
}

}  // namespace
}  // namespace lambent::forwarded_testing
