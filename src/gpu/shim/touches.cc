#include "gpu/shim/touches.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "driver_slots.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/agent.h"
#include "gpu/shim/captures.h"
#include "gpu/shim/contexts.h"
#include "gpu/shim/environment.h"
#include "gpu/shim/kernel_words.h"
#include "gpu/shim/log.h"
#include "gpu/shim/monotonic.h"
#include "gpu/shim/residency.h"

namespace lambent::shim {

Residency* memory_of_touches = nullptr;

namespace {

// How long a fetch is retried, and the pause between two attempts.
constexpr uint64_t kRetryNs = 10'000'000'000;
constexpr long kPauseNs = 20'000'000;

bool fork_is_watched = false;

Residency* watched_memory() { return __atomic_load_n(&memory_of_touches, __ATOMIC_ACQUIRE); }

enum class Wish : int { kUnread, kWhole, kTouched };
std::atomic<Wish> wish{Wish::kUnread};

Wish read_wish() {
  const char* name = working_set_name();
  if (name == nullptr || strcmp(name, "whole") == 0) return Wish::kWhole;
  if (strcmp(name, "touched") == 0) return Wish::kTouched;
  log_line("LAMBENT_SHIM_WORKING_SET=%s is unknown: all memory comes in", name);
  return Wish::kWhole;
}

void start_afresh_in_child() { __atomic_store_n(&memory_of_touches, nullptr, __ATOMIC_RELEASE); }

void watch_forks() {
  if (!__atomic_exchange_n(&fork_is_watched, true, __ATOMIC_ACQ_REL)) {
    pthread_atfork(nullptr, nullptr, start_afresh_in_child);
  }
}

// The kernel reads a word at the address before it looks at the first argument, which is wrong.
bool is_readable(uintptr_t address) {
  constexpr size_t kSignalSetBytes = 8;
  const int before = errno;
  const bool is_bad =
      syscall(SYS_rt_sigprocmask, ~0L, address, nullptr, kSignalSetBytes) != 0 && errno == EFAULT;
  errno = before;
  return !is_bad;
}

// The program may pass what the driver would refuse, or memory of the device: no processor reads
// either.
bool can_look_through(Residency& memory, const void* from, size_t bytes) {
  constexpr uintptr_t kPageBytes = 4096;
  constexpr int kMemoryTypeAttribute = 2;  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
  constexpr unsigned kOnDevice = 2;        // CU_MEMORYTYPE_DEVICE
  const auto first = reinterpret_cast<uintptr_t>(from);
  if (bytes < sizeof(Address) || first + bytes < first || memory.owns(first)) return false;
  unsigned type = 0;
  const auto ask = REAL(cuPointerGetAttribute, void*, int, Address);
  if (ask(&type, kMemoryTypeAttribute, first) == kSuccess && type == kOnDevice) return false;
  const uintptr_t last = first + bytes - sizeof(Address);
  for (uintptr_t at = first; at < last; at = (at / kPageBytes + 1) * kPageBytes) {
    if (!is_readable(at)) return false;
  }
  return is_readable(last);
}

}  // namespace

bool working_set_is_wanted() {
  Wish known = wish.load(std::memory_order_relaxed);
  if (known == Wish::kUnread) {
    known = read_wish();
    wish.store(known, std::memory_order_relaxed);
  }
  return known == Wish::kTouched;
}

void note_touches_of(Residency* memory) {
  watch_forks();
  __atomic_store_n(&memory_of_touches, memory, __ATOMIC_RELEASE);
}

void touch(Address address) {
  if (Residency* memory = watched_memory()) memory->named().touch(address);
}

void touch_described(const void* description, size_t bytes) {
  Residency* memory = watched_memory();
  if (memory == nullptr || description == nullptr) return;
  for_each_word(description, bytes, [=](Address word) { memory->named().touch(word); });
}

void note_access(const void* description, size_t bytes) {
  Residency* memory = watched_memory();
  if (memory == nullptr || description == nullptr) return;
  fetch_all(*memory, [=] {
    bool is_offloaded = false;
    for_each_word(description, bytes,
                  [&](Address word) { is_offloaded |= memory->named().note_access(word); });
    return is_offloaded;
  });
}

void place_everything() {
  Residency* memory = watched_memory();
  if (memory == nullptr) return;
  fetch_all(*memory, [=] {
    const bool is_offloaded = memory->budget().offloaded_bytes() > 0;
    if (is_offloaded) memory->named().touch_anything();
    return is_offloaded;
  });
}

void touch_anything() {
  if (Residency* memory = watched_memory()) memory->named().touch_anything();
}

void touch_written(Address to, const void* from, size_t bytes) {
  Residency* memory = watched_memory();
  if (memory == nullptr) return;
  memory->named().touch(to);
  memory->named().touch(reinterpret_cast<Address>(from));
  note_written_references(*memory, from, bytes);
}

void touch_stored(Address to, Address value) {
  Residency* memory = watched_memory();
  if (memory == nullptr) return;
  memory->named().touch(to);
  memory->named().note_reference(value);
}

void touch_launched(Handle function, void** parameters, void** extra) {
  Residency* memory = watched_memory();
  if (memory == nullptr) return;
  bool is_wanted = false;
  const bool is_known =
      for_each_parameter_word(function, false, parameters, extra,
                              [&](Address word) { is_wanted |= memory->named().touch(word); });
  if (!is_known) memory->named().touch_anything();
  if (is_wanted) wait_until_fetched();
}

void note_written_references(Residency& memory, const void* from, size_t bytes) {
  if (from == nullptr || bytes > kMostWrittenBytes) return;
  if (!can_look_through(memory, from, bytes)) return;
  for_each_word(from, bytes, [&](Address word) { memory.named().note_reference(word); });
}

// What is captured does not run, and while something is captured nothing can be waited for.
void wait_until_fetched() {
  if (is_anything_captured() || !leave_gate_scope()) return;
  fetch_what_is_wanted();
  return_to_gate_scope();
}

// Between two attempts the memory may move as well: no call is inside.
bool FetchRetry::try_again() {
  const bool is_first = since_ns_ == 0;
  if (is_first) since_ns_ = now_ns();
  if (!memory_.named().may_retry() || !knows_all_contexts()) return false;
  if (now_ns() - since_ns_ > kRetryNs) {
    log_line("memory that a graph names cannot be fetched: the graph reaches it on the host");
    memory_.named().give_up_retrying();
    return false;
  }
  if (is_anything_captured() || !leave_gate_scope()) return false;
  const timespec pause = {0, kPauseNs};
  if (!is_first) nanosleep(&pause, nullptr);
  fetch_what_is_wanted();
  return_to_gate_scope();
  return true;
}

}  // namespace lambent::shim
