// Graphs of clients that lie, free what a graph still names, and die while one runs: nobody else's
// memory is reached, and all comes back.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "forwarded/forwarded_testing.h"
#include "gpu/forward_ring/graph_image.h"

namespace lambent::forwarded_testing {
namespace {

using enum CallCode;
using forward_ring::GraphNodeHead;
using forward_ring::GraphNodeKind;

class ForwardedGraphsTest : public ForwardedTest {
 protected:
  static void add(std::string* image, GraphNodeKind kind, std::vector<uint64_t> arguments,
                  std::vector<uint32_t> after = {}, const std::string& data = {}) {
    GraphNodeHead head;
    head.kind = kind;
    head.dependencies = static_cast<uint32_t>(after.size());
    head.data_bytes = static_cast<uint32_t>(data.size());
    std::copy(arguments.begin(), arguments.end(), head.arguments);
    const size_t at = image->size();
    image->resize(at + forward_ring::graph_node_bytes(after.size(), data.size()));
    write_graph_node(image->data() + at, head, after.data(), data.data());
  }
  static std::string fill_of(uint64_t address, uint64_t value, uint64_t bytes = kBlock) {
    std::string image;
    add(&image, GraphNodeKind::kFill, {address, 0, value, 1, bytes, 1});
    return image;
  }
  static CUresult instantiate(RawClient& process, const std::string& image, uint64_t* graph) {
    EXPECT_EQ(process.upload(image), CUDA_SUCCESS);
    const CUresult result = process.ask(kInstantiateGraph, {process.context, 0});
    *graph = process.value(0);
    return result;
  }
  // A graph that was destroyed counts until its streams are seen to be idle, which nothing tells.
  static bool there_is_room_soon(RawClient& process, const std::string& image) {
    uint64_t graph = 0;
    for (int tries = 0; tries < 1000; ++tries) {
      if (instantiate(process, image, &graph) == CUDA_SUCCESS) return true;
      usleep(10'000);
    }
    return false;
  }
  // The kernels of the conformance suite.
  static uint64_t load(RawClient& process) {
    std::ifstream file(LAMBENT_BINARY_DIR "/tests/conformance_kernels/host-x86_64.so");
    const std::string module((std::istreambuf_iterator<char>(file)), {});
    EXPECT_EQ(process.upload(module), CUDA_SUCCESS);
    EXPECT_EQ(process.ask(kLoadModule, {process.context, 0}), CUDA_SUCCESS);
    process.wait_for_chunk();
    return process.value(0);
  }
  static uint64_t find(RawClient& process, uint64_t module, const std::string& name) {
    EXPECT_EQ(process.ask_with(RawClient::call_of(kFindFunction, {module}), name), CUDA_SUCCESS);
    return process.value(0);
  }
  static CUresult wait(RawClient& process) {
    return process.ask(kSynchronizeStream, {process.stream});
  }
  static char first_byte(RawClient& process, uint64_t address) {
    EXPECT_EQ(process.copy(kCopyOut, process.stream, address, 4096), CUDA_SUCCESS);
    return process.pages().chunk_bytes[0][0];
  }
};

// As many as a client may have (gpu/forward_server/client_quotas.h), all but one in a graph.
TEST_F(ForwardedGraphsTest, EventsThatAGraphKeepsCountUntilItLetsThemGo) {
  constexpr uint64_t kMostEvents = 1 << 16;
  host_.add_client(1, kMemory);
  const auto process = connect(1);
  const auto create = [&] {
    return process->ask(kCreateEvent, {process->context, CU_EVENT_DISABLE_TIMING});
  };
  std::string image;
  std::vector<uint64_t> events;
  for (uint64_t i = 0; i < kMostEvents; ++i) {
    ASSERT_EQ(create(), CUDA_SUCCESS);
    events.push_back(process->value(0));
    if (i > 0) add(&image, GraphNodeKind::kRecordEvent, {events.back()});
  }
  uint64_t graph = 0;
  ASSERT_EQ(instantiate(*process, image, &graph), CUDA_SUCCESS);
  for (const uint64_t event : events) process->send(kDestroyEvent, {event});
  // The one that no graph has is there for another.
  EXPECT_EQ(create(), CUDA_SUCCESS);
  EXPECT_EQ(create(), CUDA_ERROR_OUT_OF_MEMORY);
  process->send(kDestroyGraph, {graph});
  bool there_is_room = false;
  for (int tries = 0; tries < 1000 && !there_is_room; ++tries) {
    there_is_room = create() == CUDA_SUCCESS;
    if (!there_is_room) usleep(10'000);  // nothing tells when its streams were seen to be idle
  }
  EXPECT_TRUE(there_is_room);
}

TEST_F(ForwardedGraphsTest, NodesThatNameWhatIsNotTheClientsAreRefusedWithTheirPlace) {
  host_.add_client(1, kMemory);
  host_.add_client(2, kMemory);
  const auto owner = connect(1), other = connect(2);
  const uint64_t foreign = allocate(*owner, kBlock), own = allocate(*other, kBlock);
  uint64_t graph = 0;
  const auto expect_refused = [&](const std::string& image, CUresult why, uint64_t node) {
    EXPECT_EQ(instantiate(*other, image, &graph), why);
    EXPECT_EQ(graph, 0u);
    EXPECT_EQ(other->value(1), node);
  };
  expect_refused(fill_of(foreign, 1), CUDA_ERROR_INVALID_VALUE, 0);
  expect_refused(fill_of(own, 1, kBlock + 1), CUDA_ERROR_INVALID_VALUE, 0);
  std::string image = fill_of(own, 1);
  add(&image, GraphNodeKind::kCopy, {own, 16, foreign, 16, 16, 1}, {0});
  expect_refused(image, CUDA_ERROR_INVALID_VALUE, 1);
  for (const uint64_t forged : {uint64_t{0}, uint64_t{16}, UINT64_MAX}) {
    image.clear();
    add(&image, GraphNodeKind::kKernel, {forged, 1, 1 | uint64_t{1} << 32, 1 | uint64_t{1} << 32});
    expect_refused(image, CUDA_ERROR_INVALID_HANDLE, 0);
    image.clear();
    add(&image, GraphNodeKind::kRecordEvent, {forged});
    expect_refused(image, CUDA_ERROR_INVALID_HANDLE, 0);
    other->send(kLaunchGraph, {forged, other->stream});
    EXPECT_EQ(wait(*other), CUDA_ERROR_INVALID_HANDLE);
    other->send(kDestroyGraph, {forged});
    EXPECT_EQ(wait(*other), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(other->ask(kUpdateGraph, {forged}), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(other->ask(kEnableGraphNode, {forged, 0, 1}), CUDA_ERROR_INVALID_HANDLE);
  }
  // Tokens of streams' functions are not a graph's; nonsense is no graph.
  image.clear();
  add(&image, GraphNodeKind::kHost, {7});
  expect_refused(image, CUDA_ERROR_INVALID_VALUE, 0);
  expect_refused(fill_of(own, 1).substr(8), CUDA_ERROR_INVALID_VALUE, forward_ring::kNoGraphNode);
  EXPECT_EQ(first_byte(*owner, foreign), 0);
  // It goes on.
  ASSERT_EQ(instantiate(*other, fill_of(own, 3), &graph), CUDA_SUCCESS);
  other->send(kLaunchGraph, {graph, other->stream});
  EXPECT_EQ(wait(*other), CUDA_SUCCESS);
  EXPECT_EQ(first_byte(*other, own), 3);
  // A node that is set is checked as well.
  Call call = RawClient::call_of(kSetGraphNode, {graph, 0});
  EXPECT_EQ(other->ask_with(call, fill_of(foreign, 9)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(other->ask_with(call, fill_of(own, 9)), CUDA_SUCCESS);
  other->send(kLaunchGraph, {graph, other->stream});
  EXPECT_EQ(wait(*other), CUDA_SUCCESS);
  EXPECT_EQ(first_byte(*other, own), 9);
}

TEST_F(ForwardedGraphsTest, AGraphDoesNotReachMemoryThatWasFreedAndGivenToOthers) {
  host_.add_client(1, kMemory);
  host_.add_client(2, kMemory);
  const auto first = connect(1), second = connect(2);
  const uint64_t address = allocate(*first, kBlock);
  uint64_t graph = 0;
  ASSERT_EQ(instantiate(*first, fill_of(address, 5), &graph), CUDA_SUCCESS);
  first->send(kLaunchGraph, {graph, first->stream});
  EXPECT_EQ(wait(*first), CUDA_SUCCESS);
  ASSERT_EQ(first->ask(kFree, {address}), CUDA_SUCCESS);
  std::vector<uint64_t> theirs;
  for (int i = 0; i < 16; ++i) theirs.push_back(allocate(*second, kBlock));
  first->send(kLaunchGraph, {graph, first->stream});
  EXPECT_EQ(wait(*first), CUDA_ERROR_INVALID_VALUE);
  for (const uint64_t each : theirs) EXPECT_EQ(first_byte(*second, each), 0);
}

TEST_F(ForwardedGraphsTest, ANodeIsNotEnabledWithMemoryThatWasFreedWhileItWasDisabled) {
  host_.add_client(1, kMemory);
  host_.add_client(2, kMemory);
  const auto first = connect(1), second = connect(2);
  const uint64_t address = allocate(*first, kBlock), source = allocate(*first, kBlock);
  std::string image = fill_of(address, 5);
  add(&image, GraphNodeKind::kCopy, {address, kBlock, source, kBlock, kBlock, 1}, {0});
  uint64_t graph = 0;
  ASSERT_EQ(instantiate(*first, image, &graph), CUDA_SUCCESS);
  for (uint64_t node = 0; node < 2; ++node) {
    ASSERT_EQ(first->ask(kEnableGraphNode, {graph, node, 0}), CUDA_SUCCESS);
  }
  ASSERT_EQ(first->ask(kFree, {address}), CUDA_SUCCESS);
  first->send(kLaunchGraph, {graph, first->stream});
  EXPECT_EQ(wait(*first), CUDA_SUCCESS);
  std::vector<uint64_t> theirs;
  for (int i = 0; i < 16; ++i) theirs.push_back(allocate(*second, kBlock));
  for (uint64_t node = 0; node < 2; ++node) {
    ASSERT_EQ(first->ask(kEnableGraphNode, {graph, node, 1}), CUDA_SUCCESS);
    first->send(kLaunchGraph, {graph, first->stream});
    EXPECT_EQ(wait(*first), CUDA_ERROR_INVALID_VALUE);
    ASSERT_EQ(first->ask(kEnableGraphNode, {graph, node, 0}), CUDA_SUCCESS);
  }
  for (const uint64_t each : theirs) EXPECT_EQ(first_byte(*second, each), 0);
}

TEST_F(ForwardedGraphsTest, AKernelIsNotRunWithMemoryThatWasFreedSinceNorAfterItsModule) {
  host_.add_client(1, kMemory);
  const auto process = connect(1);
  const uint64_t loaded = load(*process), function = find(*process, loaded, "count");
  const uint64_t kept = allocate(*process, kBlock), freed = allocate(*process, kBlock);
  const auto counting = [&](uint64_t address) {
    std::string image;
    add(&image, GraphNodeKind::kKernel,
        {function, 1 | uint64_t{1} << 32, 1 | uint64_t{1} << 32, 1 | uint64_t{1} << 32, 0}, {},
        std::string(reinterpret_cast<const char*>(&address), sizeof(address)));
    return image;
  };
  uint64_t of_kept = 0, of_freed = 0;
  ASSERT_EQ(instantiate(*process, counting(kept), &of_kept), CUDA_SUCCESS);
  ASSERT_EQ(instantiate(*process, counting(freed), &of_freed), CUDA_SUCCESS);
  ASSERT_EQ(process->ask(kFree, {freed}), CUDA_SUCCESS);
  process->send(kLaunchGraph, {of_kept, process->stream});
  EXPECT_EQ(wait(*process), CUDA_SUCCESS);
  EXPECT_EQ(first_byte(*process, kept), 1);
  process->send(kLaunchGraph, {of_freed, process->stream});
  EXPECT_EQ(wait(*process), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(process->ask(kUnloadModule, {loaded}), CUDA_SUCCESS);
  process->send(kLaunchGraph, {of_kept, process->stream});
  EXPECT_EQ(wait(*process), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ForwardedGraphsTest, ANodeThatIsSetCountsForWhatItIsThen) {
  host_.add_client(1, kMemory);
  const auto process = connect(1);
  const uint64_t module = load(*process), few = find(*process, module, "count"),
                 many = find(*process, module, "add");
  const auto kernel = [&](uint64_t function, size_t bytes) {
    std::string image;
    add(&image, GraphNodeKind::kKernel,
        {function, 1 | uint64_t{1} << 32, 1 | uint64_t{1} << 32, 1 | uint64_t{1} << 32, 0}, {},
        std::string(bytes, '\0'));
    return image;
  };
  const std::string small = kernel(few, 8), large = kernel(many, 28);
  uint64_t graph = 0;
  ASSERT_EQ(instantiate(*process, small, &graph), CUDA_SUCCESS);
  // An image that is never used takes all of the client's room for images but for 64 bytes. What is
  // known of the five parameters of both functions lies there too.
  const size_t known = 5 * sizeof(forward_ring::ParameterPlace);
  ASSERT_EQ(process->upload(std::string(Bytes::mib(512).count - small.size() - known - 64, '\0')),
            CUDA_SUCCESS);
  const Call set = RawClient::call_of(kSetGraphNode, {graph, 0});
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(process->ask_with(set, large), CUDA_SUCCESS) << i;
    std::string refused = small;  // by the driver
    GraphNodeHead head;
    std::memcpy(&head, refused.data(), sizeof(head));
    head.arguments[3] = 0;
    std::memcpy(refused.data(), &head, sizeof(head));
    ASSERT_EQ(process->ask_with(set, refused), CUDA_ERROR_INVALID_VALUE);
    ASSERT_EQ(process->ask_with(set, small), CUDA_SUCCESS);
  }
}

TEST_F(ForwardedGraphsTest, AHostFunctionRunsOnceForEachLaunchAndHoldsWhatComesAfterIt) {
  host_.add_client(1, kMemory);
  const auto process = connect(1);
  const uint64_t address = allocate(*process, kBlock), token = forward_ring::kGraphToken | 3;
  std::string image;
  add(&image, GraphNodeKind::kHost, {token});
  add(&image, GraphNodeKind::kFill, {address, 0, 6, 1, kBlock, 1}, {0});
  uint64_t graph = 0;
  ASSERT_EQ(instantiate(*process, image, &graph), CUDA_SUCCESS);
  for (int i = 0; i < 3; ++i) process->send(kLaunchGraph, {graph, process->stream});
  // Destroyed while it runs, it runs to its end.
  process->send(kDestroyGraph, {graph});
  uint64_t before = 0;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(process->ask(kQueryStream, {process->stream}), CUDA_ERROR_NOT_READY);
    ASSERT_EQ(process->ask(kNextHostFunction, {}), CUDA_SUCCESS);
    EXPECT_EQ(process->value(0), token);
    const uint64_t ticket = process->value(1);
    EXPECT_GT(ticket, before);
    process->send(kHostFunctionDone, {ticket + 1});  // not handed out
    process->send(kHostFunctionDone, {ticket});
    before = ticket;
  }
  EXPECT_EQ(wait(*process), CUDA_ERROR_INVALID_VALUE);  // of the tickets that were not
  EXPECT_EQ(wait(*process), CUDA_SUCCESS);
  EXPECT_EQ(first_byte(*process, address), 6);
}

TEST_F(ForwardedGraphsTest, TheFunctionsOfALaunchThatIsRefusedAreGivenBackAndHoldNothing) {
  host_.add_client(1, kMemory);
  const auto process = connect(1);
  const uint64_t address = allocate(*process, kBlock), token = forward_ring::kGraphToken | 3;
  std::string image = fill_of(address, 1);
  add(&image, GraphNodeKind::kHost, {token}, {0});
  add(&image, GraphNodeKind::kHost, {token + 1}, {1});
  uint64_t graph = 0;
  ASSERT_EQ(instantiate(*process, image, &graph), CUDA_SUCCESS);
  ASSERT_EQ(process->ask(kFree, {address}), CUDA_SUCCESS);
  for (int i = 0; i < 2; ++i) {
    process->send(kLaunchGraph, {graph, process->stream});
    EXPECT_EQ(wait(*process), CUDA_ERROR_INVALID_VALUE);
    for (uint64_t each = 0; each < 2; ++each) {
      ASSERT_EQ(process->ask(kNextHostFunction, {}), CUDA_SUCCESS);
      EXPECT_EQ(process->value(0), token + each);
      EXPECT_EQ(process->value(2), 1u);
    }
  }
  // It goes on where it can.
  ASSERT_EQ(process->ask(kEnableGraphNode, {graph, 0, 0}), CUDA_SUCCESS);
  process->send(kLaunchGraph, {graph, process->stream});
  for (uint64_t each = 0; each < 2; ++each) {
    ASSERT_EQ(process->ask(kNextHostFunction, {}), CUDA_SUCCESS);
    EXPECT_EQ(process->value(0), token + each);
    EXPECT_EQ(process->value(2), 0u);
    process->send(kHostFunctionDone, {process->value(1)});
  }
  EXPECT_EQ(wait(*process), CUDA_SUCCESS);
}

TEST_F(ForwardedGraphsTest, WhatADeadProcessLeftInAGraphComesBack) {
  auto ledger = host_.add_client(1, kMemory);
  host_.add_client(2, kMemory);
  const auto survivor = connect(2);
  {
    const auto process = connect(1);
    const uint64_t address = allocate(*process, kBlock);
    std::string image;
    add(&image, GraphNodeKind::kHost, {forward_ring::kGraphToken | 1});
    add(&image, GraphNodeKind::kFill, {address, 0, 6, 1, kBlock, 1}, {0});
    uint64_t graph = 0;
    ASSERT_EQ(instantiate(*process, image, &graph), CUDA_SUCCESS);
    for (int i = 0; i < 50; ++i) process->send(kLaunchGraph, {graph, process->stream});
    EXPECT_EQ(process->ask(kQueryStream, {process->stream}), CUDA_ERROR_NOT_READY);
    process->upload(image);  // and in the middle of the next
  }
  // Another of its processes sees all of the memory again, a little later.
  const auto next = connect(1);
  for (int tries = 0; tries < 1000; ++tries) {
    ASSERT_EQ(next->ask(kMemoryInfo, {}), CUDA_SUCCESS);
    if (next->value(0) == kMemory.count) break;
    usleep(10'000);  // its work ends first, which nothing tells
  }
  EXPECT_EQ(next->value(0), kMemory.count);
  EXPECT_EQ(wait(*survivor), CUDA_SUCCESS);
}

TEST_F(ForwardedGraphsTest, SoManyAndNoMore) {
  host_.add_client(1, kMemory);
  const auto process = connect(1);
  const uint64_t address = allocate(*process, kBlock);
  uint64_t graph = 0, last = 0, made = 0;
  CUresult result = CUDA_SUCCESS;
  for (; made < 5000; ++made) {
    result = instantiate(*process, fill_of(address, 1), &graph);
    if (result != CUDA_SUCCESS) break;
    last = graph;
  }
  EXPECT_EQ(result, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(made, 4096u);
  process->send(kDestroyGraph, {last});
  EXPECT_EQ(wait(*process), CUDA_SUCCESS);
  EXPECT_TRUE(there_is_room_soon(*process, fill_of(address, 1)));
}

TEST_F(ForwardedGraphsTest, GraphsThatAreDestroyedWhileWorkIsHeldCountUntilItIsOver) {
  host_.add_client(1, kMemory);
  const auto process = connect(1);
  std::string held;
  add(&held, GraphNodeKind::kHost, {forward_ring::kGraphToken | 3});
  uint64_t graph = 0, made = 1;
  ASSERT_EQ(instantiate(*process, held, &graph), CUDA_SUCCESS);
  process->send(kLaunchGraph, {graph, process->stream});
  CUresult result = CUDA_SUCCESS;
  for (; made < 5000; ++made) {
    result = instantiate(*process, {}, &graph);
    if (result != CUDA_SUCCESS) break;
    process->send(kDestroyGraph, {graph});
  }
  EXPECT_EQ(result, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(made, 4096u);
  ASSERT_EQ(process->ask(kNextHostFunction, {}), CUDA_SUCCESS);
  process->send(kHostFunctionDone, {process->value(1)});
  EXPECT_EQ(wait(*process), CUDA_SUCCESS);
  EXPECT_TRUE(there_is_room_soon(*process, {}));
}

}  // namespace
}  // namespace lambent::forwarded_testing
