// LogStore: what functions printed, the newest bytes of each, addressed by an offset that only
// grows, and when each line began. Pure and bounded; used by the worker on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/domain/function_log.h"
#include "core/domain/limits.h"

namespace lambent::worker {

class LogStore {
 public:
  // The marks of lines count as bytes of the log, so that short lines take no more than long ones.
  explicit LogStore(Bytes per_function = limits::kLogPerFunction) : limit_(per_function) {}

  // Is told of everything that is appended or removed from now on; any may be empty.
  struct Observer {
    // `offset` is that of the text's first byte; a mark lies within the text.
    std::function<void(FunctionId, uint64_t offset, std::string_view text,
                       const std::optional<LogMark>& mark)>
        appended;
    std::function<void(FunctionId)> removed;
  };
  void observe(Observer observer) { observer_ = std::move(observer); }

  // `at`: since the Unix epoch. The offset of its first byte.
  uint64_t append(FunctionId function, std::string_view text, Duration at);
  void remove(FunctionId function);
  // What an earlier worker kept, in place of the present text. The observer is not told.
  void restore(FunctionId function, uint64_t first_offset, std::string text,
               std::vector<LogMark> marks = {});

  // At most `most` bytes from `offset`, or from the oldest kept: that is gone, or behind the end.
  LogChunk read(FunctionId function, uint64_t offset, size_t most) const;

 private:
  struct Log {
    // The text is trimmed only when it has grown to twice the limit: appending stays cheap.
    std::string text;
    uint64_t first_offset = 0;
    std::vector<LogMark> marks = {};  // the first may lie at first_offset, within a line
  };
  void trim(Log& log) const;

  Bytes limit_;
  Observer observer_;
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
