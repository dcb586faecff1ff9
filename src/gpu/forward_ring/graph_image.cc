#include "gpu/forward_ring/graph_image.h"

#include <cstring>

namespace lambent::forward_ring {

size_t graph_node_bytes(size_t dependencies, size_t data_bytes) {
  const size_t bytes = sizeof(GraphNodeHead) + dependencies * sizeof(uint32_t) + data_bytes;
  return (bytes + kGraphNodeStep - 1) / kGraphNodeStep * kGraphNodeStep;
}

size_t write_graph_node(char* to, GraphNodeHead head, const uint32_t* dependencies,
                        const void* data) {
  const size_t list_bytes = head.dependencies * sizeof(uint32_t);
  const size_t bytes = graph_node_bytes(head.dependencies, head.data_bytes);
  head.bytes = static_cast<uint32_t>(bytes);
  std::memset(to, 0, bytes);
  std::memcpy(to, &head, sizeof(head));
  if (list_bytes > 0) std::memcpy(to + sizeof(head), dependencies, list_bytes);
  if (head.data_bytes > 0) std::memcpy(to + sizeof(head) + list_bytes, data, head.data_bytes);
  return bytes;
}

uint32_t GraphNodeView::dependency(size_t index) const {
  uint32_t number = 0;
  std::memcpy(&number, dependencies + index * sizeof(number), sizeof(number));
  return number;
}

GraphReader::Next GraphReader::next(GraphNodeView* node) {
  if (at_ == bytes_) return Next::kEnd;
  const size_t left = bytes_ - at_;
  if (left < sizeof(GraphNodeHead) || nodes_ == kMostGraphNodes) return Next::kMalformed;
  GraphNodeHead& head = node->head;
  std::memcpy(&head, image_ + at_, sizeof(head));
  if (head.bytes > left || head.kind > GraphNodeKind::kWaitEvent) return Next::kMalformed;
  // A longer list than there are nodes before it would name one of them twice.
  if (head.dependencies > nodes_ || head.data_bytes > kMostInlineBytes) return Next::kMalformed;
  if (head.data_bytes > 0 && head.kind != GraphNodeKind::kKernel) return Next::kMalformed;
  if (head.bytes != graph_node_bytes(head.dependencies, head.data_bytes)) return Next::kMalformed;
  node->dependencies = image_ + at_ + sizeof(head);
  node->data = node->dependencies + head.dependencies * sizeof(uint32_t);
  for (uint32_t i = 0; i < head.dependencies; ++i) {
    if (node->dependency(i) >= nodes_) return Next::kMalformed;
  }
  at_ += head.bytes;
  ++nodes_;
  return Next::kNode;
}

}  // namespace lambent::forward_ring
