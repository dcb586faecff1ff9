// The part of Dispatcher that brings records into the caches before an event asks for them, for a
// simulator, which knows what comes next. With thousands of functions few of these records were
// used lately, and each would be waited for alone. Changes nothing.
#include "core/base/fetch_lines.h"
#include "decide/dispatch/device_pool.h"
#include "decide/dispatch/dispatcher.h"

namespace lambent::dispatch {

using scheduling::SandboxSlot;

void Dispatcher::fetch_flow(FunctionId function) const {
  if (function.value < flows_.size()) fetch_lines(flows_[function.value]);
}

void Dispatcher::fetch_place(FunctionId function) const {
  const SandboxSlot slot = gpu_->fleet.newest_idle_of(function);
  if (slot != scheduling::kNoSandbox) fetch_lines(gpu_->fleet.sandbox(slot));
}

void Dispatcher::fetch_end(FunctionId function, SandboxSlot slot, uint32_t device) const {
  fetch_lines(gpu_->fleet.sandbox(slot));
  fetch_lines(gpu_->fleet.devices()[device]);
  fetch_flow(function);
  gpu_->deadlines.fetch(slot);
  fetch_place(function);
}

}  // namespace lambent::dispatch
