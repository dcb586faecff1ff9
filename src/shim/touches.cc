#include "shim/touches.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver_slots.h"
#include "shim/abi.h"
#include "shim/agent.h"
#include "shim/environment.h"
#include "shim/locked.h"
#include "shim/log.h"
#include "shim/parameter_layouts.h"
#include "shim/residency.h"

namespace lambent::shim {

Residency* memory_of_touches = nullptr;

namespace {

// Addresses are written in tables. What is larger than this is data, and reading it through would
// take longer than the copy.
constexpr size_t kMostWrittenBytes = size_t{64} << 10;

// CU_LAUNCH_PARAM_*
void* const kEnd = nullptr;
void* const kBuffer = reinterpret_cast<void*>(1);
void* const kBufferSize = reinterpret_cast<void*>(2);

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
ParameterLayouts layouts;  // guarded by it, which is held for no call of the driver
bool fork_is_watched = false;

Residency* watched_memory() { return __atomic_load_n(&memory_of_touches, __ATOMIC_ACQUIRE); }

enum class Wish : int { kUnread, kWhole, kTouched };
Wish wish = Wish::kUnread;

Wish read_wish() {
  const char* name = working_set_name();
  if (name == nullptr || strcmp(name, "whole") == 0) return Wish::kWhole;
  if (strcmp(name, "touched") == 0) return Wish::kTouched;
  log_line("LAMBENT_SHIM_WORKING_SET=%s is unknown: all memory comes in", name);
  return Wish::kWhole;
}

void start_afresh_in_child() {
  __atomic_store_n(&memory_of_touches, nullptr, __ATOMIC_RELEASE);
  mutex = PTHREAD_MUTEX_INITIALIZER;
}

template <typename Act>
void for_each_word(const void* from, size_t bytes, Act act) {
  const char* at = static_cast<const char*>(from);
  for (size_t offset = 0; offset + sizeof(Address) <= bytes; offset += sizeof(Address)) {
    Address word = 0;
    __builtin_memcpy(&word, at + offset, sizeof(word));
    act(word);
  }
}

// Whether some of it lies aside and is to be fetched.
bool touch_words(Residency& memory, const void* from, size_t bytes) {
  bool is_wanted = false;
  for_each_word(from, bytes, [&](Address word) { is_wanted |= memory.touch(word); });
  return is_wanted;
}

// The form in which the parameters lie in one buffer.
bool touch_buffer(Residency& memory, void** extra) {
  const void* buffer = nullptr;
  const size_t* bytes = nullptr;
  for (; extra[0] == kBuffer || extra[0] == kBufferSize; extra += 2) {
    if (extra[0] == kBuffer) buffer = extra[1];
    if (extra[0] == kBufferSize) bytes = static_cast<const size_t*>(extra[1]);
  }
  if (extra[0] != kEnd) memory.touch_anything();
  return buffer != nullptr && bytes != nullptr && touch_words(memory, buffer, *bytes);
}

// With the mutex held.
bool touch_by_layout(Residency& memory, const ParameterLayout* layout, void** parameters) {
  if (layout == nullptr || !layout->is_known) {
    memory.touch_anything();
    return false;
  }
  bool is_wanted = false;
  for (uint32_t i = 0; i < layout->count; ++i) {
    const WideParameter& wide = layout->wide[i];
    is_wanted |= touch_words(memory, parameters[wide.index], wide.bytes);
  }
  return is_wanted;
}

bool touch_parameters(Residency& memory, Handle function, void** parameters) {
  bool is_kernel = false;
  {
    Locked lock(mutex);
    const ParameterLayout* known = layouts.find(function);
    if (known != nullptr) return touch_by_layout(memory, known, parameters);
    is_kernel = layouts.is_kernel(function);
  }
  const ParameterLayout asked = ask_for_layout(function, is_kernel);
  Locked lock(mutex);
  return touch_by_layout(memory, layouts.remember(asked), parameters);
}

// The calling thread's passage is given up meanwhile: memory is fetched while nobody is inside.
void wait_until_fetched() {
  if (!leave_passage()) return;
  fetch_what_is_wanted();
  return_to_passage();
}

void watch_forks() {
  if (!__atomic_exchange_n(&fork_is_watched, true, __ATOMIC_ACQ_REL)) {
    pthread_atfork(nullptr, nullptr, start_afresh_in_child);
  }
}

// The kernel reads a word at the address before it looks at the first argument, which is wrong.
bool is_readable(uintptr_t address) {
  constexpr size_t kSignalSetBytes = 8;
  const int before = errno;
  const bool is_bad = syscall(SYS_rt_sigprocmask, ~0L, address, nullptr, kSignalSetBytes) != 0 &&
                      errno == EFAULT;
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

void refer_to_words(Residency& memory, const void* from, size_t bytes) {
  if (from == nullptr || bytes > kMostWrittenBytes) return;
  if (!can_look_through(memory, from, bytes)) return;
  for_each_word(from, bytes, [&](Address word) { memory.refer_to(word); });
}

}  // namespace

bool working_set_is_wanted() {
  Wish known = __atomic_load_n(&wish, __ATOMIC_RELAXED);
  if (known == Wish::kUnread) {
    known = read_wish();
    __atomic_store_n(&wish, known, __ATOMIC_RELAXED);
  }
  return known == Wish::kTouched;
}

void note_touches_of(Residency* memory) {
  watch_forks();
  __atomic_store_n(&memory_of_touches, memory, __ATOMIC_RELEASE);
}

void touch(Address address) {
  if (Residency* memory = watched_memory()) memory->touch(address);
}

void touch_described(const void* description, size_t bytes) {
  Residency* memory = watched_memory();
  if (memory != nullptr && description != nullptr) touch_words(*memory, description, bytes);
}

void touch_anything() {
  if (Residency* memory = watched_memory()) memory->touch_anything();
}

void touch_written(Address to, const void* from, size_t bytes) {
  Residency* memory = watched_memory();
  if (memory == nullptr) return;
  memory->touch(to);
  memory->touch(reinterpret_cast<Address>(from));
  refer_to_words(*memory, from, bytes);
}

void touch_stored(Address to, Address value) {
  Residency* memory = watched_memory();
  if (memory == nullptr) return;
  memory->touch(to);
  memory->refer_to(value);
}

void touch_launched(Handle function, void** parameters, void** extra) {
  Residency* memory = watched_memory();
  if (memory == nullptr) return;
  bool is_wanted = false;
  if (parameters != nullptr) {
    is_wanted = touch_parameters(*memory, function, parameters);
  } else if (extra != nullptr) {
    is_wanted = touch_buffer(*memory, extra);
  }
  if (is_wanted) wait_until_fetched();
}

void forget_code() {
  if (!working_set_is_wanted()) return;
  Locked lock(mutex);
  layouts.forget(nullptr);
}

}  // namespace lambent::shim

using namespace lambent::shim;

SHIM_EXPORT Status cuLibraryGetKernel(Handle* kernel, Handle library, const char* name) {
  const auto get = REAL(cuLibraryGetKernel, Handle*, Handle, const char*);
  const Status status = get(kernel, library, name);
  if (status != kSuccess || !working_set_is_wanted()) return status;
  watch_forks();
  Locked lock(mutex);
  layouts.add_kernel(*kernel, library);
  return status;
}

SHIM_EXPORT Status cuLibraryEnumerateKernels(Handle* kernels, unsigned count, Handle library) {
  const auto list = REAL(cuLibraryEnumerateKernels, Handle*, unsigned, Handle);
  const Status status = list(kernels, count, library);
  if (status != kSuccess || !working_set_is_wanted()) return status;
  watch_forks();
  Locked lock(mutex);
  for (unsigned i = 0; i < count; ++i) {
    if (kernels[i] != nullptr) layouts.add_kernel(kernels[i], library);
  }
  return status;
}

SHIM_EXPORT Status cuLibraryUnload(Handle library) {
  if (working_set_is_wanted()) {
    Locked lock(mutex);
    layouts.forget(library);
  }
  return REAL(cuLibraryUnload, Handle)(library);
}

SHIM_EXPORT Status cuModuleUnload(Handle module) {
  forget_code();
  return REAL(cuModuleUnload, Handle)(module);
}
