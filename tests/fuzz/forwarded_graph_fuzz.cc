// The executor reads graphs that a sandboxed process wrote: whatever lies in an image, the nodes
// that come out are well formed and lie within it, and reading ends.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "gpu/forward_ring/graph_image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent::forward_ring;
  const char* image = reinterpret_cast<const char*>(data);
  GraphReader reader(image, size);
  GraphNodeView node;
  size_t bytes = 0;
  while (reader.next(&node) == GraphReader::Next::kNode) {
    if (node.head.kind > GraphNodeKind::kWaitEvent) abort();
    for (uint32_t i = 0; i < node.head.dependencies; ++i) {
      if (node.dependency(i) + 1 >= reader.nodes()) abort();
    }
    if (node.data + node.head.data_bytes > image + size) abort();
    if (node.head.data_bytes > kMostInlineBytes) abort();
    bytes += node.head.bytes;
    if (bytes > size) abort();
  }
  return 0;
}
