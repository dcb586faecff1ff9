#include "shim/touches.h"

#include <pthread.h>

#include "driver_slots.h"
#include "shim/abi.h"
#include "shim/agent.h"
#include "shim/locked.h"
#include "shim/parameter_layouts.h"
#include "shim/residency.h"

namespace lambent::shim {

Residency* noted_memory = nullptr;

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

Residency* noted() { return __atomic_load_n(&noted_memory, __ATOMIC_ACQUIRE); }

void start_afresh_in_child() {
  __atomic_store_n(&noted_memory, nullptr, __ATOMIC_RELEASE);
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

}  // namespace

void note_touches_of(Residency* memory) {
  if (!__atomic_exchange_n(&fork_is_watched, true, __ATOMIC_ACQ_REL)) {
    pthread_atfork(nullptr, nullptr, start_afresh_in_child);
  }
  __atomic_store_n(&noted_memory, memory, __ATOMIC_RELEASE);
}

void touch(Address address) {
  if (Residency* memory = noted()) memory->touch(address);
}

void touch_described(const void* description, size_t bytes) {
  Residency* memory = noted();
  if (memory != nullptr && description != nullptr) touch_words(*memory, description, bytes);
}

void touch_anything() {
  if (Residency* memory = noted()) memory->touch_anything();
}

void touch_written(Address to, const void* from, size_t bytes) {
  Residency* memory = noted();
  if (memory == nullptr) return;
  memory->touch(to);
  if (from == nullptr || bytes > kMostWrittenBytes) return;
  for_each_word(from, bytes, [&](Address word) { memory->refer_to(word); });
}

void touch_launched(Handle function, void** parameters, void** extra) {
  Residency* memory = noted();
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
  Locked lock(mutex);
  layouts.forget(nullptr);
}

}  // namespace lambent::shim

using namespace lambent::shim;

SHIM_EXPORT Status cuLibraryGetKernel(Handle* kernel, Handle library, const char* name) {
  const auto get = REAL(cuLibraryGetKernel, Handle*, Handle, const char*);
  const Status status = get(kernel, library, name);
  if (status != kSuccess) return status;
  Locked lock(mutex);
  layouts.add_kernel(*kernel, library);
  return status;
}

SHIM_EXPORT Status cuLibraryEnumerateKernels(Handle* kernels, unsigned count, Handle library) {
  const auto list = REAL(cuLibraryEnumerateKernels, Handle*, unsigned, Handle);
  const Status status = list(kernels, count, library);
  if (status != kSuccess) return status;
  Locked lock(mutex);
  for (unsigned i = 0; i < count; ++i) {
    if (kernels[i] != nullptr) layouts.add_kernel(kernels[i], library);
  }
  return status;
}

SHIM_EXPORT Status cuLibraryUnload(Handle library) {
  {
    Locked lock(mutex);
    layouts.forget(library);
  }
  return REAL(cuLibraryUnload, Handle)(library);
}

SHIM_EXPORT Status cuModuleUnload(Handle module) {
  forget_code();
  return REAL(cuModuleUnload, Handle)(module);
}
