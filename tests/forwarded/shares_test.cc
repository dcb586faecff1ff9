// Shares of the multiprocessors for clients of a real executor on an emulated V100, whose modelled
// kernels take as much longer as they have fewer.
#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "forwarded/forwarding_host.h"
#include "forwarded/raw_client.h"
#include "gpu/forward_ring/graph_image.h"

namespace lambent::forwarded_testing {
namespace {

using enum CallCode;

constexpr Bytes kMemory = Bytes::mib(32);
// On the whole device. The model alone says how long a kernel takes there: events show it.
constexpr uint64_t kKernel_ns = 20'000'000;

// A client's process with a kernel that fills the device.
struct Occupant {
  explicit Occupant(const std::string& socket) : client(socket) {
    EXPECT_TRUE(client.begin());
    std::ifstream file(LAMBENT_BINARY_DIR "/share/lambent/kernels/occupy/host-x86_64.so");
    EXPECT_EQ(client.upload(std::string((std::istreambuf_iterator<char>(file)), {})), CUDA_SUCCESS);
    EXPECT_EQ(client.ask(kLoadModule, {client.context, 0}), CUDA_SUCCESS);
    client.wait_for_chunk();
    EXPECT_EQ(client.ask_with(RawClient::call_of(kFindFunction, {client.value(0)}), "occupy"),
              CUDA_SUCCESS);
    function = client.value(0);
    for (uint64_t* event : {&begin, &end}) {
      EXPECT_EQ(client.ask(kCreateEvent, {client.context, 0}), CUDA_SUCCESS);
      *event = client.value(0);
    }
  }

  static constexpr uint64_t kGrid = 100'000, kBlock = uint64_t{256} << 32 | 1,
                            kOnes = 1 | uint64_t{1} << 32;
  std::string parameters() const {
    const uint64_t time = kKernel_ns;
    return std::string(reinterpret_cast<const char*>(&time), sizeof(time));
  }
  void launch(uint64_t stream) {
    client.send(kLaunch, {function, stream, kGrid | uint64_t{1} << 32, kBlock, kOnes, 0, 0},
                parameters().data(), sizeof(uint64_t));
  }
  // How many times as long as on the whole device what `queue` queues takes.
  template <typename Queue>
  double slowdown(uint64_t stream, Queue queue) {
    client.send(kRecordEvent, {begin, stream});
    queue();
    client.send(kRecordEvent, {end, stream});
    EXPECT_EQ(client.ask(kSynchronizeStream, {stream}), CUDA_SUCCESS);
    EXPECT_EQ(client.ask(kElapsedTime, {begin, end}), CUDA_SUCCESS);
    const auto elapsed_ms = std::bit_cast<float>(static_cast<uint32_t>(client.value(0)));
    return static_cast<double>(elapsed_ms) * 1e6 / kKernel_ns;
  }
  double slowdown(uint64_t stream) {
    return slowdown(stream, [&] { launch(stream); });
  }

  RawClient client;
  uint64_t function = 0, begin = 0, end = 0;
};

class ForwardedSharesTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(host_.executor.expect<protocol::ExecutorHello>()); }
  // Until a kernel took no longer: a busy machine only makes them longer, and what was launched
  // before the executor heard of a change may have the old share.
  template <typename Slowdown>
  static bool comes_down_to(double most, Slowdown slowdown) {
    for (int i = 0; i < 100; ++i) {
      if (slowdown() <= most) return true;
    }
    return false;
  }

  ForwardingHost host_{{{"EMULATED_CUDA_CONFIG", "v100-16gb"}}};
};

TEST_F(ForwardedSharesTest, AClientKeepsToItsShareInAllItsStreams) {
  host_.add_client(1, kMemory, 25);
  host_.add_client(2, kMemory, 100);
  Occupant quarter(host_.socket_of(1));
  EXPECT_GE(quarter.slowdown(quarter.client.stream), 3.5);
  ASSERT_EQ(quarter.client.ask(kCreateStream, {quarter.client.context, CU_STREAM_NON_BLOCKING, 0}),
            CUDA_SUCCESS);
  EXPECT_GE(quarter.slowdown(quarter.client.value(0)), 3.5);
  Occupant all(host_.socket_of(2));
  EXPECT_TRUE(comes_down_to(2, [&] { return all.slowdown(all.client.stream); }));
}

