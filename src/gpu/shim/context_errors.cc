// Contexts that break: a kernel that faults, an error of the device's memory, a device that is
// gone. All later calls of the process fail, whatever they are, so that it is of no use to anybody;
// the calls that wait for work, or ask for it, are hooked because they are where a program hears of
// it first.
#include "gpu/cuda_abi/context_errors.h"

#include "driver_slots.h"
#include "gpu/shim/abi.h"

namespace lambent::shim {

Status noted_error(Status status) {
  const auto result = static_cast<CUresult>(status);
  // A context that was destroyed is the program's own doing, and it can make another.
  if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED) return status;
  if (!may_tell_of_broken_context(result)) return status;
  // May be this one call's; a broken context says it of every call.
  const bool is_vague = result == CUDA_ERROR_UNKNOWN || result == CUDA_ERROR_EXTERNAL_DEVICE;
  if (is_vague && REAL(cuStreamQuery, Handle)(nullptr) != status) return status;
  if (Accounting* accounting = Accounting::current()) {
    accounting->context_is_broken(static_cast<uint32_t>(status));
  }
  return status;
}

}  // namespace lambent::shim

using namespace lambent::shim;

// Not gated: they wait for what was let in.
SHIM_EXPORT Status cuStreamSynchronize(Handle stream) {
  return noted(REAL(cuStreamSynchronize, Handle)(stream));
}
SHIM_EXPORT Status cuStreamSynchronize_ptsz(Handle stream) {
  return noted(REAL(cuStreamSynchronize_ptsz, Handle)(stream));
}
SHIM_EXPORT Status cuStreamQuery(Handle stream) {
  return noted(REAL(cuStreamQuery, Handle)(stream));
}
SHIM_EXPORT Status cuStreamQuery_ptsz(Handle stream) {
  return noted(REAL(cuStreamQuery_ptsz, Handle)(stream));
}
SHIM_EXPORT Status cuEventQuery(Handle event) { return noted(REAL(cuEventQuery, Handle)(event)); }
SHIM_EXPORT Status cuEventSynchronize(Handle event) {
  return noted(REAL(cuEventSynchronize, Handle)(event));
}
SHIM_EXPORT Status cuCtxSynchronize() { return noted(REAL(cuCtxSynchronize)()); }
SHIM_EXPORT Status cuCtxSynchronize_v2(Handle context) {
  return noted(REAL(cuCtxSynchronize_v2, Handle)(context));
}
