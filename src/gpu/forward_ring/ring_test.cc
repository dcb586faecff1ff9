#include "gpu/forward_ring/ring.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "gpu/forward_ring/shared_memory.h"
#include "gpu/forward_ring/waiting.h"

namespace lambent::forward_ring {
namespace {

constexpr uint64_t kCalls = 100'000;

class RingTest : public testing::Test {
 protected:
  RingTest() : fd_(memory_.create()), writer_(memory_.pages()), data_(kMostInlineBytes) {}
  ~RingTest() override { close(fd_); }

  static Call call_of(CallCode code, uint16_t slot = kNoSlot) {
    Call call;
    call.code = static_cast<uint16_t>(code);
    call.slot = slot;
    return call;
  }
  // Numbered calls of many lengths, waiting for room as the client does.
  static void write_all(CallWriter& writer, Control& control) {
    std::vector<char> data(5000);
    for (uint64_t i = 0; i < kCalls; ++i) {
      const size_t bytes = i * 37 % data.size();
      Call call = call_of(CallCode::kCopyInline);
      call.arguments[0] = i;
      std::fill_n(data.begin(), bytes, static_cast<char>(i));
      wait_until(
          control.client_waits_for_room, nullptr, 1000, [&] { return writer.has_room(bytes); },
          [] { return true; });
      writer.write(call, data.data(), bytes / 2, data.data() + bytes / 2, bytes - bytes / 2);
    }
  }
  // Reads as many, asleep when there is nothing; false at the first that is not as written.
  bool read_all(CallReader& reader) {
    Call call;
    for (uint64_t i = 0; i < kCalls;) {
      const auto next = reader.next(call, data_.data());
      if (next == CallReader::Next::kMalformed) return false;
      if (next == CallReader::Next::kNothing) {
        wait_until(
            memory_.pages()->control.server_sleeps, nullptr, 1000,
            [&] { return !reader.is_empty(); }, [] { return true; });
        continue;
      }
      const size_t bytes = call.bytes - sizeof(Call);
      if (call.arguments[0] != i || bytes != i * 37 % 5000) return false;
      for (size_t at = 0; at < bytes; ++at) {
        if (data_[at] != static_cast<char>(i)) return false;
      }
      ++i;
    }
    return true;
  }

  SharedMemory memory_;
  int fd_;
  CallWriter writer_;
  std::vector<char> data_;
};

TEST_F(RingTest, CallsComeOutAsTheyWentInBetweenThreads) {
  std::thread client([this] { write_all(writer_, memory_.pages()->control); });
  CallReader reader(memory_.pages());
  EXPECT_TRUE(read_all(reader));
  client.join();
}

TEST_F(RingTest, CallsComeOutAsTheyWentInBetweenProcesses) {
  const pid_t child = fork();
  if (child == 0) {
    SharedMemory own;
    if (!own.map(fd_)) _exit(1);
    CallWriter writer(own.pages());
    write_all(writer, own.pages()->control);
    _exit(0);
  }
  CallReader reader(memory_.pages());
  EXPECT_TRUE(read_all(reader));
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(SharedMemoryTest, EachIsNewAndZeroWhateverOthersWrote) {
  for (int round = 0; round < 2; ++round) {
    SharedMemory memory;
    const int fd = memory.create();
    ASSERT_GE(fd, 0);
    auto* const bytes = reinterpret_cast<char*>(memory.pages());
    EXPECT_TRUE(std::all_of(bytes, bytes + sizeof(SharedPages), [](char c) { return c == 0; }));
    memset(static_cast<void*>(bytes), 0x5a, sizeof(SharedPages));
    close(fd);
  }
}

TEST_F(RingTest, AFullRingHasNoRoomUntilItIsRead) {
  size_t written = 0;
  while (writer_.has_room(1000)) {
    writer_.write(call_of(CallCode::kCopyInline), data_.data(), 1000);
    ++written;
  }
  EXPECT_EQ(written, kRingBytes / 1072);
  CallReader reader(memory_.pages());
  Call call;
  while (reader.next(call, data_.data()) == CallReader::Next::kCall) {
  }
  EXPECT_TRUE(writer_.has_room(1000));
}

TEST_F(RingTest, WhatTheClientSaysOfItsRingIsNotBelieved) {
  auto& control = memory_.pages()->control;
  Call call;
  for (const uint64_t said : {uint64_t{1}, uint64_t{63}, uint64_t{kRingBytes} + 1, UINT64_MAX}) {
    CallReader reader(memory_.pages());
    control.submitted = said;
    EXPECT_EQ(reader.next(call, data_.data()), CallReader::Next::kMalformed) << said;
  }
  // A call longer than the written bytes.
  control.submitted = 0;
  writer_ = CallWriter(memory_.pages());
  writer_.write(call_of(CallCode::kCopyInline), data_.data(), 500);
  control.submitted = 128;
  CallReader reader(memory_.pages());
  EXPECT_EQ(reader.next(call, data_.data()), CallReader::Next::kMalformed);
}

TEST_F(RingTest, OnlyWellFormedCallsComeOut) {
  const auto good = [](Call call, uint32_t data_bytes = 0) {
    call.bytes = sizeof(Call) + data_bytes;
    return is_well_formed(call);
  };
  EXPECT_TRUE(good(call_of(CallCode::kAllocate, 3)));
  EXPECT_FALSE(good(call_of(CallCode::kAllocate)));
  EXPECT_FALSE(good(call_of(CallCode::kAllocate, kAnswerSlots)));
  EXPECT_FALSE(good(call_of(CallCode::kAllocate, 3), 1));
  EXPECT_FALSE(good(call_of(CallCode::kLaunch, 3)));
  EXPECT_TRUE(good(call_of(CallCode::kLaunch), 100));
  EXPECT_FALSE(good(call_of(CallCode::kLaunch), kMostInlineBytes + 1));
  EXPECT_FALSE(good(call_of(static_cast<CallCode>(1000))));
  Call copy = call_of(CallCode::kCopyIn);
  copy.arguments[2] = kChunks;
  EXPECT_FALSE(good(copy));
  copy.arguments[2] = kChunks - 1;
  EXPECT_TRUE(good(copy));
  copy.bytes = 3;
  EXPECT_FALSE(is_well_formed(copy));
}

TEST_F(RingTest, TheMemoryCannotBeCut) {
  EXPECT_NE(ftruncate(fd_, 4096), 0);
  SharedMemory again;
  EXPECT_TRUE(again.map(fd_));
  EXPECT_FALSE(again.map(0));
}

}  // namespace
}  // namespace lambent::forward_ring
