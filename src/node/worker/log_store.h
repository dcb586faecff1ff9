// LogStore: what functions printed, the newest bytes of each, addressed by an offset that only
// grows. Pure and bounded; used by the worker on the loop thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/domain/limits.h"

namespace lambent::worker {

class LogStore {
 public:
  explicit LogStore(Bytes per_function = limits::kLogPerFunction) : limit_(per_function) {}

  void append(FunctionId function, std::string_view text);
  void remove(FunctionId function) { logs_.erase(function); }

  struct Chunk {
    std::string text;
    uint64_t next_offset = 0;
  };
  // At most `most` bytes from `offset`, or from the oldest byte kept if those are gone.
  Chunk read(FunctionId function, uint64_t offset, size_t most) const;

 private:
  struct Log {
    // The text is trimmed only when it has grown to twice the limit: appending stays cheap.
    std::string text;
    uint64_t first_offset = 0;
  };
  Bytes limit_;
  std::unordered_map<FunctionId, Log> logs_;
};

// The last limits::kLogTail bytes that an invocation printed.
class LogTail {
 public:
  void clear() { text_.clear(); }
  void append(std::string_view text);
  std::string text() const;

 private:
  std::string text_;
};

}  // namespace lambent::worker
