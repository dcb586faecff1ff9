// What graphs hold besides work: events, memory, objects of the program.
#include <atomic>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "conformance/graph_fixture.h"

namespace lambent::conformance {
namespace {

TEST_F(Graphs, EventNodesRecordAndWait) {
  CUevent begin, end;
  OK(cu.event_create(&begin, 0));
  OK(cu.event_create(&end, 0));
  CUgraphNode first, last;
  OK(cu.graph_add_event_record_node(&first, graph, nullptr, 0, begin));
  CUgraphNode filled = fill(word, 1, {first});
  OK(cu.graph_add_event_record_node(&last, graph, &filled, 1, end));
  CUevent told = nullptr;
  OK(cu.graph_event_record_node_get_event(last, &told));
  EXPECT_EQ(told, end);
  run(instantiate());
  float elapsed = -1;
  OK(cu.event_elapsed_time_v2(&elapsed, begin, end));
  EXPECT_GT(elapsed, 0.0f);
  OK(cu.event_destroy(begin));
  OK(cu.event_destroy(end));
}

TEST_F(Graphs, AllocationNodesGiveMemoryToTheirLaunch) {
  CUDA_MEM_ALLOC_NODE_PARAMS wanted{};
  wanted.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  wanted.bytesize = 1 << 20;
  CUgraphNode allocation, freed;
  OK(cu.graph_add_mem_alloc_node(&allocation, graph, nullptr, 0, &wanted));
  ASSERT_NE(wanted.dptr, 0u);
  CUgraphNode filled = fill(wanted.dptr, 3, {allocation});
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = wanted.dptr;
  copy.dstDevice = word;
  copy.WidthInBytes = 4;
  copy.Height = copy.Depth = 1;
  CUgraphNode copied;
  OK(cu.graph_add_memcpy_node(&copied, graph, &filled, 1, &copy, context));
  OK(cu.graph_add_mem_free_node(&freed, graph, &copied, 1, wanted.dptr));
  EXPECT_EQ(cu.graph_add_mem_free_node(&freed, graph, &copied, 1, wanted.dptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.graph_add_mem_free_node(&freed, graph, &copied, 1, word), CUDA_ERROR_INVALID_VALUE);
  CUgraph clone;
  EXPECT_NE(cu.graph_clone(&clone, graph), CUDA_SUCCESS);
  CUgraphExec exec = instantiate(), second;
  EXPECT_NE(cu.graph_instantiate(&second, graph, 0), CUDA_SUCCESS);
  run(exec);
  run(exec);
  EXPECT_EQ(value(), 3u);
  uint64_t used = 1, reserved = 0;
  OK(cu.device_get_graph_mem_attribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
  OK(cu.device_get_graph_mem_attribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved));
  EXPECT_EQ(used, 0u);
  EXPECT_GE(reserved, 1u << 20);
  OK(cu.device_graph_mem_trim(0));
  OK(cu.device_get_graph_mem_attribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved));
  EXPECT_EQ(reserved, 0u);
}

TEST_F(Graphs, AllocationNodesMayBeFreedByOneLaunch) {
  CUDA_MEM_ALLOC_NODE_PARAMS wanted{};
  wanted.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  wanted.bytesize = 1 << 20;
  constexpr int kAllocations = 3;
  CUgraphNode last = empty();
  CUdeviceptr addresses[kAllocations];
  for (CUdeviceptr& address : addresses) {
    CUgraphNode allocation;
    OK(cu.graph_add_mem_alloc_node(&allocation, graph, &last, 1, &wanted));
    address = wanted.dptr;
    last = fill(address, 5, {allocation});
  }
  // The last one outlives the launch.
  for (int i = 0; i + 1 < kAllocations; ++i) {
    CUgraphNode freed;
    OK(cu.graph_add_mem_free_node(&freed, graph, &last, 1, addresses[i]));
    last = freed;
  }
  CUgraphExec exec = instantiate();
  for (int round = 0; round < 2; ++round) {
    run(exec);
    uint32_t read = 0;
    OK(cu.memcpy_d_to_h(&read, addresses[kAllocations - 1], 4));
    EXPECT_EQ(read, 5u);
    OK(cu.mem_free_async(addresses[kAllocations - 1], stream));
    OK(cu.stream_synchronize(stream));
  }
  uint64_t used = 1;
  OK(cu.device_get_graph_mem_attribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
  EXPECT_EQ(used, 0u);
}

TEST_F(Graphs, MemoryThatALaunchLeftMustBeFreedBeforeTheNext) {
  CUDA_MEM_ALLOC_NODE_PARAMS wanted{};
  wanted.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  wanted.bytesize = 4096;
  CUgraphNode allocation;
  OK(cu.graph_add_mem_alloc_node(&allocation, graph, nullptr, 0, &wanted));
  fill(wanted.dptr, 4, {allocation});
  CUgraphExec exec = instantiate();
  run(exec);
  uint32_t read = 0;
  OK(cu.memcpy_d_to_h(&read, wanted.dptr, 4));
  EXPECT_EQ(read, 4u);
  EXPECT_EQ(cu.graph_launch(exec, stream), CUDA_ERROR_INVALID_VALUE);
  OK(cu.mem_free_async(wanted.dptr, stream));
  run(exec);
  OK(cu.mem_free(wanted.dptr));
  EXPECT_EQ(cu.mem_free(wanted.dptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Graphs, UserObjectsEndWithTheLastGraph) {
  std::atomic<int> ended{0};
  auto end = [](void* p) {
    auto* count = static_cast<std::atomic<int>*>(p);
    ++*count;
    count->notify_all();
  };
  CUuserObject object;
  EXPECT_EQ(cu.user_object_create(&object, &ended, end, 1, 0), CUDA_ERROR_INVALID_VALUE);
  OK(cu.user_object_create(&object, &ended, end, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  OK(cu.graph_retain_user_object(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  empty();
  CUgraphExec exec = nullptr;
  OK(cu.graph_instantiate(&exec, graph, 0));
  OK(cu.user_object_release(object, 1));
  OK(cu.graph_destroy(graph));
  graph = nullptr;
  EXPECT_EQ(ended, 0);
  OK(cu.graph_exec_destroy(exec));
  ended.wait(0);
  EXPECT_EQ(ended, 1);
}

TEST_F(Graphs, ADotFileShowsNodesAndEdges) {
  CUgraphNode a = empty();
  fill(word, 1, {a});
  std::string path = testing::TempDir() + "graph.dot";
  OK(cu.graph_debug_dot_print(graph, path.c_str(), CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_NE(text.find("digraph"), std::string::npos);
  EXPECT_NE(text.find("->"), std::string::npos);
  std::remove(path.c_str());
  EXPECT_NE(cu.graph_debug_dot_print(graph, "/no/such/folder/graph.dot", 0), CUDA_SUCCESS);
}

}  // namespace
}  // namespace lambent::conformance
