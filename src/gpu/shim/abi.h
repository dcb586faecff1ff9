// The driver's types as they cross the ABI, and what every hook is made of: the guard, the call of
// the real function, the steps around an allocation. The header names of cuda.h are macros over
// versioned symbols; hooks are about symbols, so nothing here includes them. Any thread.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "gpu/shim/accounting.h"
#include "gpu/shim/agent.h"
#include "gpu/shim/gate.h"
#include "gpu/shim/passed_types.h"
#include "gpu/shim/real_library.h"

#define SHIM_EXPORT extern "C" [[gnu::visibility("default")]]
// REAL(cuMemFree_v2, Address)(address): the real function, with these parameter types. Code that
// uses it includes the generated driver_slots.h.
#define REAL(name, ...) \
  ::lambent::shim::real<::lambent::shim::Status (*)(__VA_ARGS__)>(kSlot_##name)

namespace lambent::shim {

constexpr Status kSuccess = 0;
constexpr Status kInvalidValue = 1;
constexpr Status kOutOfMemory = 2;
constexpr Status kNotReady = 600;
constexpr Status kNotSupported = 801;

// True inside a call that a hook made to the driver: what the driver then calls by itself is its
// own business and not counted twice.
class InsideHook {
 public:
  InsideHook() : outermost_(depth_++ == 0) {}
  ~InsideHook() { --depth_; }
  InsideHook(const InsideHook&) = delete;
  InsideHook& operator=(const InsideHook&) = delete;
  bool outermost() const { return outermost_; }
  // Whether the calling thread is in a call that a driver makes by itself.
  static bool is_nested() { return depth_ > 1; }
  // The accounting of this process if this call is the program's own, else null.
  Accounting* accounting() const { return outermost_ ? Accounting::current() : nullptr; }

 private:
  [[gnu::tls_model("initial-exec")]] static inline thread_local int depth_ = 0;
  bool outermost_;
};

// The calling thread's current context, or null.
Handle current_context();

// Passes on what the driver answered to the program; what tells of a broken context is written into
// the ledger, so that the worker does not give the process another invocation.
Status noted_error(Status status);
inline Status noted(Status status) {
  return status == kSuccess || status == kNotReady ? status : noted_error(status);
}

// An allocation of `bytes` on the device that `place_of` gives of the accounting: reserves, lets
// `call` ask the driver, and records under *result.
template <typename Pointer, typename PlaceOf, typename Call>
Status counted_allocation_on(PlaceOf place_of, Kind kind, uint64_t bytes, Pointer* result,
                             Call call) {
  GateScope gate_scope;
  InsideHook inside;
  Accounting* accounting = inside.accounting();
  if (accounting == nullptr || result == nullptr || bytes == 0) {
    const Status status = call();
    if (status == kSuccess && inside.outermost()) program_uses_the_driver();
    return noted(status);
  }
  const uint64_t charge = accounting->charge_of(bytes);
  const int device = place_of(*accounting);
  if (!accounting->try_reserve(charge, device)) return kOutOfMemory;
  const Status status = call();
  if (status == kSuccess) {
    accounting->record(kind, (uint64_t)*result, charge, current_context(), device);
    program_uses_the_driver();
  } else {
    accounting->cancel(charge, device);
  }
  return noted(status);
}

// The same on the device of the current context.
template <typename Pointer, typename Call>
Status counted_allocation(Kind kind, uint64_t bytes, Pointer* result, Call call) {
  const auto place_of = [](const Accounting& accounting) { return accounting.current_device(); };
  return counted_allocation_on(place_of, kind, bytes, result, call);
}

// A free of what counted_allocation recorded, or of something that we never saw.
template <typename Call>
Status counted_free(Kind kind, Kind other_kind, uint64_t key, Call call) {
  GateScope gate_scope;
  InsideHook inside;
  Accounting* accounting = inside.accounting();
  if (accounting == nullptr) return call();
  Entry entry = accounting->forget(kind, key);
  if (entry.kind == Kind::kNone && other_kind != kind) entry = accounting->forget(other_kind, key);
  const Status status = call();
  accounting->settle(entry, status == kSuccess);
  return status;
}

}  // namespace lambent::shim
