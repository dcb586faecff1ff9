#include "core/loop/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/mutex.h"
#include "core/loop/limits.h"
#include "core/loop/timer_heap.h"

namespace lambent::loop {
namespace {

constexpr int kEventsPerTurn = 256;
constexpr uint64_t kWakeToken = 0;

uint32_t epoll_mask(bool readable, bool writable) {
  return (readable ? uint32_t{EPOLLIN} : 0u) | (writable ? uint32_t{EPOLLOUT} : 0u);
}

// epoll_wait with a time-out finer than a millisecond where the kernel has it (5.11).
int wait_for_events(int epoll_fd, epoll_event* events, Duration timeout) {
  static constexpr auto kMost = std::chrono::hours(1);
  if (timeout > kMost) timeout = kMost;
#ifdef SYS_epoll_pwait2
  timespec spec{};
  spec.tv_sec = timeout.count() / 1'000'000'000;
  spec.tv_nsec = timeout.count() % 1'000'000'000;
  const auto count =
      syscall(SYS_epoll_pwait2, epoll_fd, events, kEventsPerTurn, &spec, nullptr, size_t{0});
  if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return static_cast<int>(count);
#endif
  const auto rounded_up = (timeout.count() + 999'999) / 1'000'000;
  return epoll_wait(epoll_fd, events, kEventsPerTurn, static_cast<int>(rounded_up));
}

}  // namespace

struct EventLoop::State {
  using ReadyCallback = std::function<void(Readiness)>;

  struct WatchSlot {
    ReadyCallback callback;
    int fd = -1;
    uint32_t generation = 0;
    bool used = false;
  };

  explicit State(const Clock& the_clock)
      : clock(the_clock),
        epoll_fd(epoll_create1(EPOLL_CLOEXEC)),
        wake_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        now(the_clock.now()) {
    CHECK(epoll_fd.valid(), "no epoll descriptor: too many open files?");
    CHECK(wake_fd.valid(), "no eventfd: too many open files?");
    epoll_event event{};
    // Told of each write to it once, and so never read: its counter has room for 2^64 of them.
    event.events = EPOLLIN | EPOLLET;
    event.data.u64 = kWakeToken;
    CHECK(epoll_ctl(epoll_fd.get(), EPOLL_CTL_ADD, wake_fd.get(), &event) == 0,
          "cannot watch the eventfd");
  }

  WatchSlot* find(uint64_t token) {
    const auto index = static_cast<uint32_t>(token);
    if (index >= watches.size()) return nullptr;
    WatchSlot& slot = watches[index];
    return slot.used && slot.generation == token >> 32 ? &slot : nullptr;
  }

  void wake() {
    const uint64_t one = 1;
    // Can only fail when the counter is full, and then the loop wakes anyway.
    [[maybe_unused]] const auto written = write(wake_fd.get(), &one, sizeof one);
  }

  void dispatch(const epoll_event& event);
  void run_mailbox();
  void run_due_timers();
  void tear_down();

  const Clock& clock;
  OwnedFd epoll_fd;
  OwnedFd wake_fd;
  Instant now;
  bool in_turn = false;

  std::vector<WatchSlot> watches;
  std::vector<uint32_t> free_watches;
  TimerHeap timers;
  std::vector<uint64_t> due;
  std::vector<Task> batch;

