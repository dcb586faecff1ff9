// A graph as it crosses from a process to the executor: its nodes one behind the other, each after
// those that it depends on. Written by forward_client, read by forward_server, which believes
// nothing of it: the reader gives out nodes that are well formed, or says that there is none.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/forward_ring/calls.h"

namespace lambent::forward_ring {

constexpr uint32_t kMostGraphNodes = 1 << 16;
constexpr uint32_t kGraphNodeArguments = 6;

// Arguments, in their order:
//   Kernel: function, grid x | y << 32, grid z | block x << 32, block y | z << 32, dynamic bytes;
//           the parameters
//   Copy: to, to pitch, from, from pitch, width, height; all on the device
//   Fill: to, pitch, value, bytes of an element, width in elements, height
//   Host: the token of what the process runs
//   RecordEvent, WaitEvent: event
enum class GraphNodeKind : uint16_t {
  kEmpty,
  kKernel,
  kCopy,
  kFill,
  kHost,
  kRecordEvent,
  kWaitEvent,
};

// Of a kernel.
constexpr uint16_t kGraphNodeCooperative = 1, kGraphNodeHasPriority = 2;

// What a node begins with; the numbers of the nodes that it depends on follow, four bytes each,
// then its data.
struct GraphNodeHead {
  uint32_t bytes = 0;  // of all of it, a multiple of kGraphNodeStep
  GraphNodeKind kind = GraphNodeKind::kEmpty;
  uint16_t flags = 0;
  uint32_t dependencies = 0;
  uint32_t data_bytes = 0;
  int32_t priority = 0;
  uint32_t reserved = 0;
  uint64_t arguments[kGraphNodeArguments] = {};
};
constexpr size_t kGraphNodeStep = 8;
static_assert(sizeof(GraphNodeHead) % kGraphNodeStep == 0);

// How long a node is.
size_t graph_node_bytes(size_t dependencies, size_t data_bytes);
// Writes a node, whose other fields are set, to where there is room for it. Returns its length.
size_t write_graph_node(char* to, GraphNodeHead head, const uint32_t* dependencies,
                        const void* data);

// A node that was read; it points into the image.
struct GraphNodeView {
  GraphNodeHead head;
  const char* dependencies = nullptr;  // may lie anywhere: use dependency()
  const char* data = nullptr;

  uint32_t dependency(size_t index) const;
};

class GraphReader {
 public:
  GraphReader(const char* image, size_t bytes) : image_(image), bytes_(bytes) {}

  enum class Next : uint8_t { kEnd, kNode, kMalformed };
  // The next node: of a known kind, its dependencies before it, its data no longer than a call's.
  Next next(GraphNodeView* node);
  // Of those that were read.
  uint32_t nodes() const { return nodes_; }

 private:
  const char* image_;
  size_t bytes_, at_ = 0;
  uint32_t nodes_ = 0;
};

}  // namespace lambent::forward_ring
