// Graphs made node by node: their order, their structure, and what can be changed in them.
#include <atomic>

#include "conformance/graph_fixture.h"

namespace lambent::conformance {
namespace {

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

// Two kernels that want the whole device begin at one instant: the more urgent one goes first.
TEST_F(Graphs, KernelsHaveThePriorityOfTheLaunchUnlessTheirOwnIsAskedFor) {
  MODELLED_TIME_ONLY();
  EMULATOR_ONLY("the expected times are those of the tiny preset");
  uint64_t ns = 10'000'000, short_ns = 1'000'000;
  kernel("busy", 1000, {&ns});  // of the least priority
  CUstream other, urgent;
  CUevent start, end;
  OK(cu.stream_create_with_priority(&other, CU_STREAM_NON_BLOCKING, -2));
  OK(cu.stream_create_with_priority(&urgent, CU_STREAM_NON_BLOCKING, -5));
  OK(cu.event_create(&start, 0));
  OK(cu.event_create(&end, 0));
  for (unsigned flags : {0u, unsigned{CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY}}) {
    CUgraphExec exec = instantiate(flags);
    Gate gate;
    OK(gate.close(stream));
    OK(launch(function("busy"), 1, 32, stream, {&short_ns}));  // covers the others' overhead
    OK(cu.event_record(start, stream));
    OK(cu.stream_wait_event(other, start, 0));
    OK(launch(function("busy"), 1000, 32, other, {&ns}));
    OK(cu.stream_wait_event(urgent, start, 0));
    OK(cu.graph_launch(exec, urgent));
    OK(cu.event_record(end, urgent));
    gate.open();
    OK(cu.ctx_synchronize());
    float elapsed = -1;
    OK(cu.event_elapsed_time_v2(&elapsed, start, end));
    EXPECT_NEAR(elapsed, flags ? 20.0 : 10.0, 0.01) << flags;
  }
  OK(cu.event_destroy(start));
  OK(cu.event_destroy(end));
  OK(cu.stream_destroy(other));
  OK(cu.stream_destroy(urgent));
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

}  // namespace
}  // namespace lambent::conformance
