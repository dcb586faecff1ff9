#include "gpu/forward_server/graph_checker.h"

#include <algorithm>
#include <cstring>

namespace lambent::forward_server {
namespace {

using forward_ring::GraphNodeKind;
using forward_ring::GraphNodeView;
using forward_ring::GraphReader;

constexpr size_t kMostImageBytes = size_t{64} << 20;

}  // namespace

CUresult GraphChecker::read(const std::string& image, uint64_t context,
                            std::vector<GraphNode>* nodes, uint64_t* wrong) const {
  if (image.size() > kMostImageBytes) return CUDA_ERROR_OUT_OF_MEMORY;
  GraphReader reader(image.data(), image.size());
  GraphNodeView view;
  for (;;) {
    const auto next = reader.next(&view);
    if (next == GraphReader::Next::kEnd) return CUDA_SUCCESS;
    if (next == GraphReader::Next::kMalformed) return CUDA_ERROR_INVALID_VALUE;
    nodes->emplace_back();
    if (const CUresult result = read_node(view, context, &nodes->back())) {
      *wrong = nodes->size() - 1;
      return result;
    }
  }
}

CUresult GraphChecker::read_node(const GraphNodeView& view, uint64_t context,
                                 GraphNode* node) const {
  node->head = view.head;
  for (uint32_t i = 0; i < view.head.dependencies; ++i) {
    node->dependencies.push_back(view.dependency(i));
  }
  const auto& a = view.head.arguments;
  switch (view.head.kind) {
    case GraphNodeKind::kEmpty:
      return CUDA_SUCCESS;
    case GraphNodeKind::kKernel:
      return read_kernel(view, context, node);
    case GraphNodeKind::kCopy:
      if (a[4] == 0 || a[5] == 0) return CUDA_ERROR_INVALID_VALUE;
      return owns_memory_of(*node) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case GraphNodeKind::kFill: {
      uint64_t row = 0;
      if (a[3] != 1 && a[3] != 2 && a[3] != 4) return CUDA_ERROR_INVALID_VALUE;
      if (a[4] == 0 || a[5] == 0 || a[0] % a[3] != 0) return CUDA_ERROR_INVALID_VALUE;
      if (__builtin_mul_overflow(a[4], a[3], &row)) return CUDA_ERROR_INVALID_VALUE;
      return owns_memory_of(*node) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    case GraphNodeKind::kHost:
      return (a[0] & forward_ring::kGraphToken) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case GraphNodeKind::kRecordEvent:
    case GraphNodeKind::kWaitEvent: {
      const SharedEvent* event = events_.find(a[0]);
      if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
      node->event = *event;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult GraphChecker::read_kernel(const GraphNodeView& view, uint64_t context,
                                   GraphNode* node) const {
  const Function* function = functions_.find(view.head.arguments[0]);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (modules_.context_of(function->module) != context) return CUDA_ERROR_INVALID_CONTEXT;
  if (view.head.data_bytes != function->parameter_bytes) return CUDA_ERROR_INVALID_VALUE;
  node->function = function->function;
  node->module = function->module;
  node->places = function->parameters;
  node->parameters.assign(view.data, view.data + view.head.data_bytes);
  for (size_t at = 0; at + sizeof(CUdeviceptr) <= view.head.data_bytes; at += sizeof(CUdeviceptr)) {
    CUdeviceptr word = 0;
    std::memcpy(&word, view.data + at, sizeof(word));
    if (word != 0 && ranges_.contains(word, 1)) node->pointers.push_back(word);
  }
  return CUDA_SUCCESS;
}

bool GraphChecker::owns_memory_of(const GraphNode& node) const {
  const auto& a = node.head.arguments;
  if (node.head.kind == GraphNodeKind::kCopy) {
    return ranges_.contains_rows(a[0], a[1], a[4], a[5]) &&
           ranges_.contains_rows(a[2], a[3], a[4], a[5]);
  }
  if (node.head.kind == GraphNodeKind::kFill) {
    return ranges_.contains_rows(a[0], a[1], a[4] * a[3], a[5]);
  }
  return std::all_of(node.pointers.begin(), node.pointers.end(),
                     [this](CUdeviceptr word) { return ranges_.contains(word, 1); });
}

bool GraphChecker::may_launch(ExecutableGraph& graph) const {
  if (graph.checked_at == ranges_.erasures()) return true;
  for (const GraphNode& node : graph.nodes()) {
    if (node.is_enabled && !owns_memory_of(node)) return false;
  }
  note_checked(graph);
  return true;
}

}  // namespace lambent::forward_server
