#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "conformance/fixture.h"

namespace lambent::conformance {
namespace {

class Graphs : public WithKernels {
 protected:
  void SetUp() override {
    WithKernels::SetUp();
    if (IsSkipped()) return;
    OK(cu.graph_create(&graph, 0));
    OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
    word = allocate(4096);
    OK(cu.memset_d32(word, 0, 1024));
    OK(cu.ctx_synchronize());
  }
  void TearDown() override {
    for (CUgraphExec exec : execs) EXPECT_EQ(cu.graph_exec_destroy(exec), CUDA_SUCCESS);
    if (graph) {
      EXPECT_EQ(cu.graph_destroy(graph), CUDA_SUCCESS);
    }
    if (stream) {
      EXPECT_EQ(cu.stream_destroy(stream), CUDA_SUCCESS);
    }
    WithKernels::TearDown();
  }

  CUDA_MEMSET_NODE_PARAMS fill_of(CUdeviceptr to, unsigned value, size_t count = 1) {
    return {to, 0, value, 4, count, 1};
  }
  CUgraphNode fill(CUdeviceptr to, unsigned value, std::vector<CUgraphNode> after = {},
                   CUgraph into = nullptr) {
    CUgraphNode node = nullptr;
    auto parameters = fill_of(to, value);
    EXPECT_EQ(cu.graph_add_memset_node(&node, into ? into : graph, after.data(), after.size(),
                                       &parameters, context),
              CUDA_SUCCESS);
    return node;
  }
  CUgraphNode empty(std::vector<CUgraphNode> after = {}) {
    CUgraphNode node = nullptr;
    EXPECT_EQ(cu.graph_add_empty_node(&node, graph, after.data(), after.size()), CUDA_SUCCESS);
    return node;
  }
  CUgraphNode host(CUhostFn function, void* data, std::vector<CUgraphNode> after = {}) {
    CUgraphNode node = nullptr;
    CUDA_HOST_NODE_PARAMS parameters{function, data};
    EXPECT_EQ(cu.graph_add_host_node(&node, graph, after.data(), after.size(), &parameters),
              CUDA_SUCCESS);
    return node;
  }
  CUDA_KERNEL_NODE_PARAMS kernel_of(const char* name, unsigned grid, void** parameters) {
    CUDA_KERNEL_NODE_PARAMS wanted{};
    wanted.func = function(name);
    wanted.gridDimX = grid;
    wanted.gridDimY = wanted.gridDimZ = wanted.blockDimY = wanted.blockDimZ = 1;
    wanted.blockDimX = 32;
    wanted.kernelParams = parameters;
    return wanted;
  }
  CUgraphNode kernel(const char* name, unsigned grid, std::vector<void*> parameters,
                     std::vector<CUgraphNode> after = {}, CUgraph into = nullptr) {
    CUgraphNode node = nullptr;
    auto wanted = kernel_of(name, grid, parameters.data());
    EXPECT_EQ(
        cu.graph_add_kernel_node(&node, into ? into : graph, after.data(), after.size(), &wanted),
        CUDA_SUCCESS);
    return node;
  }
  CUgraphExec instantiate(unsigned long long flags = 0) {
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cu.graph_instantiate(&exec, graph, flags), CUDA_SUCCESS);
    if (exec) execs.push_back(exec);
    return exec;
  }
  void run(CUgraphExec exec) {
    OK(cu.graph_launch(exec, stream));
    OK(cu.stream_synchronize(stream));
  }
  uint32_t value(size_t index = 0) {
    uint32_t read = 0;
    EXPECT_EQ(cu.memcpy_d_to_h(&read, word + 4 * index, 4), CUDA_SUCCESS);
    return read;
  }

