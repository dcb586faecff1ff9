#include "gpu/shim/agent.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/plain_mutex.h"
#include "driver_slots.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/environment.h"
#include "gpu/shim/gate.h"
#include "gpu/shim/grants.h"
#include "gpu/shim/log.h"
#include "gpu/shim/memory_socket.h"
#include "gpu/shim/monotonic.h"
#include "gpu/shim/mover.h"
#include "gpu/shim/touches.h"
#include "gpu/shim/undestroyed.h"

namespace lambent::shim {
namespace {

using protocol::MemoryMessage;
using protocol::MemoryMessageKind;
using protocol::MemoryMode;
using protocol::MemoryMoveStatus;

constexpr size_t kMostPathBytes = 256;
// Between two tries: of memory to come home where no worker is left to ask it to, and to be taken
// in by a worker that is stopped.
constexpr long kPauseNs = 100'000'000;

// Processes, so that a child, however it was made, begins again: in which a thread has set out to
// greet the worker, and in which that is done, as far as it can be.
pid_t starting_in = 0;
pid_t started_in = 0;
bool fork_is_watched = false;
// The agent's from its beginning on.
Undestroyed<MemorySocket> to_worker;
// Read from the environment by the thread that starts the agent; the program may change it later.
char worker[kMostPathBytes];
char link_path[kMostPathBytes];

MemoryMode mode_of_this_process() {
  Residency* residency = Residency::current();
  return residency == nullptr ? MemoryMode::kOff : residency->mode();
}

// The agent's, and of those who fetch: one at a time. Null before the agent begins and after it has
// ended.
PlainMutex mover_mutex;
Mover* mover_of_agent GUARDED_BY(mover_mutex) = nullptr;
bool keeps_working_set = false;

// A thread of the program's does our work: code that interrupted or ended it might wait for what
// it holds.
class Undisturbed {
 public:
  Undisturbed() {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation_);
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &signals_);
  }
  ~Undisturbed() {
    pthread_sigmask(SIG_SETMASK, &signals_, nullptr);
    pthread_setcancelstate(cancellation_, nullptr);
  }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  int cancellation_ = PTHREAD_CANCEL_ENABLE;
  sigset_t signals_ = {};
};

