// ForwardedTest: a test with a ForwardingHost, and what its processes do most. Included by tests;
// one thread.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "forwarded/forwarding_host.h"
#include "forwarded/raw_client.h"

namespace lambent::forwarded_testing {

constexpr Bytes kMemory = Bytes::mib(32);
constexpr uint64_t kBlock = 1 << 20;

// A process of the client, with a context.
inline std::unique_ptr<RawClient> connect(const ForwardingHost& host, uint64_t client) {
  auto process = std::make_unique<RawClient>(host.socket_of(client));
  EXPECT_TRUE(process->begin());
  return process;
}

inline uint64_t allocate(RawClient& process, uint64_t bytes) {
  EXPECT_EQ(process.ask(CallCode::kAllocate, {process.context, bytes}), CUDA_SUCCESS);
  return process.value(0);
}

inline void expect_to_work(RawClient& process) {
  const uint64_t address = allocate(process, kBlock);
  process.send(CallCode::kFill, {process.stream, address, 0, 7, 1, kBlock, 1});
  EXPECT_EQ(process.copy(CallCode::kCopyOut, process.stream, address, 4096), CUDA_SUCCESS);
  EXPECT_EQ(process.pages().chunk_bytes[0][4095], 7);
  EXPECT_EQ(process.ask(CallCode::kFree, {address}), CUDA_SUCCESS);
}

class ForwardedTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(host_.executor.expect<protocol::ExecutorHello>()); }
  std::unique_ptr<RawClient> connect(uint64_t client) {
    return forwarded_testing::connect(host_, client);
  }

  ForwardingHost host_;
};

}  // namespace lambent::forwarded_testing