TEST_F(ForwardedSharesTest, AShareIsChangedWithoutARestartAndWorkKeepsItsOrder) {
  host_.add_client(1, kMemory, 100);
  Occupant occupant(host_.socket_of(1));
  RawClient& client = occupant.client;
  ASSERT_EQ(client.ask(kAllocate, {client.context, 4096}), CUDA_SUCCESS);
  const uint64_t address = client.value(0);
  const auto slowdown = [&] { return occupant.slowdown(client.stream); };
  EXPECT_TRUE(comes_down_to(2, slowdown));
  for (const uint32_t share : {10, 50, 100}) {
    client.send(kFill, {client.stream, address, 0, share - 1, 1, 4096, 1});
    occupant.launch(client.stream);
    host_.executor.send(protocol::SetShare{SandboxId(1), share});
    // Queued before and after the stream has moved.
    occupant.launch(client.stream);
    client.send(kFill, {client.stream, address, 0, share, 1, 4096, 1});
    EXPECT_EQ(client.copy(kCopyOut, client.stream, address, 4096), CUDA_SUCCESS);
    EXPECT_EQ(client.pages().chunk_bytes[0][4095], static_cast<char>(share));
    if (share == 10) {
      bool is_slower = false;  // it may not have heard of it yet
      for (int i = 0; i < 100 && !is_slower; ++i) is_slower = slowdown() >= 8;
      EXPECT_TRUE(is_slower);
    } else if (share == 50) {
      EXPECT_TRUE(comes_down_to(5, slowdown));
      EXPECT_GE(slowdown(), 1.8);
    }
  }
  host_.executor.send(protocol::SetShare{SandboxId(9), 10});  // nobody's
  EXPECT_TRUE(comes_down_to(1.6, slowdown));
}

TEST_F(ForwardedSharesTest, AGraphKeepsToTheShareToo) {
  host_.add_client(1, kMemory, 25);
  Occupant occupant(host_.socket_of(1));
  RawClient& client = occupant.client;
  forward_ring::GraphNodeHead head;
  head.kind = forward_ring::GraphNodeKind::kKernel;
  head.data_bytes = sizeof(uint64_t);
  const uint64_t arguments[] = {occupant.function, Occupant::kGrid | uint64_t{1} << 32,
                                Occupant::kBlock, Occupant::kOnes, 0};
  std::copy(std::begin(arguments), std::end(arguments), head.arguments);
  std::string image(forward_ring::graph_node_bytes(0, sizeof(uint64_t)), '\0');
  write_graph_node(image.data(), head, nullptr, occupant.parameters().data());
  ASSERT_EQ(client.upload(image), CUDA_SUCCESS);
  ASSERT_EQ(client.ask(kInstantiateGraph, {client.context, 0}), CUDA_SUCCESS);
  const uint64_t graph = client.value(0);
  const auto launch = [&] { client.send(kLaunchGraph, {graph, client.stream}); };
  const auto slowdown = [&] { return occupant.slowdown(client.stream, launch); };
  EXPECT_GE(slowdown(), 3.5);
  host_.executor.send(protocol::SetShare{SandboxId(1), 100});
  EXPECT_TRUE(comes_down_to(2, slowdown));
}

// Its process is given ten seconds to come to an end.
TEST_F(ForwardedSharesTest, EndlessWorkInAShareThatWasLeftEndsTheExecutorAndNothingOfItIsTouched) {
  host_.add_client(1, kMemory, 25);
  Occupant occupant(host_.socket_of(1));
  RawClient& client = occupant.client;
  std::ifstream file(LAMBENT_BINARY_DIR "/tests/conformance_kernels/host-x86_64.so");
  ASSERT_EQ(client.upload(std::string((std::istreambuf_iterator<char>(file)), {})), CUDA_SUCCESS);
  ASSERT_EQ(client.ask(kLoadModule, {client.context, 0}), CUDA_SUCCESS);
  client.wait_for_chunk();
  ASSERT_EQ(client.ask_with(RawClient::call_of(kFindFunction, {client.value(0)}), "endless"),
            CUDA_SUCCESS);
  const uint64_t one = 1 | uint64_t{1} << 32;
  client.send(kLaunch, {client.value(0), client.stream, one, one, one, 0, 0});
  // Another stream of it goes where the share is by then.
  ASSERT_EQ(client.ask(kCreateStream, {client.context, CU_STREAM_NON_BLOCKING, 0}), CUDA_SUCCESS);
  const uint64_t other = client.value(0);
  host_.executor.send(protocol::SetShare{SandboxId(1), 100});
  EXPECT_TRUE(comes_down_to(2, [&] { return occupant.slowdown(other); }));
  EXPECT_EQ(client.ask(kQueryStream, {client.stream}), CUDA_ERROR_NOT_READY);
  client.hang_up();
  const auto broken = host_.executor.expect<protocol::Broken>();
  ASSERT_TRUE(broken.has_value());
  EXPECT_NE(broken->error.message.find("does not come to an end"), std::string::npos);
  EXPECT_EQ(WEXITSTATUS(host_.executor.wait_for_exit()), 1);
}

TEST_F(ForwardedSharesTest, WhatAClientHadIsThereForTheNext) {
  for (uint64_t round = 0; round < 3; ++round) {
    host_.add_client(round, kMemory, 80);
    Occupant occupant(host_.socket_of(round));
    EXPECT_GE(occupant.slowdown(occupant.client.stream), 1.2);
    EXPECT_TRUE(comes_down_to(1.8, [&] { return occupant.slowdown(occupant.client.stream); }));
    host_.remove_client(round);
    EXPECT_TRUE(occupant.client.was_hung_up_on());
  }
}

}  // namespace
}  // namespace lambent::forwarded_testing
