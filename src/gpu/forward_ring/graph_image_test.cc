#include "gpu/forward_ring/graph_image.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lambent::forward_ring {
namespace {

using Next = GraphReader::Next;

GraphNodeHead head_of(GraphNodeKind kind, uint32_t dependencies = 0, uint32_t data_bytes = 0) {
  GraphNodeHead head;
  head.kind = kind;
  head.dependencies = dependencies;
  head.data_bytes = data_bytes;
  return head;
}

void add(std::string* image, const GraphNodeHead& head, const std::vector<uint32_t>& after = {},
         const std::string& data = {}) {
  const size_t at = image->size();
  image->resize(at + graph_node_bytes(after.size(), data.size()));
  write_graph_node(image->data() + at, head, after.data(), data.data());
}

// What reading all of it ends with.
Next end_of(const std::string& image) {
  GraphReader reader(image.data(), image.size());
  GraphNodeView node;
  Next next = reader.next(&node);
  while (next == Next::kNode) next = reader.next(&node);
  return next;
}

TEST(GraphImage, NodesComeOutAsTheyWentIn) {
  std::string image;
  GraphNodeHead kernel = head_of(GraphNodeKind::kKernel, 1, 5);
  kernel.flags = kGraphNodeCooperative;
  kernel.priority = -3;
  kernel.arguments[5] = 77;
  add(&image, head_of(GraphNodeKind::kEmpty));
  add(&image, kernel, {0}, "hello");
  add(&image, head_of(GraphNodeKind::kFill, 2), {1, 0});
  GraphReader reader(image.data(), image.size());
  GraphNodeView node;
  ASSERT_EQ(reader.next(&node), Next::kNode);
  EXPECT_EQ(node.head.kind, GraphNodeKind::kEmpty);
  ASSERT_EQ(reader.next(&node), Next::kNode);
  EXPECT_EQ(node.head.flags, kGraphNodeCooperative);
  EXPECT_EQ(node.head.priority, -3);
  EXPECT_EQ(node.head.arguments[5], 77u);
  EXPECT_EQ(node.dependency(0), 0u);
  EXPECT_EQ(std::string(node.data, node.head.data_bytes), "hello");
  ASSERT_EQ(reader.next(&node), Next::kNode);
  EXPECT_EQ(node.dependency(0), 1u);
  EXPECT_EQ(node.dependency(1), 0u);
  EXPECT_EQ(reader.next(&node), Next::kEnd);
  EXPECT_EQ(reader.nodes(), 3u);
}

TEST(GraphImage, WhatIsNoGraphIsMalformed) {
  std::string good;
  add(&good, head_of(GraphNodeKind::kEmpty));
  EXPECT_EQ(end_of(good), Next::kEnd);
  EXPECT_EQ(end_of(good.substr(0, good.size() - 1)), Next::kMalformed);
  EXPECT_EQ(end_of(good + "more"), Next::kMalformed);
  for (const uint32_t dependency : {uint32_t{1}, UINT32_MAX}) {
    std::string image = good;
    add(&image, head_of(GraphNodeKind::kEmpty, 1), {dependency});  // itself, or one to come
    EXPECT_EQ(end_of(image), Next::kMalformed);
  }
  std::string image;
  add(&image, head_of(GraphNodeKind::kFill, 0, 3), {}, "abc");  // only kernels have data
  EXPECT_EQ(end_of(image), Next::kMalformed);
  image = good;
  const uint16_t kind = 99;
  image.replace(offsetof(GraphNodeHead, kind), sizeof(kind), reinterpret_cast<const char*>(&kind),
                sizeof(kind));
  EXPECT_EQ(end_of(image), Next::kMalformed);
  image = good;
  const uint32_t many = UINT32_MAX;  // whose sum with the rest would overflow
  image.replace(offsetof(GraphNodeHead, data_bytes), sizeof(many),
                reinterpret_cast<const char*>(&many), sizeof(many));
  EXPECT_EQ(end_of(image), Next::kMalformed);
}

TEST(GraphImage, HasSoManyNodesAndNoMore) {
  std::string image;
  for (uint32_t i = 0; i < kMostGraphNodes; ++i) add(&image, head_of(GraphNodeKind::kEmpty));
  EXPECT_EQ(end_of(image), Next::kEnd);
  add(&image, head_of(GraphNodeKind::kEmpty));
  EXPECT_EQ(end_of(image), Next::kMalformed);
}

}  // namespace
}  // namespace lambent::forward_ring
