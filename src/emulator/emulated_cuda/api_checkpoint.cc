// Checkpoints of processes of the node, found by their ids. Only these calls work in a process
// that is locked.
#include <algorithm>
#include <cstring>

#include "emulator/emulated_cuda/api.h"
#include "emulator/emulated_node/checkpoint.h"

using namespace lambent::emulated_cuda;

namespace {

constexpr int64_t kLook_ns = 1'000'000;  // real time between looks at what is left to do

CUresult as_result(CheckpointResult result) {
  switch (result) {
    case CheckpointResult::kDone:
      return CUDA_SUCCESS;
    case CheckpointResult::kNoProcess:
      return CUDA_ERROR_INVALID_VALUE;
    case CheckpointResult::kIllegalState:
      return CUDA_ERROR_ILLEGAL_STATE;
    case CheckpointResult::kNotSupported:
      return CUDA_ERROR_NOT_SUPPORTED;
    case CheckpointResult::kNoMemory:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case CheckpointResult::kLost:
      return CUDA_ERROR_UNKNOWN;
  }
  return CUDA_ERROR_UNKNOWN;
}

template <class Arguments>
bool all_zero(const Arguments& arguments) {
  Arguments zero{};
  return std::memcmp(&arguments, &zero, sizeof zero) == 0;
}

// Looks who is alive and finds the row.
uint32_t find_row(Node::Guard& guard, int pid) {
  guard.reap(true);
  return find_process(*guard, pid, own_pid_namespace());
}

void spend(const Node& node, uint64_t bytes) {
  const NodeSpec& spec = node.spec();
  auto transfer_ns =
      static_cast<int64_t>(static_cast<double>(bytes) / spec.checkpoint_bytes_per_s * 1e9);
  node.sleep_until(node.now_ns() + spec.checkpoint_ns + transfer_ns, INT64_MAX / 4);
}

// Only onto the device where it was: our processes know their devices by place.
CUresult check_pairs(Process& process, const CUcheckpointRestoreArgs* arguments) {
  if (!arguments) return CUDA_SUCCESS;
  CUcheckpointRestoreArgs rest = *arguments;
  rest.gpuPairs = nullptr;
  rest.gpuPairsCount = 0;
  if (!all_zero(rest)) return CUDA_ERROR_INVALID_VALUE;
  if (arguments->gpuPairsCount && !arguments->gpuPairs) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < arguments->gpuPairsCount; i++) {
    const CUcheckpointGpuPair& pair = arguments->gpuPairs[i];
    bool old_known = false, new_known = false;
    for (int partition : Node::Guard(*process.node).partitions()) {
      char raw[16];
      process.node->device_uuid(partition, raw);
      old_known = old_known || !std::memcmp(raw, pair.oldUuid.bytes, sizeof raw);
      new_known = new_known || !std::memcmp(raw, pair.newUuid.bytes, sizeof raw);
    }
    if (!old_known || !new_known) return CUDA_ERROR_INVALID_VALUE;
    if (!std::memcmp(&pair.oldUuid, &pair.newUuid, sizeof(CUuuid))) continue;
    log_refusal("cuCheckpointProcessRestore(gpuPairs)", "a process returns to where it was");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

}  // namespace

#define WITH_CALLER()                                                                  \
  ::lambent::emulated_cuda::Process* process = nullptr;                                \
  if (CUresult result_ = ::lambent::emulated_cuda::Process::get_even_locked(&process)) \
  return result_

CUresult cuCheckpointProcessGetState(int pid, CUprocessState* state) {
  WITH_CALLER();
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  Node::Guard guard(*process->node);
  uint32_t row = find_row(guard, pid);
  if (row == kNobody) return CUDA_ERROR_INVALID_VALUE;
  *state = static_cast<CUprocessState>(guard->rows[row].checkpoint.state);
  return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int* thread) {
  WITH_CALLER();
  if (!thread) return CUDA_ERROR_INVALID_VALUE;
  Node::Guard guard(*process->node);
  if (find_row(guard, pid) == kNobody) return CUDA_ERROR_INVALID_VALUE;
  *thread = pid;  // nothing has to run in it: its first thread will do
  return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs* arguments) {
  WITH_CALLER();
  CUcheckpointLockArgs rest = arguments ? *arguments : CUcheckpointLockArgs{};
  int64_t left_ns = rest.timeoutMs ? rest.timeoutMs * int64_t{1'000'000} : INT64_MAX;
  rest.timeoutMs = 0;
  if (!all_zero(rest)) return CUDA_ERROR_INVALID_VALUE;
  {
    Node::Guard guard(*process->node);
    uint32_t row = find_row(guard, pid);
    if (row == kNobody) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult result = as_result(lock_process(*guard, row))) return result;
  }
  for (;; left_ns -= kLook_ns) {
    {
      Node::Guard guard(*process->node);
      uint32_t row = find_row(guard, pid);
      if (row == kNobody) return CUDA_ERROR_INVALID_VALUE;
      if (__atomic_load_n(&guard->rows[row].pending_work, __ATOMIC_ACQUIRE) == 0) {
        return CUDA_SUCCESS;
      }
      if (left_ns <= 0) {
        unlock_process(*guard, row);
        process->node->wake_process(row);
        return CUDA_ERROR_NOT_READY;
      }
    }
    process->node->sleep_until(INT64_MAX / 4, kLook_ns);
  }
}

CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs* arguments) {
  WITH_CALLER();
  if (arguments && !all_zero(*arguments)) return CUDA_ERROR_INVALID_VALUE;
  uint64_t bytes = 0;
  {
    Node::Guard guard(*process->node);
    uint32_t row = find_row(guard, pid);
    if (row == kNobody) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult result = as_result(checkpoint_process(*guard, row, &bytes))) return result;
  }
  spend(*process->node, bytes);
  return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs* arguments) {
  WITH_CALLER();
  if (CUresult result = check_pairs(*process, arguments)) return result;
  uint64_t bytes = 0;
  {
    Node::Guard guard(*process->node);
    uint32_t row = find_row(guard, pid);
    if (row == kNobody) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult result = as_result(restore_process(guard, row, &bytes))) return result;
  }
  spend(*process->node, bytes);
  return CUDA_SUCCESS;
}

CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs* arguments) {
  WITH_CALLER();
  if (arguments && !all_zero(*arguments)) return CUDA_ERROR_INVALID_VALUE;
  Node::Guard guard(*process->node);
  uint32_t row = find_row(guard, pid);
  if (row == kNobody) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = as_result(unlock_process(*guard, row));
  if (!result) process->node->wake_process(row);
  return result;
}
