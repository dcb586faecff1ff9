#include "emulator/emulated_node/checkpoint.h"

#include <algorithm>
#include <cstring>

#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_node {

namespace {

uint32_t state_of(const ProcessRow& row) {
  return __atomic_load_n(&row.checkpoint.state, __ATOMIC_ACQUIRE);
}

CheckpointResult move(NodeState& state, uint32_t row, uint32_t from, uint32_t to) {
  ProcessRow& process = state.rows[row];
  if (state_of(process) != from) return CheckpointResult::kIllegalState;
  __atomic_store_n(&process.checkpoint.state, to, __ATOMIC_RELEASE);
  return CheckpointResult::kDone;
}

bool holds_shared(const NodeState& state, uint32_t row) {
  for (int partition = 0; partition < kMaxPartitions; partition++) {
    if (shared_bytes_of(state.shared, partition, row) > 0) return true;
  }
  return false;
}

}  // namespace

uint32_t find_process(const NodeState& state, int pid, uint64_t pid_namespace) {
  for (uint32_t i = 0; i < std::min<uint32_t>(state.row_bound, kMaxProcesses); i++) {
    const ProcessRow& row = state.rows[i];
    if (row.used && row.pid == pid && row.pid_namespace == pid_namespace) return i;
  }
  return kNobody;
}

CheckpointResult lock_process(NodeState& state, uint32_t row) {
  return move(state, row, CU_PROCESS_STATE_RUNNING, CU_PROCESS_STATE_LOCKED);
}

CheckpointResult unlock_process(NodeState& state, uint32_t row) {
  return move(state, row, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_RUNNING);
}

CheckpointResult checkpoint_process(NodeState& state, uint32_t row, uint64_t* bytes) {
  ProcessRow& process = state.rows[row];
  if (state_of(process) != CU_PROCESS_STATE_LOCKED) return CheckpointResult::kIllegalState;
  if (process.managed_allocations > 0 || holds_shared(state, row)) {
    return CheckpointResult::kNotSupported;
  }
  *bytes = 0;
  for (int partition = 0; partition < kMaxPartitions; partition++) {
    process.checkpoint.bytes[partition] = process.bytes[partition];
    process.checkpoint.contexts[partition] = process.contexts[partition];
    *bytes += process.bytes[partition];
    process.bytes[partition] = 0;
    process.contexts[partition] = 0;
  }
  return move(state, row, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_CHECKPOINTED);
}

CheckpointResult restore_process(Node::Guard& guard, uint32_t row, uint64_t* bytes) {
  ProcessRow& process = guard->rows[row];
  if (state_of(process) != CU_PROCESS_STATE_CHECKPOINTED) return CheckpointResult::kIllegalState;
  *bytes = 0;
  for (int partition : guard.partitions()) {
    uint64_t wanted = process.checkpoint.bytes[partition];
    if (wanted == 0) continue;
    if (guard->devices[device_of_partition(partition)].health.lost) {
      move(*guard, row, CU_PROCESS_STATE_CHECKPOINTED, CU_PROCESS_STATE_FAILED);
      return CheckpointResult::kLost;
    }
    uint64_t capacity = guard.spec_of(partition).memory_bytes;
    uint64_t used = guard.used_bytes(partition);
    if (wanted > capacity || used > capacity - wanted) return CheckpointResult::kNoMemory;
    *bytes += wanted;
  }
  for (int partition = 0; partition < kMaxPartitions; partition++) {
    process.bytes[partition] += process.checkpoint.bytes[partition];
    process.contexts[partition] += process.checkpoint.contexts[partition];
    process.checkpoint.bytes[partition] = 0;
    process.checkpoint.contexts[partition] = 0;
  }
  return move(*guard, row, CU_PROCESS_STATE_CHECKPOINTED, CU_PROCESS_STATE_LOCKED);
}

}  // namespace lambent::emulated_node
