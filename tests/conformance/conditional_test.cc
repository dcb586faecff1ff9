// Nodes that choose whether, which and how often a graph within the graph runs.
#include "conformance/graph_fixture.h"

namespace lambent::conformance {
namespace {

class Conditionals : public Graphs {
 protected:
  // A conditional node and its bodies.
  std::vector<CUgraph> conditional(CUgraphConditionalNodeType type, unsigned size,
                                   unsigned launch_value, std::vector<CUgraphNode> after = {}) {
    EXPECT_EQ(cu.graph_conditional_handle_create(&handle, graph, context, launch_value,
                                                 CU_GRAPH_COND_ASSIGN_DEFAULT),
              CUDA_SUCCESS);
    return conditional_in(graph, type, size, after);
  }
  std::vector<CUgraph> conditional_in(CUgraph into, CUgraphConditionalNodeType type, unsigned size,
                                      std::vector<CUgraphNode> after = {}) {
    CUgraphNodeParams parameters{};
    parameters.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    parameters.conditional.handle = handle;
    parameters.conditional.type = type;
    parameters.conditional.size = size;
    parameters.conditional.ctx = context;
    EXPECT_EQ(cu.graph_add_node(&node, into, after.data(), nullptr, after.size(), &parameters),
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

TEST_F(Conditionals, AKernelBeforeItDecidesWhetherAnIfRuns) {
  BODIES_ONLY();
  // Without a value to begin with, what an earlier kernel says is all that counts.
  for (unsigned chosen : {0u, 1u}) {
    OK(cu.graph_conditional_handle_create(&handle, graph, context, 0, 0));
    CUgraphNode decides = kernel("set_condition", 1, {&handle, &chosen});
    auto bodies = conditional_in(graph, CU_GRAPH_COND_TYPE_IF, 1, {decides});
    ASSERT_EQ(bodies.size(), 1u);
    fill(word + 4 * chosen, 7, {}, bodies[0]);
  }
  run(instantiate());
  EXPECT_EQ(value(0), 0u);
  EXPECT_EQ(value(1), 7u);
}

TEST_F(Conditionals, ALoopInALoopIsArmedAnewInEachRoundByAKernel) {
  BODIES_ONLY();
  auto outer = conditional(CU_GRAPH_COND_TYPE_WHILE, 1, 1);
  ASSERT_EQ(outer.size(), 1u);
  CUgraphConditionalHandle outer_handle = handle;
  OK(cu.graph_conditional_handle_create(&handle, graph, context, 0, 0));
  unsigned yes = 1, inner_rounds = 4, outer_rounds = 3;
  CUdeviceptr inner_count = word + 4, sum = word + 8;
  CUgraphNode arms = kernel("set_condition", 1, {&handle, &yes}, {}, outer[0]);
  CUgraphNode clears = fill(inner_count, 0, {arms}, outer[0]);
  auto inner = conditional_in(outer[0], CU_GRAPH_COND_TYPE_WHILE, 1, {clears});
  ASSERT_EQ(inner.size(), 1u);
  CUgraphNode inner_node = node;
  CUgraphNode counts =
      kernel("count_down", 1, {&inner_count, &inner_rounds, &handle}, {}, inner[0]);
  kernel("count", 1, {&sum}, {counts}, inner[0]);
  kernel("count_down", 1, {&word, &outer_rounds, &outer_handle}, {inner_node}, outer[0]);
  run(instantiate());
  EXPECT_EQ(value(0), 3u);
  EXPECT_EQ(value(1), 4u);
  EXPECT_EQ(value(2), 12u);
}

TEST_F(Conditionals, AnUpdateReachesTheKernelsOfABody) {
  BODIES_ONLY();
  auto bodies = conditional(CU_GRAPH_COND_TYPE_WHILE, 1, 1);
  ASSERT_EQ(bodies.size(), 1u);
  unsigned rounds = 5;
  CUgraphNode counts = kernel("count_down", 1, {&word, &rounds, &handle}, {}, bodies[0]);
  CUgraphExec exec = instantiate();
  run(exec);
  CUdeviceptr other = word + 4;
  rounds = 3;
  void* parameters[] = {&other, &rounds, &handle};
  const auto changed = kernel_of("count_down", 1, parameters);
  OK(cu.graph_kernel_node_set_params(counts, &changed));
  CUgraphExecUpdateResultInfo outcome{};
  OK(cu.graph_exec_update(exec, graph, &outcome));
  run(exec);
  EXPECT_EQ(value(0), 5u);
  EXPECT_EQ(value(1), 3u);
}

TEST_F(Conditionals, AFaultInABodyEndsItsLoop) {
  BODIES_ONLY();
  EMULATOR_ONLY("a GPU's whole process may be beyond use");
  auto bodies = conditional(CU_GRAPH_COND_TYPE_WHILE, 1, 1);
  ASSERT_EQ(bodies.size(), 1u);
  CUdeviceptr nowhere = 16;
  kernel("store", 1, {&nowhere}, {}, bodies[0]);
  CUgraphExec exec = instantiate();
  OK(cu.graph_launch(exec, stream));
  EXPECT_EQ(cu.stream_synchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cu.graph_launch(exec, stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  OK(cu.ctx_destroy(context));
  context = nullptr;
  graph = nullptr;
  stream = nullptr;
  execs.clear();
}

TEST_F(Conditionals, InModelModeALoopTakesTheTimeOfOneRound) {
  if (!driver().emulated || !driver().model_mode)
    GTEST_SKIP() << "kernels run, and end their loops";
  auto bodies = conditional(CU_GRAPH_COND_TYPE_WHILE, 1, 1);
  ASSERT_EQ(bodies.size(), 1u);
  fill(word, 9, {}, bodies[0]);
  run(instantiate());
  EXPECT_EQ(value(), 9u);
}

TEST_F(Conditionals, AHandleBelongsToItsGraphAndItsSizeToItsType) {
  CUgraph other;
  OK(cu.graph_create(&other, 0));
  OK(cu.graph_conditional_handle_create(&handle, graph, context, 0, 0));
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  parameters.conditional.handle = handle;
  parameters.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
  parameters.conditional.size = 1;
  parameters.conditional.ctx = context;
  EXPECT_NE(cu.graph_add_node(&node, other, nullptr, nullptr, 0, &parameters), CUDA_SUCCESS);
  for (const auto& [type, size] :
       {std::pair{CU_GRAPH_COND_TYPE_WHILE, 2u}, std::pair{CU_GRAPH_COND_TYPE_WHILE, 0u},
        std::pair{CU_GRAPH_COND_TYPE_IF, 3u}, std::pair{CU_GRAPH_COND_TYPE_SWITCH, 0u}}) {
    parameters.conditional.type = type;
    parameters.conditional.size = size;
    EXPECT_NE(cu.graph_add_node(&node, graph, nullptr, nullptr, 0, &parameters), CUDA_SUCCESS);
  }
  OK(cu.graph_destroy(other));
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
