// What a node's devices are cut into: their specs, their names, what is used of them, and the
// changes of their MIG state.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "emulator/emulated_node/node.h"
#include "gpu/cuda_abi/emulated_uuid.h"

namespace lambent::emulated_node {

namespace {

bool shares_memory(const MigState& mig, int slot, int other) {
  return mig.compute[other].used && mig.compute[slot].gpu_slot == mig.compute[other].gpu_slot;
}

}  // namespace

std::vector<int> Node::Guard::partitions() const {
  const NodeState& state = *node_.current();
  std::vector<int> found;
  for (int device = 0; device < node_.spec_.device_count; device++) {
    found.push_back(device);
    const MigState& mig = state.devices[device].mig;
    for (int slot = 0; mig.enabled && slot < kMaxInstances; slot++) {
      if (mig.compute[slot].used) found.push_back(partition_of(device, slot));
    }
  }
  return found;
}

uint64_t Node::Guard::used_bytes(int partition) const {
  const NodeState& state = *node_.current();
  int device = device_of_partition(partition), slot = slot_of_partition(partition);
  const MigState& mig = state.devices[device].mig;
  int counted[1 + kMaxInstances], count = 0;
  if (slot < 0) counted[count++] = device;
  for (int other = 0; mig.enabled && other < kMaxInstances; other++) {
    bool counts = slot < 0 ? mig.compute[other].used : shares_memory(mig, slot, other);
    if (counts) counted[count++] = partition_of(device, other);
  }
  uint64_t total = 0;
  for (int k = 0; k < count; k++) total += shared_bytes(state.shared, counted[k]);
  for (uint32_t i = 0; i < std::min<uint32_t>(state.row_bound, kMaxProcesses); i++) {
    const ProcessRow& row = state.rows[i];
    if (!row.used) continue;
    for (int k = 0; k < count; k++) total += row.bytes[counted[k]];
  }
  return total;
}

uint32_t Node::Guard::contexts_on(int partition) const {
  const NodeState& state = *node_.current();
  uint32_t total = 0;
  for (uint32_t i = 0; i < std::min<uint32_t>(state.row_bound, kMaxProcesses); i++) {
    if (state.rows[i].used) total += state.rows[i].contexts[partition];
  }
  return total;
}

int Node::Guard::mps_clients() const {
  const NodeState& state = *node_.current();
  int clients = 0;
  for (uint32_t i = 0; i < std::min<uint32_t>(state.row_bound, kMaxProcesses); i++) {
    clients += state.rows[i].used && state.rows[i].mps_client;
  }
  return clients;
}

MigResult Node::Guard::set_mig_mode(int device, bool enabled) {
  if (!node_.mig_family()) return MigResult::kNotSupported;
  MigState& mig = node_.current()->devices[device].mig;
  if ((mig.enabled != 0) == enabled) return MigResult::kDone;
  reap(true);
  for (int partition : partitions()) {
    bool concerned = device_of_partition(partition) == device;
    if (concerned && contexts_on(partition) > 0) return MigResult::kInUse;
  }
  mig = {};
  mig.enabled = enabled;
  return MigResult::kDone;
}

MigResult Node::Guard::add_compute_instance(int device, int gpu_slot, int slices, int start,
                                            int* slot) {
  const MigFamily* family = node_.mig_family();
  if (!family) return MigResult::kNotSupported;
  MigState& mig = node_.current()->devices[device].mig;
  if (MigResult result = create_compute_instance(*family, mig, gpu_slot, slices, start, slot);
      result != MigResult::kDone) {
    return result;
  }
  const DeviceModel& whole = model(device);
  DeviceModel& own = model(partition_of(device, *slot));
  own = {};
  own.multiprocessors = instance_spec(node_.spec_.device, *family, mig, *slot).multiprocessors;
  own.context_penalty = whole.context_penalty;
  own.window_ns = whole.window_ns;
  own.now_ns = whole.now_ns;
  return MigResult::kDone;
}

MigResult Node::Guard::remove_compute_instance(int device, int slot) {
  if (slot < 0 || slot >= kMaxInstances) return MigResult::kNotFound;
  reap(true);
  if (contexts_on(partition_of(device, slot)) > 0) return MigResult::kInUse;
  return destroy_compute_instance(node_.current()->devices[device].mig, slot);
}

MigResult Node::Guard::add_mig_device(int device, int profile_id, int start, int* slot) {
  const MigFamily* family = node_.mig_family();
  if (!family) return MigResult::kNotSupported;
  int gpu_slot = -1;
  MigState& mig = node_.current()->devices[device].mig;
  MigResult result = create_gpu_instance(*family, mig, profile_id, start, &gpu_slot);
  if (result != MigResult::kDone) return result;
  int slices = find_profile(*family, profile_id)->slices;
  return add_compute_instance(device, gpu_slot, slices, -1, slot);
}

DeviceSpec Node::Guard::spec_of(int partition) const {
  const MigFamily* family = node_.mig_family();
  int slot = slot_of_partition(partition);
  if (slot < 0 || !family) return node_.spec_.device;
  return instance_spec(node_.spec_.device, *family,
                       node_.current()->devices[device_of_partition(partition)].mig, slot);
}

void Node::apply_mig_spec(const NodeSpec& spec) {
  spec_ = spec;
  Guard guard(*this);
  for (int device = 0; device < spec.device_count; device++) {
    int slot = -1;
    for (uint32_t i = 0; i < spec.mig.instance_count; i++) {
      const auto& instance = spec.mig.instances[i];
      guard.add_mig_device(device, instance.profile_id, instance.start, &slot);
    }
  }
}

const DeviceSpec& Node::spec_of(int partition) const {
  int slot = slot_of_partition(partition);
  if (slot < 0 || !mig_family()) return spec_.device;
  auto& kept = instance_specs_[partition];
  if (const DeviceSpec* spec = kept.load(std::memory_order_acquire)) return *spec;
  const MutexLock lock(specs_mutex_);
  if (const DeviceSpec* spec = kept.load()) return *spec;
  const MigState& mig = current()->devices[device_of_partition(partition)].mig;
  kept = new DeviceSpec(instance_spec(spec_.device, *mig_family(), mig, slot));
  return *kept.load();
}

std::string Node::device_uuid(int partition, char bytes[16]) const {
  int device = device_of_partition(partition), slot = slot_of_partition(partition);
  unsigned char raw[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0x80, 'G', 'P', 'U'};
  std::memcpy(raw, cuda_abi::kEmulatedUuidBegin, sizeof cuda_abi::kEmulatedUuidBegin);
  if (slot >= 0) {
    const MigState& mig = current()->devices[device].mig;
    const ComputeInstance& compute = mig.compute[slot];
    raw[12] = static_cast<unsigned char>(mig.gpu[compute.gpu_slot % kMaxInstances].id + 1);
    raw[13] = static_cast<unsigned char>(compute.id + 1);
  }
  raw[14] = static_cast<unsigned char>(spec_.device.multiprocessors);
  raw[15] = static_cast<unsigned char>(device);
  std::memcpy(bytes, raw, 16);
  char text[48];
  std::snprintf(text, sizeof text,
                "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                slot < 0 ? "GPU" : "MIG", raw[0], raw[1], raw[2], raw[3], raw[4], raw[5], raw[6],
                raw[7], raw[8], raw[9], raw[10], raw[11], raw[12], raw[13], raw[14], raw[15]);
  return text;
}

std::string Node::pci_bus_id(int partition) {
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02X:00.0", device_of_partition(partition) + 1);
  return text;
}

}  // namespace lambent::emulated_node
