// AuditLog: what was changed and by whom, as lines of JSON in a file that is only appended to. Each
// line has the SHA-256 of the one before it, so that a line that was changed or taken out later is
// noticed. append() is called on the loop thread; a thread of its own writes.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/fd.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "core/domain/audit.h"

namespace lambent::tenants {

struct AuditLogOptions {
  std::string path;
  // A file that is larger is renamed to PATH.1 (replacing an older one) at start.
  Bytes most_size = Bytes::mib(256);
  // Of refused requests, which anyone can send: so many a second are written, of the others how
  // many they were.
  unsigned most_refusals_per_second = 20;
};

class AuditLog {
 public:
  // Runs a task on the loop thread; false: not now, try again.
  using Post = std::function<bool(std::function<void()>)>;

  // Goes on with the file's chain. `log` outlives it.
  static Result<std::unique_ptr<AuditLog>> open(AuditLogOptions options, LogSink& log, Post post);
  // Writes what is queued.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // `written` runs on the loop thread once the line is synced to the disk, or with an error when it
  // could not be, which the log says too: then the line is kept and tried again with the next one.
  // Refusals (status 401 and 403) above the bound are only counted.
  void append(AuditRecord record, AuditWritten written);

 private:
  struct Entry {
    AuditRecord record;
    AuditWritten written;
  };

  AuditLog(AuditLogOptions options, OwnedFd file, std::string chain, LogSink& log, Post post);
  bool is_counted_only(const AuditRecord& record);
  void serve();
  Result<void> write(const std::deque<Entry>& entries);
  void post(std::function<void()> task);

  const AuditLogOptions options_;
  const OwnedFd file_;
  LogSink& log_;
  const Post post_;
  // Of the loop thread.
  Duration second_{};  // since the Unix epoch, in which refusals are counted
  unsigned refusals_ = 0;
  // Of the writing thread.
  std::string chain_;  // SHA-256 of the last line, in hexadecimal digits
  std::deque<AuditRecord> unwritten_;
  Mutex mutex_;
  Condition wake_;
  std::deque<Entry> entries_ GUARDED_BY(mutex_);
  uint64_t suppressed_ GUARDED_BY(mutex_) = 0;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// Line numbers count from 1.
struct AuditCheck {
  // The first line that does not continue the one before.
  std::optional<size_t> broken;
  // Lines before it that are no records and so in no chain: cut off by a crash, or put there.
  std::vector<size_t> foreign;
};

// Lines come without the newline. A change of the last line cannot be seen: none continues it yet.
AuditCheck check_lines(const std::vector<std::string>& lines);

}  // namespace lambent::tenants
