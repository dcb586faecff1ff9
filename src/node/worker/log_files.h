// LogFiles: functions' logs on disk with the times of their lines, so that they outlive the worker.
// The loop thread hands over what was printed; a thread of its own writes it, a moment later and
// many functions at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/log.h"
#include "core/base/units.h"
#include "core/domain/tenant.h"
#include "core/loop/event_loop.h"
#include "core/loop/work_thread.h"
#include "node/worker/limits.h"
#include "node/worker/log_store.h"

namespace lambent::worker {

struct LogFilesOptions {
  std::string folder;
  // On disk, times included, and read back at start. The newest are kept.
  Bytes per_function = limits::kLogPerFunction;
  // What was not added to for so long is removed.
  Duration age = std::chrono::hours(24 * 7);
  // What is lost at most if the worker is killed.
  Duration written_after = milliseconds(200);
  // Of text that waits for the disk. Beyond it, what waits of the function that printed most is not
  // kept on disk.
  Bytes most_waiting = Bytes::mib(32);
  // Of all functions, that a start reads back.
  Bytes most_restored = Bytes::mib(256);
  // Whose a function is that was restored or prints; empty: all are of one tenant.
  std::function<TenantId(FunctionId)> tenant_of = {};
  // Whether the tenant may have so much more on disk; empty: it may. Where not, the newest text of
  // a function takes the place of its oldest.
  std::function<bool(TenantId, Bytes)> may_grow = {};
};

class LogFiles {
 public:
  // Makes the folder, for the worker's user only. All that is given outlives it.
  LogFiles(loop::EventLoop& loop, LogSink& log, LogFilesOptions options);
  // Writes what waits.
  ~LogFiles();
  LogFiles(const LogFiles&) = delete;
  LogFiles& operator=(const LogFiles&) = delete;

  // Reads back what was kept of these functions, the last written first, and removes what is of
  // others or too old. If the last worker was killed, their offsets go on far behind those that it
  // may have given to clients. Blocks; before the loop runs.
  void restore(const std::vector<FunctionId>& functions, LogStore& logs);

  // `offset` is that of the text's first byte in the function's log; a mark lies within the text.
  void append(FunctionId function, uint64_t offset, std::string_view text,
              const std::optional<LogMark>& mark);
  void remove(FunctionId function);

  // What a tenant's logs take on disk, times included, as of the last write.
  Bytes used(TenantId tenant) const;

 private:
  class Writer;
  // What the files of a function take.
  struct Size {
    FunctionId function;
    uint64_t bytes = 0;
  };
  struct Owned {
    TenantId tenant;
    uint64_t bytes = 0;
  };
  struct Text {
    uint64_t offset = 0;
    std::string bytes;
    std::vector<LogMark> marks = {};

    uint64_t end() const { return offset + bytes.size(); }
  };
  struct Waiting {
    std::vector<Text> texts;
    uint64_t size = 0;  // bytes of them together, marks included
    bool may_grow = true;
  };

  // Its owner is asked for when it is new.
  Owned& owned(FunctionId function);
  // Nothing of one that was removed.
  void note(const std::vector<Size>& sizes);
  void begin_life(uint64_t number);
  void drop_most_waiting();
  void wake();
  void write();
  void clean();

  loop::EventLoop& loop_;
  LogSink& log_;
  const LogFilesOptions options_;
  // Used by one task at a time: of the thread once it runs.
  const std::shared_ptr<Writer> writer_;
  loop::WorkThread thread_;
  std::unordered_map<FunctionId, Owned> owned_;
  std::unordered_map<TenantId, uint64_t> used_;
  std::unordered_map<FunctionId, Waiting> waiting_;
  Bytes waiting_bytes_;
  uint64_t dropped_bytes_ = 0;
  bool has_dropped_ = false;  // since the start
  bool writing_ = false;
  // Since restore(): how many of its predecessors were killed.
  std::optional<uint64_t> life_;
  loop::TimerId timer_;
  loop::TimerId cleaning_;
  bool timed_ = false;
  bool ending_ = false;  // what the options ask may be gone
};

}  // namespace lambent::worker
