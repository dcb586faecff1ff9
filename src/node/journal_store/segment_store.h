// SegmentStore: writes the segments of a journal as files of one folder, on a thread of its own,
// and removes the oldest so that they never grow beyond a bound. Its sink is called on one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>

#include "core/base/fd.h"
#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "decide/journal/limits.h"
#include "decide/journal/recorder.h"

namespace lambent::journal_store {

struct SegmentStoreOptions {
  std::string folder;
  Bytes most_size = Bytes::mib(1024);  // of all segments together
  // True: who appends waits until there is room (a simulation has time). False: it is told that the
  // block is lost (a worker has none).
  bool waits = false;
};

// A segment takes this share of all, so that removing the oldest one takes few events away.
inline Bytes segment_size_of(Bytes most_size) {
  return Bytes(most_size.count / limits::kJournalSegments);
}

class SegmentStore final : public journal::SegmentSink {
 public:
  // Makes the folder if need be. ALREADY_EXISTS if another worker writes there; PERMISSION_DENIED
  // or another code if it cannot be written. `clock` and `log` outlive the store.
  static Result<std::unique_ptr<SegmentStore>> open(SegmentStoreOptions options, const Clock& clock,
                                                    LogSink& log);
  // Writes what is queued.
  ~SegmentStore() override;
  SegmentStore(const SegmentStore&) = delete;
  SegmentStore& operator=(const SegmentStore&) = delete;

  bool begin_segment() override;
  bool append(journal::BlockType type, std::string payload) override;
  bool append_events(journal::EventBatch& batch) override;
  void flush() override;
  // Waits until everything appended so far is in the files. An error if it could not be written.
  Result<void> sync();

 private:
  struct Work {
    bool begins = false;
    journal::BlockType type = journal::BlockType::kEvents;
    std::string payload;
    journal::EventBatch events;  // instead of a payload
    size_t bytes() const { return payload.size() + events.bytes(); }
  };

  SegmentStore(SegmentStoreOptions options, const Clock& clock, LogSink& log, OwnedFd lock);
  bool enqueue(Work& work, MutexLock& guard) REQUIRES(mutex_);
  void serve();
  Result<void> perform(const Work& work);
  Result<void> begin_file();
  void make_room();
  void fail(const Error& error) REQUIRES(mutex_);

  SegmentStoreOptions options_;
  const Clock& clock_;
  LogSink& log_;
  OwnedFd lock_;

  Mutex mutex_;
  Condition changed_;
  std::deque<Work> queue_ GUARDED_BY(mutex_);
  size_t queued_bytes_ GUARDED_BY(mutex_) = 0;
  // To be filled again: memory that is there already.
  std::vector<journal::EventBatch> spare_ GUARDED_BY(mutex_);
  bool busy_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::optional<Error> failure_ GUARDED_BY(mutex_);
  Instant failed_at_ GUARDED_BY(mutex_){};

  // Of the thread.
  OwnedFd file_;
  uint64_t number_ = 0;
  journal::BatchWriter writer_;
  std::string scratch_;
  std::thread thread_;
};

}  // namespace lambent::journal_store
