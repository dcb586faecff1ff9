// A journal in memory, with the ways to spoil it that tests need. Included by tests only.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "decide/journal/recorder.h"
#include "decide/journal/replay.h"

namespace lambent::journal {

class MemoryJournal final : public SegmentSink {
 public:
  bool begin_segment() override {
    if (refuses) return false;
    segments.push_back(preamble());
    return true;
  }
  bool append(BlockType type, std::string payload) override {
    if (refuses) return false;
    append_block(segments.back(), type, payload);
    return true;
  }

  // From the segment with this index on.
  SegmentSource source(size_t first = 0) const {
    return [this, next = first]() mutable -> Result<std::unique_ptr<BlockReader>> {
      if (next >= segments.size()) return std::unique_ptr<BlockReader>();
      const std::string& bytes = segments[next];
      const std::string name = "segment " + std::to_string(next++);
      return std::make_unique<BlockReader>(
          name, [&bytes, at = size_t{0}](char* buffer, size_t size) mutable -> Result<size_t> {
            const size_t got = std::min(size, bytes.size() - at);
            std::copy_n(bytes.data() + at, got, buffer);
            at += got;
            return got;
          });
    };
  }

  std::vector<std::string> segments;
  bool refuses = false;
};

}  // namespace lambent::journal