  CUgraph graph = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr word = 0;
  std::vector<CUgraphExec> execs;
};

TEST_F(Graphs, NodesRunInTheOrderOfTheirEdges) {
  CUgraphNode first = fill(word, 1), second = fill(word, 2, {first}),
              third = fill(word, 3, {second});
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = word;
  copy.dstDevice = word + 4;
  copy.WidthInBytes = 4;
  copy.Height = copy.Depth = 1;
  CUgraphNode copied;
  OK(cu.graph_add_memcpy_node(&copied, graph, &third, 1, &copy, context));
  CUgraphExec exec = instantiate();
  run(exec);
  EXPECT_EQ(value(0), 3u);
  EXPECT_EQ(value(1), 3u);
  OK(cu.memset_d32(word, 0, 2));
  OK(cu.ctx_synchronize());
  run(exec);
  EXPECT_EQ(value(1), 3u);
}

TEST_F(Graphs, KernelsAndHostCallsRunOnEveryLaunch) {
  BODIES_ONLY();
  std::atomic<int> calls{0};
  auto call = [](void* count) { ++*static_cast<std::atomic<int>*>(count); };
  CUgraphNode counted = kernel("count", 5, {&word});
  host(call, &calls, {counted});
  CUgraphExec exec = instantiate();
  for (int i = 0; i < 3; i++) OK(cu.graph_launch(exec, stream));
  OK(cu.stream_synchronize(stream));
  EXPECT_EQ(value(), 15u);
  EXPECT_EQ(calls, 3);
}

TEST_F(Graphs, IndependentNodesRunSideBySide) {
  // Each of the two waits for the other: one after the other they would never end.
  struct Meeting {
    std::atomic<int> here{0};
  } meeting;
  auto meet = [](void* p) {
    auto* m = static_cast<Meeting*>(p);
    m->here++;
    m->here.notify_all();
    for (int seen; (seen = m->here) < 2;) m->here.wait(seen);
  };
  EMULATOR_ONLY("a real driver may run host calls one after the other");
  CUgraphNode root = empty();
  host(meet, &meeting, {root});
  host(meet, &meeting, {root});
  run(instantiate());
  EXPECT_EQ(meeting.here, 2);
}

TEST_F(Graphs, IndependentKernelsShareTheModelledDevice) {
  MODELLED_TIME_ONLY();
  EMULATOR_ONLY("the expected times are those of the tiny preset");
  uint64_t ns = 3'000'000;
  CUgraphNode root = kernel("busy", 1, {&ns});
  CUgraphNode left = kernel("busy", 1, {&ns}, {root}), right = kernel("busy", 1, {&ns}, {root});
  kernel("busy", 1, {&ns}, {left, right});
  CUgraphExec exec = instantiate();
  float elapsed = milliseconds(stream, [&] { OK(cu.graph_launch(exec, stream)); });
  // One block wants one multiprocessor of eight: the two in the middle do not wait for each other.
  EXPECT_NEAR(elapsed, 9.0, 0.01);
}

TEST_F(Graphs, LaunchesOfOneExecutableFollowEachOther) {
  MODELLED_TIME_ONLY();
  EMULATOR_ONLY("the expected times are those of the tiny preset");
  uint64_t ns = 2'000'000;
  kernel("busy", 1, {&ns});
  CUgraphExec exec = instantiate();
  CUstream other;
  CUevent done;
  OK(cu.stream_create(&other, CU_STREAM_NON_BLOCKING));
  OK(cu.event_create(&done, CU_EVENT_DISABLE_TIMING));
  float elapsed = milliseconds(stream, [&] {
    OK(cu.graph_launch(exec, stream));
    OK(cu.graph_launch(exec, other));
    OK(cu.event_record(done, other));
    OK(cu.stream_wait_event(stream, done, 0));
  });
  EXPECT_NEAR(elapsed, 4.0, 0.01);
  OK(cu.stream_destroy(other));
  OK(cu.event_destroy(done));
}

TEST_F(Graphs, StructureCanBeAskedFor) {
  CUgraphNode a = empty(), b = empty({a}), c = empty({a, b});
  size_t count = 0;
  OK(cu.graph_get_nodes(graph, nullptr, &count));
  EXPECT_EQ(count, 3u);
  CUgraphNode nodes[4] = {a, a, a, a};
  count = 4;
  OK(cu.graph_get_nodes(graph, nodes, &count));
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(nodes[3], nullptr);
  count = 1;
  OK(cu.graph_get_root_nodes(graph, nodes, &count));
  EXPECT_EQ(nodes[0], a);
  OK(cu.graph_get_edges(graph, nullptr, nullptr, nullptr, &count));
  EXPECT_EQ(count, 3u);
  CUgraphNode from[3], to[3];
  CUgraphEdgeData data[3];
  OK(cu.graph_get_edges(graph, from, to, data, &count));
  OK(cu.graph_get_edges_v1(graph, from, to, &count));
  EXPECT_EQ(cu.graph_get_edges(graph, from, nullptr, nullptr, &count), CUDA_ERROR_INVALID_VALUE);
  count = 3;
  OK(cu.graph_node_get_dependencies(c, nodes, nullptr, &count));
  EXPECT_EQ(count, 2u);
  count = 3;
  OK(cu.graph_node_get_dependent_nodes(a, nodes, nullptr, &count));
  EXPECT_EQ(count, 2u);
  CUgraphNodeType type;
  OK(cu.graph_node_get_type(a, &type));
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_EMPTY);
  OK(cu.graph_remove_dependencies(graph, &a, &c, nullptr, 1));
  EXPECT_EQ(cu.graph_remove_dependencies(graph, &a, &c, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  OK(cu.graph_destroy_node(b));
  EXPECT_EQ(cu.graph_node_get_type(b, &type), CUDA_ERROR_INVALID_VALUE);
  OK(cu.graph_get_edges(graph, nullptr, nullptr, nullptr, &count));
  EXPECT_EQ(count, 0u);
}

TEST_F(Graphs, MisuseIsAnError) {
  CUgraphNode a = empty(), none = nullptr;
  CUgraph other;
  OK(cu.graph_create(&other, 0));
  EXPECT_EQ(cu.graph_create(&other, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.graph_add_empty_node(&none, other, &a, 1), CUDA_ERROR_INVALID_VALUE);
  CUgraphNode twice[] = {a, a};
  EXPECT_EQ(cu.graph_add_empty_node(&none, graph, twice, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.graph_add_empty_node(&none, graph, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.graph_add_dependencies(graph, &a, &a, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.graph_add_empty_node(nullptr, graph, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  auto parameters = fill_of(word, 1);
  parameters.elementSize = 3;
  EXPECT_EQ(cu.graph_add_memset_node(&none, graph, nullptr, 0, &parameters, context),
            CUDA_ERROR_INVALID_VALUE);
  CUDA_HOST_NODE_PARAMS nobody{};
  EXPECT_EQ(cu.graph_add_host_node(&none, graph, nullptr, 0, &nobody), CUDA_ERROR_INVALID_VALUE);
  CUDA_KERNEL_NODE_PARAMS kernel_parameters{};
  EXPECT_NE(cu.graph_add_kernel_node(&none, graph, nullptr, 0, &kernel_parameters), CUDA_SUCCESS);
  OK(cu.graph_destroy(other));
  EMULATOR_ONLY("a real driver need not know a handle that is stale");
  EXPECT_EQ(cu.graph_destroy(other), CUDA_ERROR_INVALID_VALUE);
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cu.graph_instantiate(&exec, other, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.graph_launch(exec, stream), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Graphs, ACycleCannotBeInstantiated) {
  CUgraphNode a = empty(), b = empty({a});
  OK(cu.graph_add_dependencies(graph, &b, &a, nullptr, 1));
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cu.graph_instantiate_with_params(&exec, graph, &parameters), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(parameters.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
  EXPECT_TRUE(parameters.hErrNode_out == a || parameters.hErrNode_out == b);
}

TEST_F(Graphs, ParametersComeBackAsTheyWereGiven) {
  CUgraphNode filled = fill(word, 7);
  CUDA_MEMSET_NODE_PARAMS fill_parameters{};
  OK(cu.graph_memset_node_get_params(filled, &fill_parameters));
  EXPECT_EQ(fill_parameters.dst, word);
  EXPECT_EQ(fill_parameters.value, 7u);
  EXPECT_EQ(fill_parameters.elementSize, 4u);
  CUgraphNode counted = kernel("count", 3, {&word});
  CUDA_KERNEL_NODE_PARAMS parameters{};
  OK(cu.graph_kernel_node_get_params(counted, &parameters));
  EXPECT_EQ(parameters.func, function("count"));
  EXPECT_EQ(parameters.gridDimX, 3u);
  EXPECT_EQ(*static_cast<CUdeviceptr*>(parameters.kernelParams[0]), word);
  EXPECT_EQ(cu.graph_kernel_node_get_params(filled, &parameters), CUDA_ERROR_INVALID_VALUE);
  CUkernelNodeAttrValue attribute{};
  attribute.priority = -1;
  OK(cu.graph_kernel_node_set_attribute(counted, CU_LAUNCH_ATTRIBUTE_PRIORITY, &attribute));
  attribute.priority = 0;
  OK(cu.graph_kernel_node_get_attribute(counted, CU_LAUNCH_ATTRIBUTE_PRIORITY, &attribute));
  EXPECT_EQ(attribute.priority, -1);
}

TEST_F(Graphs, AnExecutableGraphCanBeChanged) {
  CUgraphNode filled = fill(word, 1);
  CUgraphExec exec = instantiate();
  auto parameters = fill_of(word, 9);
  OK(cu.graph_exec_memset_node_set_params(exec, filled, &parameters, context));
  run(exec);
  EXPECT_EQ(value(), 9u);
  run(instantiate());  // the graph itself did not change
  EXPECT_EQ(value(), 1u);
  OK(cu.graph_node_set_enabled(exec, filled, 0));
  unsigned enabled = 1;
  OK(cu.graph_node_get_enabled(exec, filled, &enabled));
  EXPECT_EQ(enabled, 0u);
  run(exec);
  EXPECT_EQ(value(), 1u);
  OK(cu.graph_node_set_enabled(exec, filled, 1));
  run(exec);
  EXPECT_EQ(value(), 9u);
}

TEST_F(Graphs, AKernelNodeTakesNewArguments) {
  BODIES_ONLY();
  CUgraphNode counted = kernel("count", 3, {&word});
  CUgraphExec exec = instantiate();
  CUdeviceptr other = word + 4;
  void* arguments[] = {&other};
  auto parameters = kernel_of("count", 4, arguments);
  OK(cu.graph_exec_kernel_node_set_params(exec, counted, &parameters));
  run(exec);
  EXPECT_EQ(value(0), 0u);
  EXPECT_EQ(value(1), 4u);
}

TEST_F(Graphs, AWholeExecutableGraphCanBeUpdated) {
  CUgraphNode a = fill(word, 1);
  fill(word + 4, 2, {a});
  CUgraphExec exec = instantiate();
  CUgraph other;
  OK(cu.graph_create(&other, 0));
  CUgraphNode b = fill(word, 11, {}, other), c = fill(word + 4, 12, {b}, other);
  CUgraphExecUpdateResultInfo info{};
  OK(cu.graph_exec_update(exec, other, &info));
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  run(exec);
  EXPECT_EQ(value(0), 11u);
  EXPECT_EQ(value(1), 12u);
  OK(cu.graph_remove_dependencies(other, &b, &c, nullptr, 1));
  EXPECT_EQ(cu.graph_exec_update(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  OK(cu.graph_destroy_node(c));
  CUgraphNode d;
  OK(cu.graph_add_empty_node(&d, other, &b, 1));
  EXPECT_EQ(cu.graph_exec_update(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
  EXPECT_EQ(info.errorNode, d);
  run(exec);
  EXPECT_EQ(value(0), 11u);
  OK(cu.graph_destroy(other));
}

TEST_F(Graphs, CloneAndChildAreCopies) {
  CUgraphNode filled = fill(word, 5);
  CUgraph clone, outer;
  CUgraphNode twin, child;
  OK(cu.graph_clone(&clone, graph));
  OK(cu.graph_node_find_in_clone(&twin, filled, clone));
  EXPECT_NE(twin, filled);
  OK(cu.graph_create(&outer, 0));
  OK(cu.graph_add_child_graph_node(&child, outer, nullptr, 0, graph));
  auto parameters = fill_of(word, 6);
  OK(cu.graph_memset_node_set_params(filled, &parameters));
  CUgraph inner;
  OK(cu.graph_child_graph_node_get_graph(child, &inner));
  EXPECT_NE(inner, graph);
  CUgraphNode after;
  auto second = fill_of(word + 4, 8);
  OK(cu.graph_add_memset_node(&after, outer, &child, 1, &second, context));
  CUgraphExec exec;
  OK(cu.graph_instantiate(&exec, outer, 0));
  run(exec);
  EXPECT_EQ(value(0), 5u);
  EXPECT_EQ(value(1), 8u);
  OK(cu.graph_exec_child_graph_node_set_params(exec, child, graph));
  run(exec);
  EXPECT_EQ(value(0), 6u);
  OK(cu.graph_exec_destroy(exec));
  OK(cu.graph_destroy(outer));
  OK(cu.graph_destroy(clone));
}

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

class Conditionals : public Graphs {
 protected:
  // A conditional node and its bodies.
  std::vector<CUgraph> conditional(CUgraphConditionalNodeType type, unsigned size,
                                   unsigned launch_value, std::vector<CUgraphNode> after = {}) {
    EXPECT_EQ(cu.graph_conditional_handle_create(&handle, graph, context, launch_value,
                                                 CU_GRAPH_COND_ASSIGN_DEFAULT),
              CUDA_SUCCESS);
    CUgraphNodeParams parameters{};
    parameters.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    parameters.conditional.handle = handle;
    parameters.conditional.type = type;
    parameters.conditional.size = size;
    parameters.conditional.ctx = context;
    EXPECT_EQ(cu.graph_add_node(&node, graph, after.data(), nullptr, after.size(), &parameters),
              CUDA_SUCCESS);
    CUgraph* bodies = parameters.conditional.phGraph_out;
    if (!bodies) return {};
    return {bodies, bodies + size};
  }
  CUgraphConditionalHandle handle = 0;
  CUgraphNode node = nullptr;
};

TEST_F(Conditionals, IfChoosesBetweenItsBodies) {
  for (unsigned chosen : {0u, 1u}) {
    auto bodies = conditional(CU_GRAPH_COND_TYPE_IF, 2, chosen);
    ASSERT_EQ(bodies.size(), 2u);
    fill(word + 4 * chosen, 10 + chosen, {}, bodies[0]);
    fill(word + 4 * chosen, 20 + chosen, {}, bodies[1]);
  }
  run(instantiate());
  EXPECT_EQ(value(0), 20u);
  EXPECT_EQ(value(1), 11u);
}

TEST_F(Conditionals, SwitchChoosesByItsValue) {
  auto bodies = conditional(CU_GRAPH_COND_TYPE_SWITCH, 3, 2);
  ASSERT_EQ(bodies.size(), 3u);
  for (unsigned i = 0; i < 3; i++) fill(word, 100 + i, {}, bodies[i]);
  run(instantiate());
  EXPECT_EQ(value(), 102u);
}

TEST_F(Conditionals, WhileRunsUntilAKernelEndsIt) {
  BODIES_ONLY();
  EMULATOR_ONLY("setting the value on a GPU needs the device runtime");
  auto bodies = conditional(CU_GRAPH_COND_TYPE_WHILE, 1, 1);
  ASSERT_EQ(bodies.size(), 1u);
  unsigned rounds = 5;
  kernel("count_down", 1, {&word, &rounds, &handle}, {}, bodies[0]);
  CUgraphExec exec = instantiate();
  run(exec);
  EXPECT_EQ(value(), 5u);
  OK(cu.memset_d32(word, 0, 1));
  OK(cu.ctx_synchronize());
  run(exec);
  EXPECT_EQ(value(), 5u);
}

TEST_F(Conditionals, HandlesAndBodiesHaveRules) {
  CUgraphConditionalHandle unused;
  OK(cu.graph_conditional_handle_create(&unused, graph, context, 0, 0));
  EXPECT_EQ(cu.graph_conditional_handle_create(&unused, graph, context, 0, 2),
            CUDA_ERROR_INVALID_VALUE);
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
  CUgraphExec exec;
  EXPECT_NE(cu.graph_instantiate_with_params(&exec, graph, &parameters), CUDA_SUCCESS);
  EXPECT_EQ(parameters.result_out, CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
  auto bodies = conditional(CU_GRAPH_COND_TYPE_IF, 1, 1);
  ASSERT_EQ(bodies.size(), 1u);
  CUgraphNodeParams again{};
  again.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  again.conditional.handle = handle;
  again.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
  again.conditional.size = 1;
  again.conditional.ctx = context;
  EXPECT_EQ(cu.graph_add_node(&node, graph, nullptr, nullptr, 0, &again), CUDA_ERROR_INVALID_VALUE);
  CUDA_HOST_NODE_PARAMS call{[](void*) {}, nullptr};
  EXPECT_NE(cu.graph_add_host_node(&node, bodies[0], nullptr, 0, &call), CUDA_SUCCESS);
  CUgraph clone;
  EXPECT_NE(cu.graph_clone(&clone, graph), CUDA_SUCCESS);
}

}  // namespace
}  // namespace lambent::conformance
