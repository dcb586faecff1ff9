// SharedMemory: the pages of one process's ring, made by the executor and mapped by both sides. A
// resource; throws and logs nothing.
#pragma once

#include "gpu/forward_ring/layout.h"

namespace lambent::forward_ring {

class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() { unmap(); }

  // Makes the memory, sealed so that no peer can cut or lengthen it and end us with a SIGBUS. The
  // descriptor to hand out is the caller's; -1 with errno if it cannot be made.
  int create();
  // Maps what a peer made; false if it is no such memory, or not sealed. Children do not inherit
  // the mapping.
  bool map(int fd);
  void unmap();
  // After fork, in the child, which has no mapping.
  void forget() { pages_ = nullptr; }

  SharedPages* pages() const { return pages_; }

 private:
  SharedPages* pages_ = nullptr;
};

}  // namespace lambent::forward_ring
