#include "gpu/shim/kernel_words.h"

#include "core/base/plain_mutex.h"
#include "driver_slots.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/touches.h"
#include "gpu/shim/undestroyed.h"

namespace lambent::shim {
namespace {

PlainMutex mutex;  // held for no call of the driver
Undestroyed<ParameterLayouts> layouts GUARDED_BY(mutex);
bool fork_is_watched = false;

void start_afresh_in_child() { mutex.free_in_child(); }

void watch_forks() {
  if (__atomic_load_n(&fork_is_watched, __ATOMIC_RELAXED)) return;
  if (!__atomic_exchange_n(&fork_is_watched, true, __ATOMIC_ACQ_REL)) {
    pthread_atfork(nullptr, nullptr, start_afresh_in_child);
  }
}

}  // namespace

// The lock is held until the end of the KnownLayout.
KnownLayout::KnownLayout(Handle function, bool is_kernel) NO_THREAD_SAFETY_ANALYSIS {
  watch_forks();
  mutex.lock();
  layout_ = layouts->find(function);
  if (layout_ == nullptr) {
    is_kernel = is_kernel || layouts->is_kernel(function);
    mutex.unlock();
    const ParameterLayout asked = ask_for_layout(function, is_kernel);
    mutex.lock();
    layout_ = layouts->remember(asked);
  }
  if (layout_ != nullptr && !layout_->is_known) layout_ = nullptr;
}

KnownLayout::~KnownLayout() NO_THREAD_SAFETY_ANALYSIS { mutex.unlock(); }

void forget_code() {
  if (!working_set_is_wanted()) return;
  const PlainLock lock(mutex);
  layouts->forget(nullptr);
}

}  // namespace lambent::shim

using namespace lambent::shim;

SHIM_EXPORT Status cuLibraryGetKernel(Handle* kernel, Handle library, const char* name) {
  const auto get = REAL(cuLibraryGetKernel, Handle*, Handle, const char*);
  const Status status = get(kernel, library, name);
  if (status != kSuccess || !working_set_is_wanted()) return status;
  watch_forks();
  const lambent::PlainLock lock(mutex);
  layouts->add_kernel(*kernel, library);
  return status;
}

SHIM_EXPORT Status cuLibraryEnumerateKernels(Handle* kernels, unsigned count, Handle library) {
  const auto list = REAL(cuLibraryEnumerateKernels, Handle*, unsigned, Handle);
  const Status status = list(kernels, count, library);
  if (status != kSuccess || !working_set_is_wanted()) return status;
  watch_forks();
  const lambent::PlainLock lock(mutex);
  for (unsigned i = 0; i < count; ++i) {
    if (kernels[i] != nullptr) layouts->add_kernel(kernels[i], library);
  }
  return status;
}

SHIM_EXPORT Status cuLibraryUnload(Handle library) {
  if (working_set_is_wanted()) {
    const lambent::PlainLock lock(mutex);
    layouts->forget(library);
  }
  return REAL(cuLibraryUnload, Handle)(library);
}

SHIM_EXPORT Status cuModuleUnload(Handle module) {
  forget_code();
  return REAL(cuModuleUnload, Handle)(module);
}
