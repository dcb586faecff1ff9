#include "emulator/emulated_cuda/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace lambent::emulated_cuda {
namespace {

struct Fixture : testing::Test {
  GraphIndex index;
  std::shared_ptr<Graph> graph = std::make_shared<Graph>(&index, index.next_id++);

  GraphNode* add(std::vector<GraphNode*> after = {}) {
    std::vector<Edge> edges;
    for (GraphNode* node : after) edges.push_back({node, {}});
    EXPECT_EQ(graph->check_dependencies(edges), CUDA_SUCCESS);
    return graph->add(index.next_id++, Operation(Empty{}), nullptr, edges);
  }
};

using GraphData = Fixture;

TEST_F(GraphData, OrderPutsDependenciesFirst) {
  std::mt19937 random(7);
  std::vector<GraphNode*> nodes;
  for (int i = 0; i < 200; i++) {
    std::vector<GraphNode*> after;
    for (GraphNode* node : nodes) {
      if (random() % 50 == 0) after.push_back(node);
    }
    nodes.push_back(add(after));
  }
  // Edges against the order of creation too, as long as they make no cycle.
  for (int i = 0; i < 100; i++) {
    GraphNode *from = nodes[random() % nodes.size()], *to = nodes[random() % nodes.size()];
    if (Graph::reaches({{from, {}}}, {{to, {}}})) continue;
    graph->connect(from, to, {});
  }
  auto order = graph->topological_order();
  ASSERT_EQ(order.size(), nodes.size());
  auto place = [&](GraphNode* node) { return std::find(order.begin(), order.end(), node); };
  for (GraphNode* node : nodes) {
    for (const Edge& edge : node->dependencies) EXPECT_LT(place(edge.node), place(node));
  }
}

TEST_F(GraphData, ACycleHasNoOrderAndNamesANodeOfIt) {
  GraphNode *a = add(), *b = add({a}), *c = add({b});
  EXPECT_EQ(graph->connect(c, b, {}), CUDA_SUCCESS);
  GraphNode* stuck = nullptr;
  EXPECT_TRUE(graph->topological_order(&stuck).empty());
  EXPECT_TRUE(stuck == b || stuck == c);
}

TEST_F(GraphData, RemovingANodeTakesItsEdgesAlong) {
  GraphNode *a = add(), *b = add({a}), *c = add({a, b});
  graph->remove(b);
  EXPECT_EQ(graph->edge_count(), 1u);
  EXPECT_EQ(c->dependencies.size(), 1u);
  EXPECT_EQ(a->dependents, std::vector<GraphNode*>{c});
  EXPECT_EQ(index.nodes.count(b), 0u);
}

TEST_F(GraphData, EdgesThatAskForMoreThanOrderAreRefused) {
  GraphNode *a = add(), *b = add();
  CUgraphEdgeData programmatic{0, 0, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, {}};
  EXPECT_EQ(graph->connect(a, b, programmatic), CUDA_ERROR_NOT_SUPPORTED);
  CUgraphEdgeData garbage{0, 0, 0, {0, 0, 1, 0, 0}};
  EXPECT_EQ(graph->connect(a, b, garbage), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(graph->connect(a, b, {}), CUDA_SUCCESS);
  EXPECT_EQ(graph->connect(a, b, {}), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphData, ACloneIsDeepAndKnowsItsOriginals) {
  auto inner = std::make_shared<Graph>(&index, index.next_id++);
  GraphNode* deep = inner->add(index.next_id++, Operation(Empty{}), nullptr, {});
  GraphNode* a = add();
  GraphNode* child = graph->add(index.next_id++, ChildGraph{inner}, nullptr, {{a, {}}});
  std::unordered_map<uint64_t, GraphNode*> twins;
  auto clone = graph->clone(&index, &index.next_id, &twins);
  ASSERT_EQ(twins.size(), 3u);
  EXPECT_NE(twins[deep->id]->graph, inner.get());
  EXPECT_EQ(twins[deep->id]->graph->parent, clone.get());
  EXPECT_EQ(twins[child->id]->dependencies[0].node, twins[a->id]);
  EXPECT_EQ(twins[a->id]->original_id, a->id);
  size_t named = index.nodes.size();
  clone = nullptr;
  twins.clear();
  EXPECT_EQ(index.nodes.size(), named - 3);
}

TEST_F(GraphData, BodiesTakeOnlySomeKindsOfNodes) {
  EXPECT_TRUE(graph->accepts(CU_GRAPH_NODE_TYPE_HOST));
  graph->body = true;
  Graph inner(&index, index.next_id++);
  inner.parent = graph.get();
  EXPECT_FALSE(inner.accepts(CU_GRAPH_NODE_TYPE_HOST));
  EXPECT_FALSE(inner.accepts(CU_GRAPH_NODE_TYPE_MEM_ALLOC));
  EXPECT_TRUE(inner.accepts(CU_GRAPH_NODE_TYPE_KERNEL));
}

}  // namespace
}  // namespace lambent::emulated_cuda
