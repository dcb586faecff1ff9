#include "node/worker/executor_keeper.h"

#include <algorithm>

namespace lambent::worker {
namespace {

bool uses_executor(const FunctionSpec& spec) {
  const bool is_client = spec.kind == FunctionKind::kHandler && spec.gpu.memory > Bytes(0) &&
                         spec.gpu.runtime == GpuRuntime::kShared;
  return spec.kind == FunctionKind::kKernel || is_client;
}

}  // namespace

void ExecutorKeeper::keep(const FunctionSpec& spec) {
  if (!uses_executor(spec)) return;
  for (const scheduling::Device& device : dispatcher_.fleet().devices()) {
    const DeviceState state = care_.status(device.options.id).state;
    if (state == DeviceState::kDrained || state == DeviceState::kLost) continue;
    executors_.keep(spec, device.options.id);
  }
}

void ExecutorKeeper::keep_all() {
  functions_.for_each([this](const FunctionSpec& spec) { keep(spec); });
}

void ExecutorKeeper::drop(const FunctionSpec& spec) {
  if (!uses_executor(spec)) return;
  const ExecutorKey key = executor_key(spec, DeviceId());
  const bool is_shared = functions_.any_of([&](const FunctionSpec& other) {
    return uses_executor(other) && executor_key(other, DeviceId()) == key;
  });
  if (!is_shared) executors_.drop(spec);
}

void ExecutorKeeper::evict_unused() {
  Bytes largest;
  Bytes largest_then;
  DeviceId device_then;
  for (const scheduling::Device& device : dispatcher_.fleet().devices()) {
    if (!device.healthy) continue;
    largest = std::max(largest, device.capacity());
    const Bytes then =
        device.options.memory - executors_.memory_use().taken_by_used(device.options.id);
    if (then <= largest_then) continue;
    largest_then = then;
    device_then = device.options.id;
  }
  const bool any_waits = dispatcher_.waiting_for_gpu().any_of([&](FunctionId function) {
    const scheduling::Flow& flow = dispatcher_.flows()[function.value];
    return flow.device_memory > largest && flow.device_memory <= largest_then;
  });
  if (any_waits) executors_.memory_use().evict_unused(device_then);
}

}  // namespace lambent::worker
