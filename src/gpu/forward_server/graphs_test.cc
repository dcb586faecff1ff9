#include "gpu/forward_server/graphs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gpu/forward_server/testing/parts_testing.h"

namespace lambent::forward_server {
namespace {

using forward_ring::GraphNodeHead;
using forward_ring::GraphNodeKind;
using forward_ring::kNoGraphNode;

constexpr uint64_t kBlock = 4096;
constexpr uint64_t kToken = forward_ring::kGraphToken | 3;

class GraphsTest : public PartsTest {
 protected:
  static std::string node(GraphNodeKind kind, std::vector<uint64_t> arguments,
                          const std::string& data = {}) {
    GraphNodeHead head;
    head.kind = kind;
    head.data_bytes = static_cast<uint32_t>(data.size());
    std::copy(arguments.begin(), arguments.end(), head.arguments);
    std::string image(forward_ring::graph_node_bytes(0, data.size()), '\0');
    write_graph_node(image.data(), head, nullptr, data.data());
    return image;
  }
  static std::string fill(uint64_t address, uint64_t value) {
    return node(GraphNodeKind::kFill, {address, 0, value, 1, kBlock, 1});
  }
  // 0 if it is refused.
  uint64_t instantiate(const std::string& image) {
    upload(image);
    EXPECT_TRUE(ask(graphs_, kInstantiateGraph, {context_, 0}));
    return value(0);
  }
  CUresult launch(uint64_t graph) {
    EXPECT_TRUE(send(graphs_, kLaunchGraph, {graph, stream_}));
    return wait_for_stream(stream_);
  }
  void destroy(uint64_t graph) { EXPECT_TRUE(send(graphs_, kDestroyGraph, {graph})); }
};

TEST_F(GraphsTest, AGraphRunsAsOftenAsItIsLaunchedAndCountsUntilItIsDestroyed) {
  const uint64_t address = allocate(kBlock), graph = instantiate(fill(address, 7));
  ASSERT_EQ(result(), CUDA_SUCCESS);
  EXPECT_EQ(value(1), kNoGraphNode);
  EXPECT_FALSE(has_all_host_memory());
  EXPECT_EQ(launch(graph), CUDA_SUCCESS);
  EXPECT_EQ(first_byte(address), 7);
  destroy(graph);
  EXPECT_TRUE(poll_until([&] { return completions_.is_empty(); }));
  EXPECT_TRUE(has_all_host_memory());
  EXPECT_EQ(launch(graph), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(GraphsTest, ANodeThatNamesWhatIsNotTheProcesssIsRefusedWithItsPlace) {
  const uint64_t address = allocate(kBlock);
  EXPECT_EQ(instantiate(fill(address, 1) + fill(address + 1, 1)), 0U);
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(value(1), 1U);
  EXPECT_EQ(instantiate(node(GraphNodeKind::kRecordEvent, {16})), 0U);
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(instantiate(node(GraphNodeKind::kHost, {3})), 0U);
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(has_all_host_memory());
}

TEST_F(GraphsTest, AGraphIsNotLaunchedOnceItsMemoryWasFreed) {
  const uint64_t address = allocate(kBlock), other = allocate(kBlock);
  const uint64_t graph = instantiate(fill(address, 1));
  EXPECT_TRUE(ask(process_memory_, kFree, {other}));
  EXPECT_EQ(launch(graph), CUDA_SUCCESS);
  EXPECT_TRUE(ask(process_memory_, kFree, {address}));
  EXPECT_EQ(launch(graph), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphsTest, ANodeThatIsDisabledNamesNothingUntilItIsEnabledAgain) {
  const uint64_t address = allocate(kBlock), graph = instantiate(fill(address, 1));
  EXPECT_TRUE(ask(graphs_, kEnableGraphNode, {graph, 0, 0}));
  EXPECT_EQ(result(), CUDA_SUCCESS);
  EXPECT_TRUE(ask(process_memory_, kFree, {address}));
  EXPECT_EQ(launch(graph), CUDA_SUCCESS);
  EXPECT_TRUE(ask(graphs_, kEnableGraphNode, {graph, 0, 1}));
  EXPECT_EQ(launch(graph), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(ask(graphs_, kEnableGraphNode, {graph, 1, 1}));
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphsTest, AnUpdateChangesAllNodesOrNone) {
  const uint64_t address = allocate(kBlock), graph = instantiate(fill(address, 1));
  upload(fill(address, 2));
  EXPECT_TRUE(ask(graphs_, kUpdateGraph, {graph}));
  EXPECT_EQ(result(), CUDA_SUCCESS);
  EXPECT_EQ(launch(graph), CUDA_SUCCESS);
  EXPECT_EQ(first_byte(address), 2);
  upload(fill(address + 1, 3));
  EXPECT_TRUE(ask(graphs_, kUpdateGraph, {graph}));
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(value(1), 0U);
  EXPECT_EQ(launch(graph), CUDA_SUCCESS);
  EXPECT_EQ(first_byte(address), 2);
}

TEST_F(GraphsTest, ANodeCanBeSetByItself) {
  const uint64_t address = allocate(kBlock), graph = instantiate(fill(address, 1));
  EXPECT_TRUE(ask(graphs_, kSetGraphNode, {graph, 0}, fill(address, 9)));
  EXPECT_EQ(result(), CUDA_SUCCESS);
  EXPECT_EQ(launch(graph), CUDA_SUCCESS);
  EXPECT_EQ(first_byte(address), 9);
  EXPECT_TRUE(ask(graphs_, kSetGraphNode, {graph, 1}, fill(address, 9)));
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphsTest, TheFunctionOfAHostNodeIsToldOfEachLaunchAndHoldsTheStream) {
  const uint64_t graph = instantiate(node(GraphNodeKind::kHost, {kToken}));
  ASSERT_EQ(result(), CUDA_SUCCESS);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(send(graphs_, kLaunchGraph, {graph, stream_}));
    EXPECT_TRUE(ask(host_functions_, kNextHostFunction, {}));
    ASSERT_EQ(wait_for_answer(), CUDA_SUCCESS);
    EXPECT_EQ(value(0), kToken);
    const uint64_t ticket = value(1);
    EXPECT_TRUE(ask(streams_, kQueryStream, {stream_}));
    EXPECT_EQ(result(), CUDA_ERROR_NOT_READY);
    EXPECT_TRUE(send(host_functions_, kHostFunctionDone, {ticket, 0}));
    EXPECT_EQ(wait_for_stream(stream_), CUDA_SUCCESS);
  }
}

TEST_F(GraphsTest, TheFunctionsOfALaunchThatIsRefusedAreToldAsRefused) {
  const uint64_t address = allocate(kBlock);
  const uint64_t graph = instantiate(fill(address, 1) + node(GraphNodeKind::kHost, {kToken}));
  EXPECT_TRUE(ask(process_memory_, kFree, {address}));
  EXPECT_EQ(launch(graph), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(ask(host_functions_, kNextHostFunction, {}));
  ASSERT_EQ(result(), CUDA_SUCCESS);
  EXPECT_EQ(value(0), kToken);
  EXPECT_EQ(value(2), 1U);
}

TEST_F(GraphsTest, TheGraphsOfAModuleGoWithItAndNoOthers) {
  const uint64_t module = load_kernels(), kernel = find_kernel(module, "count");
  const uint64_t address = allocate(kBlock), one = 1 | uint64_t{1} << 32;
  const std::string parameter(reinterpret_cast<const char*>(&address), sizeof(address));
  const uint64_t of_module =
      instantiate(node(GraphNodeKind::kKernel, {kernel, one, one, one, 0}, parameter));
  ASSERT_EQ(result(), CUDA_SUCCESS);
  const uint64_t other = instantiate(fill(address, 1));
  EXPECT_EQ(launch(of_module), CUDA_SUCCESS);
  EXPECT_EQ(first_byte(address), 1);
  graphs_.release_all_of_module(module);
  EXPECT_EQ(launch(of_module), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(launch(other), CUDA_SUCCESS);
  graphs_.release_all_of_context(context_);
  EXPECT_EQ(launch(other), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(GraphsTest, AKernelOfAnotherContextIsRefused) {
  const uint64_t kernel = find_kernel(load_kernels(), "count"), one = 1 | uint64_t{1} << 32;
  EXPECT_TRUE(ask(streams_, kCreateContext, {}));
  context_ = value(0);
  EXPECT_EQ(
      instantiate(node(GraphNodeKind::kKernel, {kernel, one, one, one, 0}, std::string(8, '\0'))),
      0U);
  EXPECT_EQ(result(), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(GraphsTest, SoManyGraphsMayBeHeldAndNoMore) {
  ASSERT_TRUE(memory_.quotas.graphs.take(4095));
  const uint64_t address = allocate(kBlock), graph = instantiate(fill(address, 1));
  ASSERT_EQ(result(), CUDA_SUCCESS);
  EXPECT_EQ(instantiate(fill(address, 1)), 0U);
  EXPECT_EQ(result(), CUDA_ERROR_OUT_OF_MEMORY);
  destroy(graph);
  EXPECT_TRUE(poll_until([&] { return completions_.is_empty(); }));
  instantiate(fill(address, 1));
  EXPECT_EQ(result(), CUDA_SUCCESS);
}

}  // namespace
}  // namespace lambent::forward_server
