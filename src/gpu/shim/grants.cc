#include "gpu/shim/grants.h"

#include <pthread.h>
#include <time.h>

#include "core/base/plain_mutex.h"
#include "gpu/shim/memory_socket.h"
#include "gpu/shim/monotonic.h"
#include "gpu/shim/residency.h"

namespace lambent::shim {
namespace {

// How long a program waits for room to be made for it before it goes on without, and how long after
// a refusal it asks again.
constexpr uint64_t kGracePeriodNs = 2'000'000'000;
constexpr uint64_t kAskAgainNs = 1'000'000'000;

PlainMutex mutex;  // held for no call of the driver
PlainCondition answered;
struct Asking {
  MemorySocket* socket = nullptr;
  bool is_asked = false;
  bool is_overdue = false;  // no thread waits for that answer any more
  uint64_t answers = 0;
  int waiting = 0;             // threads
  uint64_t not_before_ns = 0;  // after a refusal
};
Asking asking GUARDED_BY(mutex);

bool may_ask() REQUIRES(mutex) {
  return asking.socket != nullptr && !asking.is_overdue && now_ns() >= asking.not_before_ns;
}

// False: it was not answered in time.
bool wait_for_answer(uint64_t end_ns) REQUIRES(mutex) {
  timespec deadline = {};
  deadline.tv_sec = static_cast<time_t>(end_ns / 1'000'000'000);
  deadline.tv_nsec = static_cast<long>(end_ns % 1'000'000'000);
  const uint64_t before = asking.answers;
  ++asking.waiting;
  bool has_time = true;
  while (asking.answers == before && asking.socket != nullptr && has_time) {
    has_time = answered.wait_until(mutex, deadline);
  }
  --asking.waiting;
  return asking.answers != before;
}

}  // namespace

void ask_on(MemorySocket* socket) {
  const PlainLock lock(mutex);
  asking.socket = socket;
  // What was asked on another is not answered.
  asking.is_asked = false;
  asking.is_overdue = false;
  answered.notify_all();
}

// An answer is for all that wait, and may not be enough for one that came later.
bool is_granted(Residency& memory) {
  const PlainLock lock(mutex);
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
  const PlainLock lock(mutex);
  asking.is_asked = false;
  asking.is_overdue = false;
  ++asking.answers;
  asking.not_before_ns = bytes == 0 ? now_ns() + kAskAgainNs : 0;
  answered.notify_all();
  return bytes > 0 && asking.waiting == 0;
}

// The threads that waited or held the mutex are the parent's.
void grants_start_afresh_in_child() {
  mutex.free_in_child();
  answered.free_in_child();
  const PlainLock lock(mutex);
  asking = Asking{};
}

}  // namespace lambent::shim