// What it asks of the driver meanwhile is no business of a capture.
class Borrowed {
 public:
  Borrowed() { REAL(cuThreadExchangeStreamCaptureMode, int*)(&capture_mode_); }
  ~Borrowed() { REAL(cuThreadExchangeStreamCaptureMode, int*)(&capture_mode_); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

 private:
  const Undisturbed undisturbed_;
  const GateBypass gate_bypass_;
  InsideHook inside_;
  int capture_mode_ = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
};

// What the worker asks for; false if it was nothing that has an answer.
bool obey(const MemoryMessage& command, Mover& mover, MemoryMessage* answer) {
  const PlainLock lock(mover_mutex);
  const uint64_t since = now_ns();
  Moved moved;
  mover.tell_what_is_held();
  switch (command.kind) {
    case MemoryMessageKind::kMoveOut:
      moved = command.depth == static_cast<uint32_t>(protocol::MemoryMoveDepth::kContext)
                  ? mover.move_out_with_context()
                  : mover.move_out();
      break;
    case MemoryMessageKind::kMoveIn:
      moved = mover.move_in();
      break;
    case MemoryMessageKind::kPrepare:
      mover.prepare();
      return false;
    default:
      return false;
  }
  answer->kind = MemoryMessageKind::kMoved;
  answer->sequence = command.sequence;
  answer->status = static_cast<uint32_t>(moved.status);
  answer->bytes = moved.bytes;
  answer->left_bytes = moved.left_bytes;
  answer->offloaded_bytes = moved.offloaded_bytes;
  answer->duration_ns = now_ns() - since;
  return true;
}

// Who waits for the grant fetches; what comes too late for that is fetched here.
void take(const MemoryMessage& grant, Mover& mover) {
  Residency* memory = Residency::current();
  if (memory == nullptr || !take_grant(*memory, grant.bytes)) return;
  const PlainLock lock(mover_mutex);
  mover.fetch();
}

// Until the worker is gone, or the program has closed the connection.
void serve(MemorySocket& socket, Mover& mover) {
  while (socket.is_open()) {
    MemoryMessage command;
    int descriptor = -1;
    const Received received = socket.receive(-1, &command, &descriptor);
    if (descriptor >= 0) close(descriptor);
    if (received != Received::kMessage) continue;
    if (command.kind == MemoryMessageKind::kGrantMemory) {
      take(command, mover);
      continue;
    }
    MemoryMessage answer;
    if (obey(command, mover, &answer)) socket.send(answer);
  }
  socket.shut();
}

void begin_working_set(Mover& mover) {
  const PlainLock lock(mover_mutex);
  mover.keep_working_set();
  mover_of_agent = &mover;
  note_touches_of(Residency::current());
}

// In the child there is no agent that would be answered.
void start_afresh_in_child() {
  mover_mutex.free_in_child();
  const PlainLock lock(mover_mutex);
  mover_of_agent = nullptr;
  grants_start_afresh_in_child();
}

// A peer that hears of something that this process did with memory can know it by then.
// Zero, or the error.
int greet_worker() {
  MemoryMessage hello;
  hello.process = static_cast<uint32_t>(getpid());
  hello.mode = static_cast<uint32_t>(mode_of_this_process());
  const int error = to_worker->open(worker);
  if (error != 0) return error;
  return to_worker->send(hello) ? 0 : EPIPE;
}

void pause_before_another_try() {
  const timespec pause = {0, kPauseNs};
  nanosleep(&pause, nullptr);
}

// On the agent's thread, which can wait for a worker that is stopped.
bool is_greeted() {
  int error = to_worker->is_open() ? 0 : greet_worker();
  while (error == EAGAIN) {
    pause_before_another_try();
    error = greet_worker();
  }
  return error == 0;
}

void serve_worker(Mover& mover, bool fetches) {
  MemorySocket wishes;
  if (fetches && wishes.copy(to_worker.value)) ask_on(&wishes);
  serve(to_worker.value, mover);
  ask_on(nullptr);
}

// A thread that was granted memory may still be fetching.
bool is_out_after_a_try(Mover& mover) {
  const PlainLock lock(mover_mutex);
  return mover.is_out() && mover.move_in().status == MemoryMoveStatus::kNoDeviceMemory;
}

void* run_agent(void*) {
  prctl(PR_SET_NAME, "lambent-memory");
  if (!is_greeted()) return nullptr;
  const GateBypass gate_bypass;
  InsideHook inside;
  // What this thread asks of the driver is no business of a capture on another.
  int capture_mode = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
  REAL(cuThreadExchangeStreamCaptureMode, int*)(&capture_mode);
  const MemoryMode mode = mode_of_this_process();
  DeviceLink link(link_path[0] == '\0' ? nullptr : link_path, mode);
  Mover mover(link);
  const bool fetches = keeps_working_set && mode == MemoryMode::kVmm;
  if (fetches) begin_working_set(mover);
  do {
    serve_worker(mover, fetches);
  } while (to_worker->was_taken_away() && is_greeted());
  // No worker is left to bring the memory home, and the program may be waiting for it. What is
  // offloaded is reached where it is.
  while (is_out_after_a_try(mover)) pause_before_another_try();
  const PlainLock lock(mover_mutex);
  mover_of_agent = nullptr;
  return nullptr;
}

void begin_agent() {
  const int error = greet_worker();
  if (error != 0) log_line("cannot connect to %s: %s", worker, strerror(error));
  if (error != 0 && error != EAGAIN) return;
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  const int refusal = pthread_create(&thread, &detached, run_agent, nullptr);
  pthread_attr_destroy(&detached);
  if (refusal == 0) return;
  log_line("no thread to move memory: %s", strerror(refusal));
  to_worker->shut();
}

void keep(const char* path, char (&kept)[kMostPathBytes]) {
  kept[0] = '\0';
  if (path == nullptr) return;
  if (strlen(path) < sizeof(kept)) {
    strcpy(kept, path);
  } else {
    log_line("cannot connect to %s: %s", path, strerror(ENAMETOOLONG));
  }
}

void start() {
  keep(worker_path(), worker);
  keep(device_link_path(), link_path);
  if (worker[0] == '\0') return;
  keeps_working_set = working_set_is_wanted();
  if (!__atomic_exchange_n(&fork_is_watched, true, __ATOMIC_ACQ_REL)) {
    pthread_atfork(nullptr, nullptr, start_afresh_in_child);
  }
  begin_agent();
}

// Another thread is at it, and gives up after a second where it is not taken in.
void wait_until_started_in(pid_t self) {
  pid_t seen = 0;
  while ((seen = __atomic_load_n(&started_in, __ATOMIC_ACQUIRE)) != self) {
    syscall(SYS_futex, &started_in, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
  }
}

}  // namespace

void fetch_what_is_wanted() {
  const Borrowed borrowed;
  Residency* memory = Residency::current();
  if (memory == nullptr || !is_granted(*memory)) return;
  const PlainLock lock(mover_mutex);
  if (mover_of_agent != nullptr) mover_of_agent->fetch();
}

void program_uses_the_driver() {
  const pid_t self = getpid();
  if (__atomic_load_n(&started_in, __ATOMIC_ACQUIRE) == self) return;
  const Undisturbed undisturbed;
  pid_t known = __atomic_load_n(&starting_in, __ATOMIC_ACQUIRE);
  if (known == self || !__atomic_compare_exchange_n(&starting_in, &known, self, false,
                                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    return wait_until_started_in(self);
  }
  start();
  __atomic_store_n(&started_in, self, __ATOMIC_RELEASE);
  syscall(SYS_futex, &started_in, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace lambent::shim
