// What the tests of channels share: values whose bytes are known, channels in a folder of their
// own, and children that are one of the ends.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "gpu/stage_channel/datatypes.h"
#include "gpu/stage_channel/receiver.h"
#include "gpu/stage_channel/sender.h"

namespace lambent::stage_channel {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr int64_t kLong = 60'000;

// Byte `at` of the value of this job.
inline char byte_of(uint64_t job, uint64_t at) {
  return static_cast<char>((at * 2654435761U >> 13) + job * 31);
}

inline std::vector<char> value_of(uint64_t job, uint64_t bytes) {
  std::vector<char> value(bytes);
  for (uint64_t at = 0; at < bytes; ++at) value[at] = byte_of(job, at);
  return value;
}

inline Outgoing tensor(const std::vector<char>& bytes, uint32_t request = 0) {
  Outgoing outgoing;
  outgoing.entry.request = request;
  outgoing.entry.kind = static_cast<uint32_t>(Kind::kTensor);
  outgoing.entry.datatype = static_cast<uint32_t>(Datatype::kUint8);
  outgoing.entry.dimension_count = 1;
  outgoing.entry.dimensions[0] = bytes.size();
  outgoing.entry.bytes = bytes.size();
  outgoing.address = reinterpret_cast<uint64_t>(bytes.data());
  return outgoing;
}

// Sizes around every edge there is: pieces, blocks, alignment.
inline const std::vector<uint64_t> kSizes = {0,
                                             1,
                                             255,
                                             256,
                                             257,
                                             kPageBytes,
                                             kMiB / 2 - 1,
                                             kMiB / 2 + 1,
                                             kMiB,
                                             3 * kMiB + 17,
                                             kBlockBytes - 1,
                                             kBlockBytes,
                                             kBlockBytes + 1,
                                             9 * kMiB + 5};

// Runs in a child: 0 if `body` says true. It leaves without the tests' own clean-up.
inline pid_t in_child(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  return child;
}

inline int status_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

class ChannelTest : public testing::Test {
 protected:
  ChannelTest() {
    char folder[] = "/tmp/stage_channel_XXXXXX";
    folder_ = mkdtemp(folder);
  }
  ~ChannelTest() override { std::filesystem::remove_all(folder_); }

  std::string make(uint32_t slots, uint64_t slot_bytes) {
    const std::string path = folder_ + "/" + std::to_string(made_++);
    ErrorText error;
    EXPECT_EQ(create_channel(path.c_str(), slots, slot_bytes, 0600, error), Status::kDone)
        << error.text;
    return path;
  }
  static Status send(Sender& sender, uint64_t job, const std::vector<char>& value,
                     int64_t timeout_ms = kLong) {
    const Outgoing outgoing = tensor(value);
    return sender.send(job, 1, &outgoing, 1, 0, timeout_ms);
  }
  // Receives a job of one tensor, and whether it is byte by byte what value_of says.
  static bool receives(Receiver& receiver, uint64_t job) {
    if (receiver.receive(kLong) != Status::kDone || receiver.arrival().job != job) return false;
    std::vector<char> value(receiver.arrival().entry[0].bytes);
    const auto address = reinterpret_cast<uint64_t>(value.data());
    if (receiver.take(0, address, false, 0, kLong) != Status::kDone) return false;
    return receiver.release() == Status::kDone && value == value_of(job, value.size());
  }

  std::string folder_;
  int made_ = 0;
};

}  // namespace lambent::stage_channel
