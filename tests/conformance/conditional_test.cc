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
