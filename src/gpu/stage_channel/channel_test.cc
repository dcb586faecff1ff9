// Both ends of a channel: what goes in comes out, and no end waits for one that has gone.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gpu/stage_channel/testing/testing.h"

namespace lambent::stage_channel {
namespace {

Outgoing text(Kind kind, const std::string& words, uint32_t request) {
  Outgoing outgoing;
  outgoing.entry.request = request;
  outgoing.entry.kind = static_cast<uint32_t>(kind);
  outgoing.entry.bytes = words.size();
  outgoing.address = reinterpret_cast<uint64_t>(words.data());
  return outgoing;
}

TEST_F(ChannelTest, ValuesOfManySizesComeOutAsTheyWentInBetweenProcesses) {
  const std::string path = make(2, 16 * kMiB);
  const pid_t child = in_child([&] {
    Sender sender;
    if (sender.open(path.c_str()) != Status::kDone) return false;
    for (uint64_t job = 0; job < 3 * kSizes.size(); ++job) {
      const auto value = value_of(job, kSizes[job % kSizes.size()]);
      if (send(sender, job, value) != Status::kDone) return false;
    }
    return true;
  });
  Receiver receiver;
  ASSERT_EQ(receiver.open(path.c_str()), Status::kDone) << receiver.error();
  for (uint64_t job = 0; job < 3 * kSizes.size(); ++job) {
    ASSERT_TRUE(receives(receiver, job)) << "job " << job << ": " << receiver.error();
    ASSERT_EQ(receiver.arrival().entry[0].bytes, kSizes[job % kSizes.size()]);
  }
  EXPECT_EQ(status_of(child), 0);
}

TEST_F(ChannelTest, AJobCarriesTheValuesOfItsRequestsAndTheErrorsOfThoseThatFailed) {
  const std::string path = make(2, kMiB);
  Sender sender;
  Receiver receiver;
  ASSERT_EQ(sender.open(path.c_str()), Status::kDone);
  ASSERT_EQ(receiver.open(path.c_str()), Status::kDone);
  const auto first = value_of(1, 1000), second = value_of(2, 300);
  const std::string json = R"({"boxes": 2})", failed = R"({"errorType": "ValueError"})";
  const Outgoing outgoing[] = {text(Kind::kJson, json, 0), tensor(first, 0), tensor(second, 0),
                               text(Kind::kError, failed, 2)};
  ASSERT_EQ(sender.send(7, 3, outgoing, 4, 0, kLong), Status::kDone) << sender.error();
  ASSERT_EQ(receiver.receive(kLong), Status::kDone) << receiver.error();
  const Arrival& arrival = receiver.arrival();
  EXPECT_EQ(arrival.job, 7U);
  EXPECT_EQ(arrival.requests, 3U);
  ASSERT_EQ(arrival.entries, 4U);
  EXPECT_EQ(arrival.entry[3].request, 2U);
  EXPECT_EQ(arrival.entry[3].kind, static_cast<uint32_t>(Kind::kError));
  // In any order.
  for (const uint32_t entry : {3U, 1U, 0U, 2U}) {
    std::string bytes(arrival.entry[entry].bytes, '?');
    const auto address = reinterpret_cast<uint64_t>(bytes.data());
    ASSERT_EQ(receiver.take(entry, address, false, 0, kLong), Status::kDone);
    const char* from = reinterpret_cast<const char*>(outgoing[entry].address);
    EXPECT_EQ(bytes, std::string(from, bytes.size()));
  }
  EXPECT_EQ(receiver.take(4, 0, false, 0, 0), Status::kInvalid);
  EXPECT_EQ(receiver.release(), Status::kDone);
  EXPECT_EQ(receiver.release(), Status::kInvalid);
}

TEST_F(ChannelTest, ASenderWaitsForAFreeSlotAndAReceiverForAValue) {
  const std::string path = make(3, kMiB);
  Sender sender;
  Receiver receiver;
  ASSERT_EQ(sender.open(path.c_str()), Status::kDone);
  EXPECT_EQ(receiver.open(path.c_str()), Status::kDone);
  EXPECT_EQ(receiver.receive(0), Status::kTimedOut);
  for (uint64_t job = 0; job < 3; ++job) {
    ASSERT_EQ(send(sender, job, value_of(job, 100), 0), Status::kDone);
  }
  EXPECT_EQ(send(sender, 3, value_of(3, 100), 0), Status::kTimedOut);
  EXPECT_TRUE(receives(receiver, 0));
  EXPECT_EQ(send(sender, 4, value_of(4, 100), 0), Status::kDone);
  for (const uint64_t job : {1U, 2U, 4U}) EXPECT_TRUE(receives(receiver, job));
}

TEST_F(ChannelTest, AValueLargerThanASlotIsRefusedAndTheNextIsNot) {
  const std::string path = make(1, 1000);
  Sender sender;
  Receiver receiver;
  ASSERT_EQ(sender.open(path.c_str()), Status::kDone);
  ASSERT_EQ(receiver.open(path.c_str()), Status::kDone);
  EXPECT_EQ(send(sender, 0, value_of(0, 1001)), Status::kTooLarge);
  EXPECT_THAT(sender.error(), testing::HasSubstr("slot of 1000 bytes"));
  EXPECT_EQ(send(sender, 1, value_of(1, 1000)), Status::kDone);
  EXPECT_TRUE(receives(receiver, 1));
}

TEST_F(ChannelTest, WhatTheReceiverCouldNotReadIsNotSent) {
  const std::string path = make(1, kMiB);
  Sender sender;
  ASSERT_EQ(sender.open(path.c_str()), Status::kDone);
  const auto value = value_of(0, 8);
  Outgoing outgoing = tensor(value);
  outgoing.entry.datatype = 99;
  EXPECT_EQ(sender.send(0, 1, &outgoing, 1, 0, 0), Status::kInvalid);
  outgoing = tensor(value);
  outgoing.entry.dimensions[0] = 9;
  EXPECT_EQ(sender.send(0, 1, &outgoing, 1, 0, 0), Status::kInvalid);
  outgoing = tensor(value, 1);
  EXPECT_EQ(sender.send(0, 1, &outgoing, 1, 0, 0), Status::kInvalid);
  const std::vector<Outgoing> many(kMostEntries + 1, tensor(value));
  EXPECT_EQ(sender.send(0, 1, many.data(), kMostEntries + 1, 0, 0), Status::kInvalid);
  EXPECT_EQ(sender.send(0, 1, many.data(), kMostEntries, 0, 0), Status::kDone) << sender.error();
}

TEST_F(ChannelTest, ALargeSlotCostsNoMemoryUntilItIsUsed) {
  const std::string path = make(16, 1024 * kMiB);
  struct stat status = {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, 64 << 10);
  Sender sender;
  ASSERT_EQ(sender.open(path.c_str()), Status::kDone);
  ASSERT_EQ(send(sender, 0, value_of(0, 1000)), Status::kDone);
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_LT(status.st_blocks * 512, 256 << 10);
}

TEST_F(ChannelTest, ThereIsOneSenderAndNoOtherEvenOnceItHasGone) {
  const std::string path = make(1, kMiB);
  {
    Sender sender, second;
    ASSERT_EQ(sender.open(path.c_str()), Status::kDone);
    EXPECT_EQ(second.open(path.c_str()), Status::kInvalid);
    EXPECT_THAT(second.error(), testing::HasSubstr("has a sender already"));
    // The one that was refused did not end it for the first.
    EXPECT_EQ(send(sender, 0, value_of(0, 10)), Status::kDone);
  }
  Sender third;
  EXPECT_EQ(third.open(path.c_str()), Status::kInvalid);
  EXPECT_THAT(third.error(), testing::HasSubstr("which is gone"));
  Receiver receiver;
  ASSERT_EQ(receiver.open(path.c_str()), Status::kDone);
  EXPECT_TRUE(receives(receiver, 0));
  EXPECT_EQ(receiver.receive(kLong), Status::kPeerGone);
}

TEST_F(ChannelTest, WhatIsNoChannelIsNotOpened) {
  Sender sender;
  EXPECT_EQ(sender.open((folder_ + "/nothing").c_str()), Status::kSystem);
  EXPECT_EQ(sender.open(folder_.c_str()), Status::kSystem);
  const std::string path = make(2, kMiB);
  ErrorText error;
  EXPECT_EQ(create_channel(path.c_str(), 2, kMiB, 0600, error), Status::kSystem);
  EXPECT_EQ(create_channel((folder_ + "/x").c_str(), 0, kMiB, 0600, error), Status::kInvalid);
  EXPECT_EQ(create_channel((folder_ + "/x").c_str(), 2, 0, 0600, error), Status::kInvalid);
  ASSERT_EQ(truncate(path.c_str(), 2 * kMiB), 0);
  Receiver receiver;
  EXPECT_EQ(receiver.open(path.c_str()), Status::kMalformed);
  EXPECT_THAT(receiver.error(), testing::HasSubstr("another size"));
}

TEST_F(ChannelTest, WhoWaitsFindsThatTheChannelHasEnded) {
  const std::string path = make(1, kMiB);
  Sender sender;
  Receiver receiver;
  ASSERT_EQ(sender.open(path.c_str()), Status::kDone);
  ASSERT_EQ(receiver.open(path.c_str()), Status::kDone);
  std::thread waits([&] { EXPECT_EQ(receiver.receive(-1), Status::kEnded); });
  ErrorText error;
  EXPECT_EQ(end_channel(path.c_str(), error), Status::kDone);
  waits.join();
  EXPECT_EQ(send(sender, 0, value_of(0, 10)), Status::kEnded);
  EXPECT_EQ(end_channel((folder_ + "/nothing").c_str(), error), Status::kSystem);
}

TEST_F(ChannelTest, ASenderThatDiesAnywhereLeavesNoReceiverWaiting) {
  for (uint32_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const std::string path = make(1 + random() % 3, 16 * kMiB);
    const uint64_t last = random() % 6;
    const bool dies_by_itself = random() % 2 == 0;
    const pid_t child = in_child([&] {
      Sender sender;
      if (sender.open(path.c_str()) != Status::kDone) return false;
      for (uint64_t job = 0;; ++job) {
        if (dies_by_itself && job == last) raise(SIGKILL);
        if (send(sender, job, value_of(job, kSizes[job % kSizes.size()])) != Status::kDone) {
          return false;
        }
      }
    });
    Receiver receiver;
    ASSERT_EQ(receiver.open(path.c_str()), Status::kDone);
    Status status = Status::kDone;
    uint64_t job = 0;
    for (; status == Status::kDone; ++job) {
      status = receiver.receive(-1);
      if (status != Status::kDone) break;
      // Killed where a value is there, in part or not at all.
      if (!dies_by_itself && job == last) kill(child, SIGKILL);
      std::vector<char> value(receiver.arrival().entry[0].bytes);
      status = receiver.take(0, reinterpret_cast<uint64_t>(value.data()), false, 0, -1);
      if (status == Status::kDone) {
        EXPECT_EQ(value, value_of(job, value.size()));
      }
      receiver.release();
    }
    EXPECT_EQ(status, Status::kPeerGone) << receiver.error();
    EXPECT_GE(job, last);
    EXPECT_TRUE(WIFSIGNALED(status_of(child)));
  }
}

TEST_F(ChannelTest, AReceiverThatDiesAnywhereLeavesNoSenderWaiting) {
  for (uint32_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const std::string path = make(1 + random() % 3, 16 * kMiB);
    const uint64_t last = random() % 6;
    const bool after_taking = random() % 2 == 0;
    const pid_t child = in_child([&] {
      Receiver receiver;
      if (receiver.open(path.c_str()) != Status::kDone) return false;
      for (uint64_t job = 0;; ++job) {
        if (receiver.receive(kLong) != Status::kDone) return false;
        if (job == last && !after_taking) raise(SIGKILL);
        std::vector<char> value(receiver.arrival().entry[0].bytes);
        receiver.take(0, reinterpret_cast<uint64_t>(value.data()), false, 0, kLong);
        if (job == last) raise(SIGKILL);
        receiver.release();
      }
    });
    Sender sender;
    ASSERT_EQ(sender.open(path.c_str()), Status::kDone);
    Status status = Status::kDone;
    uint64_t job = 0;
    for (; status == Status::kDone; ++job) {
      status = send(sender, job, value_of(job, kSizes[job % kSizes.size()]), -1);
    }
    EXPECT_EQ(status, Status::kPeerGone);
    EXPECT_GT(job, last);
    EXPECT_TRUE(WIFSIGNALED(status_of(child)));
  }
}

TEST_F(ChannelTest, AValueThatCannotBeCopiedFailsAtBothEndsAndTheNextDoesNot) {
  const std::string path = make(2, kMiB);
  Sender sender;
  Receiver receiver;
  ASSERT_EQ(sender.open(path.c_str()), Status::kDone);
  ASSERT_EQ(receiver.open(path.c_str()), Status::kDone);
  const auto value = value_of(0, 1000);
  Outgoing outgoing = tensor(value);
  outgoing.on_device = true;  // this thread has no context
  EXPECT_EQ(sender.send(0, 1, &outgoing, 1, 0, kLong), Status::kDevice);
  EXPECT_EQ(send(sender, 1, value_of(1, 1000)), Status::kDone);
  ASSERT_EQ(receiver.receive(kLong), Status::kDone);
  std::vector<char> taken(1000);
  const auto address = reinterpret_cast<uint64_t>(taken.data());
  EXPECT_EQ(receiver.take(0, address, false, 0, kLong), Status::kFailed);
  EXPECT_THAT(receiver.error(), testing::HasSubstr(sender.error()));
  EXPECT_EQ(receiver.release(), Status::kDone);
  EXPECT_TRUE(receives(receiver, 1));
}

// Writes into a channel's file behind both ends' backs.
void scribble(const std::string& path, uint64_t offset, const std::vector<char>& bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)),
            static_cast<ssize_t>(bytes.size()));
  close(fd);
}