  // For what other threads touch: the mailbox, and whether the loop may be asleep and so needs a
  // write to the eventfd to notice. Held for no call out.
  Mutex mutex;
  std::vector<Task> mailbox GUARDED_BY(mutex);
  bool sleeping GUARDED_BY(mutex) = false;
  bool stopping GUARDED_BY(mutex) = false;
  bool closed GUARDED_BY(mutex) = false;
};

void EventLoop::State::dispatch(const epoll_event& event) {
  if (event.data.u64 == kWakeToken) return;
  WatchSlot* slot = find(event.data.u64);
  if (slot == nullptr) return;  // reset by an earlier callback of this turn
  // The callback is moved out while it runs: it may destroy its own watch, or make others.
  ReadyCallback callback = std::move(slot->callback);
  Readiness ready;
  ready.readable = (event.events & EPOLLIN) != 0;
  ready.writable = (event.events & EPOLLOUT) != 0;
  ready.hung_up = (event.events & (EPOLLHUP | EPOLLERR)) != 0;
  callback(ready);
  slot = find(event.data.u64);
  if (slot != nullptr) slot->callback = std::move(callback);
}

void EventLoop::State::run_mailbox() {
  {
    const MutexLock lock(mutex);
    sleeping = false;
    batch.swap(mailbox);
  }
  for (Task& task : batch) {
    task();
    task = nullptr;
  }
  batch.clear();
}

void EventLoop::State::run_due_timers() {
  // Collected first, so that a timer that arms itself again for the past does not hold the turn.
  timers.collect_due(now, due);
  for (const uint64_t handle : due) {
    if (Task task = timers.take(handle)) task();
  }
  due.clear();
}

// Destroys what callbacks and tasks hold while the loop can still answer: destroying one may reset
// watches, cancel timers and post.
void EventLoop::State::tear_down() {
  {
    const MutexLock lock(mutex);
    closed = true;
    batch.swap(mailbox);
  }
  batch.clear();
  while (!timers.empty()) timers.take_any();
  for (size_t i = 0; i < watches.size(); i++) {
    ReadyCallback callback = std::move(watches[i].callback);
    callback = nullptr;
  }
}

Watch::Watch(Watch&& other) noexcept
    : loop_(std::exchange(other.loop_, nullptr)), token_(other.token_) {}

Watch& Watch::operator=(Watch&& other) noexcept {
  if (this != &other) {
    reset();
    loop_ = std::exchange(other.loop_, nullptr);
    token_ = other.token_;
  }
  return *this;
}

Watch::~Watch() { reset(); }

void Watch::update(bool readable, bool writable) {
  if (loop_ == nullptr) return;
  EventLoop::State::WatchSlot* slot = loop_->state_->find(token_);
  CHECK(slot != nullptr, "a watch that its loop does not know");
  epoll_event event{};
  event.events = epoll_mask(readable, writable);
  event.data.u64 = token_;
  epoll_ctl(loop_->state_->epoll_fd.get(), EPOLL_CTL_MOD, slot->fd, &event);
}

void Watch::reset() {
  if (loop_ == nullptr) return;
  EventLoop::State& state = *std::exchange(loop_, nullptr)->state_;
  EventLoop::State::WatchSlot* slot = state.find(token_);
  CHECK(slot != nullptr, "a watch that its loop does not know");
  epoll_ctl(state.epoll_fd.get(), EPOLL_CTL_DEL, slot->fd, nullptr);
  slot->used = false;
  state.free_watches.push_back(static_cast<uint32_t>(token_));
  // What the callback holds may itself hold watches: it goes last, when the slot is in order.
  const EventLoop::State::ReadyCallback callback = std::exchange(slot->callback, nullptr);
}

EventLoop::EventLoop(const Clock& clock) : state_(std::make_unique<State>(clock)) {}

EventLoop::~EventLoop() { state_->tear_down(); }

void EventLoop::run() {
  for (;;) {
    {
      const MutexLock lock(state_->mutex);
      if (std::exchange(state_->stopping, false)) return;
    }
    run_once(Duration::max());
  }
}

void EventLoop::stop() {
  bool wake;
  {
    const MutexLock lock(state_->mutex);
    state_->stopping = true;
    wake = std::exchange(state_->sleeping, false);
  }
  if (wake) state_->wake();
}

void EventLoop::run_once(Duration most) {
  State& state = *state_;
  CHECK(!state.in_turn, "run_once() called from a callback of the same loop");
  Duration timeout = most;
  if (const Instant next = state.timers.next(); next != kNever) {
    timeout = std::min(timeout, next - state.clock.now());
  }
  if (timeout > Duration::zero()) {
    const MutexLock lock(state.mutex);
    if (state.mailbox.empty() && !state.stopping) {
      state.sleeping = true;
    } else {
      timeout = Duration::zero();
    }
  }
  epoll_event events[kEventsPerTurn];
  const int count =
      wait_for_events(state.epoll_fd.get(), events, std::max(timeout, Duration::zero()));
  CHECK(count >= 0 || errno == EINTR, "waiting for events failed");
  state.in_turn = true;
  state.now = state.clock.now();
  for (int i = 0; i < count; i++) state.dispatch(events[i]);
  state.run_mailbox();
  state.run_due_timers();
  state.in_turn = false;
}

bool EventLoop::post(Task task) {
  bool wake;
  {
    const MutexLock lock(state_->mutex);
    if (state_->closed || state_->mailbox.size() >= limits::kMailbox) return false;
    state_->mailbox.push_back(std::move(task));
    wake = std::exchange(state_->sleeping, false);
  }
  if (wake) state_->wake();
  return true;
}

Watch EventLoop::watch(int fd, bool readable, bool writable,
                       std::function<void(Readiness)> callback) {
  State& state = *state_;
  uint32_t index;
  if (state.free_watches.empty()) {
    index = static_cast<uint32_t>(state.watches.size());
    state.watches.emplace_back();
  } else {
    index = state.free_watches.back();
    state.free_watches.pop_back();
  }
  State::WatchSlot& slot = state.watches[index];
  if (++slot.generation == 0) slot.generation = 1;  // so that no token is kWakeToken
  const uint64_t token = uint64_t{slot.generation} << 32 | index;
  epoll_event event{};
  event.events = epoll_mask(readable, writable);
  event.data.u64 = token;
  Watch watch;
  if (epoll_ctl(state.epoll_fd.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    state.free_watches.push_back(index);
    return watch;
  }
  slot.callback = std::move(callback);
  slot.fd = fd;
  slot.used = true;
  watch.loop_ = this;
  watch.token_ = token;
  return watch;
}

TimerId EventLoop::call_at(Instant instant, Task task) {
  return TimerId(state_->timers.add(instant, std::move(task)));
}

TimerId EventLoop::call_after(Duration delay, Task task) {
  const Instant from = state_->in_turn ? state_->now : state_->clock.now();
  return call_at(delay < kNever - from ? from + delay : kNever, std::move(task));
}

void EventLoop::cancel(TimerId timer) { state_->timers.take(timer.value); }

Instant EventLoop::now() const { return state_->now; }

const Clock& EventLoop::clock() const { return state_->clock; }

}  // namespace lambent::loop
