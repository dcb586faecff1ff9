#include "emulator/emulated_node/soundness.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace lambent::emulated_node {
namespace {

// Virtual instants beyond this one are no instants: 146 years.
constexpr int64_t kEndOfTime_ns = INT64_MAX / 2;

template <size_t Size>
bool is_text(const char (&text)[Size]) {
  return std::memchr(text, 0, Size) != nullptr;
}

bool is_positive(double number) { return std::isfinite(number) && number > 0; }

bool is_instant(int64_t at_ns) { return at_ns >= 0 && at_ns < kEndOfTime_ns; }

bool is_possible(const DeviceSpec& device) {
  return is_text(device.name) && device.memory_bytes > 0 && device.multiprocessors > 0 &&
         device.multiprocessors <= kMostMultiprocessors &&
         std::has_single_bit(device.allocation_granularity) &&
         is_positive(device.memory_bytes_per_s) && is_positive(device.host_to_device_bytes_per_s) &&
         is_positive(device.device_to_host_bytes_per_s) && is_positive(device.pageable_factor) &&
         std::isfinite(device.context_penalty);
}

bool is_sound(const MigState& mig) {
  for (const ComputeInstance& instance : mig.compute) {
    if (instance.used && instance.gpu_slot >= kMaxInstances) return false;
  }
  return mig.enabled <= 1;
}

bool is_sound(const ModelKernel& kernel) {
  return kernel.state == KernelState::kFree ||
         (kernel.state <= KernelState::kAhead && std::isfinite(kernel.remaining_ns) &&
          kernel.process < kMaxProcesses);
}

}  // namespace

bool is_sound(const DeviceModel& model, int multiprocessors) {
  return model.multiprocessors == multiprocessors && is_instant(model.now_ns) &&
         is_instant(model.busy_ns) && is_instant(model.window_ns) &&
         model.next_sample < kUtilizationSamples && model.kernel_bound <= kMaxKernels;
}

bool is_possible(const NodeSpec& spec) {
  return spec.device_count > 0 && spec.device_count <= kMaxDevices &&
         is_positive(spec.time_scale) && is_positive(spec.memory_scale) &&
         is_text(spec.mig.family) && spec.mig.instance_count <= kMostLayoutEntries &&
         is_possible(spec.device);
}

bool is_sound(const NodeState& state, const NodeSpec& spec) {
  if (state.magic != kNodeMagic || state.layout != sizeof(NodeState) ||
      std::memcmp(&state.spec, &spec, sizeof spec) != 0 || state.row_bound > kMaxProcesses ||
      state.shared.bound > kMaxShared || !is_text(state.fault_plan)) {
    return false;
  }
  for (int i = 0; i < spec.device_count; i++) {
    if (!is_sound(state.partitions[i].model, spec.device.multiprocessors) ||
        !is_sound(state.devices[i].mig)) {
      return false;
    }
  }
  return true;
}

bool is_sound_in_depth(const NodeState& state, const NodeSpec& spec) {
  for (int i = 0; i < spec.device_count; i++) {
    const DeviceModel& model = state.partitions[i].model;
    const uint32_t bound = std::min<uint32_t>(model.kernel_bound, kMaxKernels);
    for (uint32_t k = 0; k < bound; k++) {
      if (!is_sound(model.kernels[k])) return false;
    }
    const DeviceHealth& health = state.devices[i].health;
    if (health.lost > 1 || health.stuck > 1 || !std::isfinite(health.slowdown)) return false;
  }
  for (uint32_t i = 0; i < std::min<uint32_t>(state.row_bound, kMaxProcesses); i++) {
    const ProcessRow& row = state.rows[i];
    if (row.used > 1 || (row.used && !is_text(row.program))) return false;
  }
  for (const SharedAllocation& entry : state.shared.entries) {
    const bool is_known = entry.device >= 0 && entry.device < kMaxPartitions;
    if (entry.id != 0 && !is_known) return false;
  }
  return true;
}

}  // namespace lambent::emulated_node