TEST_F(ChannelTest, MemoryThatMakesNoSenseIsAnErrorWhateverLiesInIt) {
  int malformed = 0;
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const std::string path = make(2, 64 << 10);
    Sender sender;
    Receiver receiver;
    ASSERT_EQ(sender.open(path.c_str()), Status::kDone);
    ASSERT_EQ(receiver.open(path.c_str()), Status::kDone);
    const auto value = value_of(0, 1000);
    const Outgoing outgoing[] = {tensor(value), tensor(value), tensor(value)};
    ASSERT_EQ(sender.send(0, 1, outgoing, 3, 0, 0), Status::kDone);
    const Geometry geometry{2, 64 << 10};
    std::vector<char> noise(1 + random() % 8);
    for (char& byte : noise) byte = static_cast<char>(random());
    const uint64_t at = random() % (offsetof(SlotHeader, entry) + 3 * sizeof(Entry));
    scribble(path, geometry.slot_header(0) + at, noise);
    const Status status = receiver.receive(0);
    if (status != Status::kDone) {
      EXPECT_EQ(status, Status::kMalformed);
      EXPECT_EQ(receiver.receive(0), Status::kMalformed);
      ++malformed;
      continue;
    }
    for (uint32_t i = 0; i < receiver.arrival().entries; ++i) {
      std::vector<char> taken(receiver.arrival().entry[i].bytes);
      receiver.take(i, reinterpret_cast<uint64_t>(taken.data()), false, 0, 0);
    }
    receiver.release();
  }
  EXPECT_GT(malformed, 10);
}

TEST_F(ChannelTest, CountsThatMakeNoSenseEndTheReceiverOnly) {
  const std::string path = make(2, kMiB);
  Sender sender;
  Receiver receiver;
  ASSERT_EQ(sender.open(path.c_str()), Status::kDone);
  ASSERT_EQ(receiver.open(path.c_str()), Status::kDone);
  scribble(path, offsetof(Header, sent), std::vector<char>(8, 0x55));
  EXPECT_EQ(receiver.receive(0), Status::kMalformed);
  scribble(path, offsetof(Header, received), std::vector<char>(8, 0x55));
  EXPECT_EQ(send(sender, 0, value_of(0, 10), 0), Status::kTimedOut);
}

}  // namespace
}  // namespace lambent::stage_channel
