#include "gpu/device_memory/host_arena.h"

#include <stdlib.h>

namespace lambent::device_memory {

HostArena::~HostArena() { free(segments_); }

bool HostArena::add_segment(char* begin, uint64_t bytes) {
  void* segments = realloc(static_cast<void*>(segments_), (size_ + 1) * sizeof(Segment));
  if (segments == nullptr) return false;
  segments_ = static_cast<Segment*>(segments);
  segments_[size_++] = {begin, bytes, bytes_};
  bytes_ += bytes;
  return true;
}

HostPiece HostArena::piece(uint64_t position, uint64_t most) const {
  for (size_t i = 0; i < size_; ++i) {
    const Segment& segment = segments_[i];
    if (position - segment.position >= segment.bytes) continue;
    const uint64_t within = position - segment.position;
    const uint64_t left = segment.bytes - within;
    return {segment.begin + within, most < left ? most : left};
  }
  return {};
}

}  // namespace lambent::device_memory
