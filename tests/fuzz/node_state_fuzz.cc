// The state of an emulated node: whatever a process writes into it, those who read it stay within
// its bounds and come to an end. The first two bytes say where the others go.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "emulator/emulated_node/mig.h"
#include "emulator/emulated_node/node.h"
#include "emulator/emulated_node/soundness.h"

namespace {

using namespace lambent::emulated_node;

struct Written {
  DeviceModel model;
  MigState mig;
  NodeEvents events;
  DeviceHealth health;
  SharedMemory shared;
};

Written used_by_four() {
  Written state{};
  state.model.multiprocessors = 80;
  state.model.window_ns = 1'000'000;
  for (uint32_t process = 0; process < 4; process++) {
    start(state.model, {.group = process / 2,
                        .process = process,
                        .multiprocessors = 40,
                        .duration_ns = 1000,
                        .begin_ns = process * 100,
                        .sequence = process,
                        .priority = 0,
                        .held = false});
    share(state.shared, 0, 1 << 20, process);
  }
  state.mig.enabled = 1;
  lose(state.health, state.events, 0);
  return state;
}

void read(Written& state) {
  const MigFamily* family = find_mig_family("a100-80gb");
  if (family == nullptr) abort();
  (void)layout_of(*family, state.mig);
  (void)free_compute_starts(*family, state.mig, 0, 1);
  for (int slot = 0; slot < kMaxInstances; slot++) {
    (void)instance_spec(DeviceSpec{}, *family, state.mig, slot);
  }
  (void)event_after(state.events, 0);
  (void)shared_bytes(state.shared, 0);
  drop_holder(state.shared, 1);
}

void advance_all(DeviceModel& model) {
  const int64_t begin_ns = model.now_ns;
  advance(model, begin_ns + 1'000'000);
  if (model.now_ns < begin_ns) abort();
  for (const ModelKernel& kernel : model.kernels) (void)held_by(model, kernel.ticket);
  (void)predicted_finish(model, model.kernels[0].ticket);
  const int percent = utilization_percent(model);
  if (percent < 0 || percent > 100) abort();
  remove_process(model, 1);
  repair(model);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  static const Written kUsed = used_by_four();
  static Written state;
  state = kUsed;
  const size_t at = (size_t{data[0]} * 256 + data[1]) * 8 % sizeof(Written);
  memcpy(reinterpret_cast<char*>(&state) + at, data + 2, std::min(size - 2, sizeof(Written) - at));
  read(state);
  // As every use of the node does, after a look at what it may rely on.
  if (is_sound(state.model, 80)) advance_all(state.model);
  return 0;
}
