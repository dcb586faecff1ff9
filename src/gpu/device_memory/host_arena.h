// HostArena: the host memory that takes a process's device memory while that is out. A process is
// out as a whole, so its memory is one row of bytes, laid over the segments one after the other.
// Not synchronised; owns no memory but its own list.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace lambent::device_memory {

// Bytes that adjoin, in one segment.
struct HostPiece {
  char* begin = nullptr;
  uint64_t bytes = 0;
};

class HostArena {
 public:
  HostArena() = default;
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;
  ~HostArena();

  // False if there is no memory to remember it.
  bool add_segment(char* begin, uint64_t bytes);
  // Forgets all segments; what lay there is lost.
  void clear() { size_ = bytes_ = 0; }
  uint64_t bytes() const { return bytes_; }
  // What lies `position` bytes into the row, `most` bytes of it or as far as the segment reaches.
  // Empty behind the end.
  HostPiece piece(uint64_t position, uint64_t most) const;

 private:
  struct Segment {
    char* begin;
    uint64_t bytes;
    uint64_t position;
  };
  Segment* segments_ = nullptr;
  size_t size_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace lambent::device_memory
