#include "gpu/shim/gate.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "core/base/plain_mutex.h"
#include "gpu/shim/monotonic.h"

namespace lambent::shim {
namespace {

// Who enters counts itself first and looks at the gate second; who shuts it does so first and looks
// at the counts second. All four are sequentially consistent, so at least one sees the other. Each
// thread counts in one of these lines, and few share one.
constexpr unsigned kLines = 16;
struct alignas(64) Line {
  uint64_t inside = 0;
};
Line lines[kLines];
bool is_shut = false;
unsigned next_line = 0;

struct Thread {
  Line* line = nullptr;
  unsigned depth = 0;          // of GateScopes
  unsigned passes_always = 0;  // of GateBypasses
};
[[gnu::tls_model("initial-exec")]] thread_local Thread self;

// Only for threads that wait, or that others wait for.
PlainMutex mutex;
PlainCondition opened;
PlainCondition entered;
PlainCondition left;
pid_t shut_by = 0;  // the process
uint64_t waiting_since GUARDED_BY(mutex) =
    0;  // the first wait at the shut gate; zero if no call has come
uint64_t gated_before GUARDED_BY(mutex) = 0;  // at gates that are open again
uint64_t openings GUARDED_BY(mutex) = 0;
unsigned waiting GUARDED_BY(mutex) = 0;   // for the next opening
unsigned released GUARDED_BY(mutex) = 0;  // waited for the last opening, and have not entered yet
bool fork_is_watched = false;

bool nobody_inside() {
  for (const Line& line : lines) {
    if (__atomic_load_n(&line.inside, __ATOMIC_SEQ_CST) != 0) return false;
  }
  return true;
}

// The threads that were inside or waiting, and the one that would open the gate, are the parent's.
void start_afresh_in_child() {
  for (Line& line : lines) __atomic_store_n(&line.inside, 0, __ATOMIC_SEQ_CST);
  __atomic_store_n(&is_shut, false, __ATOMIC_SEQ_CST);
  self.depth = 0;
  mutex.free_in_child();
  opened.free_in_child();
  entered.free_in_child();
  left.free_in_child();
  const PlainLock lock(mutex);
  waiting = 0;
  released = 0;
  waiting_since = 0;
  gated_before = 0;
}

void watch_forks() {
  if (__atomic_exchange_n(&fork_is_watched, true, __ATOMIC_ACQ_REL)) return;
  pthread_atfork(nullptr, nullptr, start_afresh_in_child);
}

[[gnu::noinline]] Line* choose_line() {
  watch_forks();
  return &lines[__atomic_fetch_add(&next_line, 1, __ATOMIC_RELAXED) % kLines];
}

// A thread that is cancelled here would leave with the mutex.
class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

void step_in(Line* line) { __atomic_fetch_add(&line->inside, 1, __ATOMIC_SEQ_CST); }

// Comes back inside. The gate cannot be shut meanwhile without the mutex, nor before all that an
// opening released are inside.
[[gnu::noinline]] void wait_and_step_in(Line* line) {
  // The child of a plain clone() runs no fork handlers, and its gate would stay shut.
  if (__atomic_load_n(&shut_by, __ATOMIC_RELAXED) != getpid()) {
    start_afresh_in_child();
    return step_in(line);
  }
  const NoCancellation no_cancellation;
  const PlainLock lock(mutex);
  if (!__atomic_load_n(&is_shut, __ATOMIC_SEQ_CST)) return step_in(line);
  if (waiting_since == 0) waiting_since = now_ns();
  ++waiting;
  const uint64_t opening = openings;
  while (openings == opening) opened.wait(mutex);
  step_in(line);
  if (--released == 0) entered.notify_all();
}

void step_out(Line* line) {
  __atomic_fetch_sub(&line->inside, 1, __ATOMIC_SEQ_CST);
  if (!__atomic_load_n(&is_shut, __ATOMIC_SEQ_CST)) return;
  const NoCancellation no_cancellation;
  const PlainLock lock(mutex);
  left.notify_all();
}

}  // namespace

GateScope::GateScope() {
  Thread& thread = self;
  if (thread.depth > 0 || thread.passes_always > 0) {
    ++thread.depth;
    return;
  }
  if (thread.line == nullptr) thread.line = choose_line();
  return_to_gate_scope();
}

// A depth of zero: this is a forked child, in which the count of its parent is gone.
GateScope::~GateScope() {
  Thread& thread = self;
  if (thread.depth == 0 || --thread.depth > 0 || thread.passes_always > 0) return;
  step_out(thread.line);
}

bool leave_gate_scope() {
  Thread& thread = self;
  if (thread.depth != 1 || thread.passes_always > 0) return false;
  thread.depth = 0;
  step_out(thread.line);
  return true;
}

void return_to_gate_scope() {
  Thread& thread = self;
  thread.depth = 1;
  step_in(thread.line);
  if (!__atomic_load_n(&is_shut, __ATOMIC_SEQ_CST)) return;
  step_out(thread.line);
  wait_and_step_in(thread.line);
  thread.depth = 1;  // which the child of a plain clone() has lost
}

GateBypass::GateBypass() { ++self.passes_always; }
GateBypass::~GateBypass() { --self.passes_always; }

// Who waited for the last opening goes first: a gate that is shut again and again starves no call.
void shut_gate() {
  watch_forks();
  const PlainLock lock(mutex);
  while (released != 0) entered.wait(mutex);
  __atomic_store_n(&shut_by, getpid(), __ATOMIC_RELAXED);
  __atomic_store_n(&is_shut, true, __ATOMIC_SEQ_CST);
}

bool wait_until_nobody_inside(uint64_t timeout_ns) {
  uint64_t end = 0;
  if (__builtin_add_overflow(now_ns(), timeout_ns, &end)) end = UINT64_MAX;
  timespec deadline = {};
  deadline.tv_sec = static_cast<time_t>(end / 1'000'000'000);
  deadline.tv_nsec = static_cast<long>(end % 1'000'000'000);
  const PlainLock lock(mutex);
  while (!nobody_inside()) {
    if (!left.wait_until(mutex, deadline)) {
      return nobody_inside();
    }
  }
  return true;
}

void open_gate() {
  const PlainLock lock(mutex);
  if (!__atomic_load_n(&is_shut, __ATOMIC_SEQ_CST)) return;
  if (waiting_since != 0) gated_before += now_ns() - waiting_since;
  waiting_since = 0;
  released = waiting;
  waiting = 0;
  ++openings;
  __atomic_store_n(&is_shut, false, __ATOMIC_SEQ_CST);
  opened.notify_all();
}

uint64_t gated_ns() {
  const PlainLock lock(mutex);
  return gated_before + (waiting_since == 0 ? 0 : now_ns() - waiting_since);
}

}  // namespace lambent::shim
