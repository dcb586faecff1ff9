// EventLoop: one thread that waits on file descriptors, timers and a bounded mailbox (epoll,
// eventfd). Everything runs on the thread that calls run(), except post() and stop(), which any
// thread may call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/base/fd.h"
#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"

namespace lambent::loop {

using TimerId = StrongId<struct TimerTag, uint64_t>;

// What a descriptor is watched for, and what was seen. hung_up (both directions are gone, or an
// error) is always reported; a peer that only ended its sending shows as readable.
struct Readiness {
  bool readable = false;
  bool writable = false;
  bool hung_up = false;
};

class EventLoop;

// Stops watching when destroyed; may be destroyed or moved at any time on the loop thread, also
// from its own callback, but before its descriptor is closed and before the loop ends. The
// descriptor stays its owner's.
class Watch {
 public:
  Watch() = default;
  Watch(Watch&& other) noexcept;
  Watch& operator=(Watch&& other) noexcept;
  ~Watch();
  // Changes what is watched for; with neither, only hang-up is reported.
  void update(bool readable, bool writable);
  void reset();
  bool active() const { return loop_ != nullptr; }

 private:
  friend class EventLoop;
  EventLoop* loop_ = nullptr;
  uint64_t token_ = 0;
};

class EventLoop {
 public:
  using Task = std::function<void()>;

  explicit EventLoop(const Clock& clock);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs until stop(), or not at all if stop() came first.
  void run();
  void stop();
  // Handles what is due now and waits at most `most` for more; for tests and programs that own the
  // loop.
  void run_once(Duration most);

  // Runs `task` on the loop thread, in the order of posting; false if the mailbox
  // (limits::kMailbox) is full. Any thread.
  bool post(Task task);

  // The watch is not active if the kernel cannot watch `fd` (a regular file).
  Watch watch(int fd, bool readable, bool writable, std::function<void(Readiness)> callback);
  TimerId call_at(Instant instant, Task task);
  TimerId call_after(Duration delay, Task task);
  void cancel(TimerId timer);  // nothing happens if it already ran

  // The time at the start of this turn of the loop: cheap, and the same for all that happens in it.
  Instant now() const;
  const Clock& clock() const;

 private:
  friend class Watch;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lambent::loop
