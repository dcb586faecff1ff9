#include "gpu/shim/grants.h"

#include <pthread.h>
#include <time.h>

#include "gpu/shim/locked.h"
#include "gpu/shim/memory_socket.h"
#include "gpu/shim/monotonic.h"
#include "gpu/shim/residency.h"

namespace lambent::shim {
namespace {

// How long a program waits for room to be made for it before it goes on without, and how long after
// a refusal it asks again.
constexpr uint64_t kGracePeriodNs = 2'000'000'000;
constexpr uint64_t kAskAgainNs = 1'000'000'000;

// The mutex guards the rest, and is held for no call of the driver.
struct Asking {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t answered = PTHREAD_COND_INITIALIZER;
  MemorySocket* socket = nullptr;
  bool is_asked = false;
  bool is_overdue = false;  // nobody waits for that answer any more
  uint64_t answers = 0;
  int waiting = 0;             // threads
  uint64_t not_before_ns = 0;  // after a refusal
};
Asking asking;

// With the mutex held, here and below.
bool may_ask() {
  return asking.socket != nullptr && !asking.is_overdue && now_ns() >= asking.not_before_ns;
}

// False: it was not answered in time.
bool wait_for_answer(uint64_t end_ns) {
  timespec deadline = {};
  deadline.tv_sec = static_cast<time_t>(end_ns / 1'000'000'000);
  deadline.tv_nsec = static_cast<long>(end_ns % 1'000'000'000);
  const uint64_t before = asking.answers;
  ++asking.waiting;
  int error = 0;
  while (asking.answers == before && asking.socket != nullptr && error == 0) {
    error = pthread_cond_clockwait(&asking.answered, &asking.mutex, CLOCK_MONOTONIC, &deadline);
  }
  --asking.waiting;
  return asking.answers != before;
}

}  // namespace

void ask_on(MemorySocket* socket) {
  Locked lock(asking.mutex);
  asking.socket = socket;
  // What was asked on another is answered by nobody.
  asking.is_asked = false;
  asking.is_overdue = false;
  pthread_cond_broadcast(&asking.answered);
}

// An answer is for all that wait, and may not be enough for one that came later.
bool is_granted(Residency& memory) {
  Locked lock(asking.mutex);
  const uint64_t end_ns = now_ns() + kGracePeriodNs;
  if (may_ask()) memory.named().want_fetch();
  while (may_ask()) {
    const uint64_t wanted = memory.budget().wanted_bytes();
    const uint64_t room = memory.budget().room_on_device();
    if (wanted <= room) return true;
    if (!asking.is_asked) {
      protocol::MemoryMessage wish;
      wish.kind = protocol::MemoryMessageKind::kWantMemory;
      wish.bytes = wanted - room;
      if (!asking.socket->send(wish)) return false;
      asking.is_asked = true;
    }
    if (!wait_for_answer(end_ns)) asking.is_overdue = asking.is_asked;
  }
  return false;
}

bool take_grant(Residency& memory, uint64_t bytes) {
  memory.budget().grant(bytes);
  Locked lock(asking.mutex);
  asking.is_asked = false;
  asking.is_overdue = false;
  ++asking.answers;
  asking.not_before_ns = bytes == 0 ? now_ns() + kAskAgainNs : 0;
  pthread_cond_broadcast(&asking.answered);
  return bytes > 0 && asking.waiting == 0;
}

// Whoever waited or held the mutex is the parent's.
void grants_start_afresh_in_child() { asking = Asking{}; }

}  // namespace lambent::shim
