// A stream: work done in order by a thread of its own, each piece stamped with the virtual instant
// at which it ended. Submitting is for any thread; the pieces run on the stream's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "core/base/mutex.h"
#include "emulator/emulated_cuda/clock_holds.h"
#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_cuda {

struct CapturePoint;

// The end of one piece of work, once it has ended. Shared by the stream, by events and by waiters.
class Completion {
 public:
  bool done() const { return state_.load(std::memory_order_acquire) & kDone; }
  void wait() const;
  int64_t finish_ns() const { return finish_ns_; }  // only once done
  // Waits as a stream does, whose next operation may begin at this end: the calling thread, a
  // stream's, holds the clock there when it wakes.
  void wait_as_stream();
  void complete(int64_t finish_ns, ClockHolds& holds);

 private:
  static constexpr uint32_t kDone = 1, kOneStream = 2;
  std::atomic<uint32_t> state_{0};  // kDone, and how many streams wait
  int64_t finish_ns_ = 0;
};

using CompletionPtr = std::shared_ptr<Completion>;

// Does the piece, which may begin at the given virtual instant, and returns when it ended.
using Work = std::function<int64_t(int64_t begin_ns)>;

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(void* context, unsigned flags, int priority, uint64_t id, ClockHolds& holds,
         bool legacy = false)
      : context(context),
        flags(flags),
        priority(priority),
        id(id),
        holds_(holds),
        legacy_(legacy) {}

  // So many pieces wait at most, some 50 MB of them, before those who ask wait for room, as with a
  // real driver. That one waits for some thousand; executors let clients queue up to 65,536 things,
  // and a thread that waits here does not hear that the function before them returned.
  static constexpr size_t kMostQueued = 128 * 1024;
  // Waits until fewer pieces than that wait. Threads that ask at the same time may exceed it by one
  // each. Called before a piece is submitted, without locks that the stream's thread may want.
  void wait_for_room() const;
  // Queues work behind everything queued before and behind `after`.
  CompletionPtr submit(int64_t now_ns, std::vector<CompletionPtr> after, Work work);
  // The end of what was queued last; null if nothing ever was.
  CompletionPtr last() const;
  bool idle() const;
  void wait() const;
  // What is queued is still done; then the thread ends.
  void close();

  // The one that every blocking stream of its context waits for, and that waits for them.
  bool is_legacy() const { return legacy_; }

  // Attributes as they were set, or as they are by default. Hints: nothing here depends on them.
  void get_attribute(CUstreamAttrID id, CUstreamAttrValue* value) const;
  void set_attribute(CUstreamAttrID id, const CUstreamAttrValue& value);
  void copy_attributes(const Stream& from);

  void* const context;
  const unsigned flags;
  const int priority;
  const uint64_t id;

  // Part of a capture (capture.h): the flag may be read by anybody, the rest under the graphs'
  // lock.
  std::atomic<bool> capturing{false};
  std::shared_ptr<CapturePoint> captured;

 private:
  struct Piece {
    int64_t submitted_ns;
    std::vector<CompletionPtr> after;
    Work work;
    CompletionPtr completion;
  };
  void run();

  ClockHolds& holds_;  // of the process, which outlives every stream
  const bool legacy_;
  mutable Mutex mutex_;
  std::map<int, CUstreamAttrValue> attributes_ GUARDED_BY(mutex_);
  Condition wake_;
  mutable Condition room_;
  std::deque<Piece> queue_ GUARDED_BY(mutex_);
  CompletionPtr last_ GUARDED_BY(mutex_);
  bool started_ GUARDED_BY(mutex_) = false;
  bool closing_ GUARDED_BY(mutex_) = false;
  std::atomic<bool> filled_{false};  // set by submit()
  // The thread has nothing to do and holds no clock.
  bool asleep_ GUARDED_BY(mutex_) = true;
  int64_t last_finish_ns_ = 0;  // only of the stream's thread
};

}  // namespace lambent::emulated_cuda
