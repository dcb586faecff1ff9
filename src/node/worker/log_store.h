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
#include "node/worker/limits.h"

namespace lambent::worker {

// Text of a log without a gap.
struct LogPiece {
  uint64_t first_offset = 0;
  std::string text = {};
  std::vector<LogMark> marks = {};  // the first may lie at first_offset, within a line

  uint64_t end() const { return first_offset + text.size(); }
};

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
  // What earlier workers kept, in order and none but the first without text, in place of the
  // present text. What is appended begins at `next`, not before their end. The observer is not
  // told.
  void restore(FunctionId function, std::vector<LogPiece> pieces, uint64_t next);

  // At most `most` bytes from `offset`, or from what is kept behind it: that is gone. Behind the
  // end means from the oldest. A chunk ends where text is missing; the next one begins behind that.
  LogChunk read(FunctionId function, uint64_t offset, size_t most) const;

 private:
  // Appending is to the last, the only one that may have no text. The text is trimmed only when all
  // have grown to twice the limit: appending stays cheap.
  struct Log {
    std::vector<LogPiece> pieces = std::vector<LogPiece>(1);
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
