#include "emulator/emulated_cuda/memory_operations.h"

#include <algorithm>
#include <atomic>

#include "emulator/emulated_cuda/process.h"

namespace lambent::emulated_cuda {

namespace {

constexpr int64_t kLookAgain_ns = 50'000;
constexpr int kQuickLooks = 1000;
constexpr unsigned kComparison = 3;  // the bits of the flags that choose it

bool is_wait(CUstreamBatchMemOpType type) {
  return type == CU_STREAM_MEM_OP_WAIT_VALUE_32 || type == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}
bool is_wide(CUstreamBatchMemOpType type) {
  return type == CU_STREAM_MEM_OP_WAIT_VALUE_64 || type == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

uint64_t read_word(CUdeviceptr address, bool wide) {
  if (wide) return __atomic_load_n(reinterpret_cast<uint64_t*>(address), __ATOMIC_ACQUIRE);
  return __atomic_load_n(reinterpret_cast<uint32_t*>(address), __ATOMIC_ACQUIRE);
}

// Looks at the word until it is right, or the context has failed.
void wait_for(Process& process, const Context& context, const CUstreamMemOpValueParams& wait,
              bool wide) {
  for (int looks = 0; !wait_is_over(wait, read_word(wait.address, wide), wide);) {
    if (process.health_of(context)) return;
    if (looks < kQuickLooks) {
      looks++;
    } else {
      process.node->sleep_until(INT64_MAX / 4, kLookAgain_ns);
    }
  }
}

}  // namespace

bool wait_is_over(const CUstreamMemOpValueParams& wait, uint64_t seen, bool wide) {
  uint64_t value = wide ? wait.value64 : wait.value;
  switch (wait.flags & kComparison) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return wide ? static_cast<int64_t>(seen - value) >= 0
                  : static_cast<int32_t>(static_cast<uint32_t>(seen) -
                                         static_cast<uint32_t>(value)) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return seen == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (seen & value) != 0;
    default:
      return wide ? ~(seen | value) != 0 : static_cast<uint32_t>(~(seen | value)) != 0;
  }
}

CUresult check(const Process& process, const MemoryOperations& operations) {
  for (const CUstreamBatchMemOpParams& one : operations.list) {
    switch (one.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        if (one.waitValue.flags & CU_STREAM_WAIT_VALUE_FLUSH) {
          log_refusal("CU_STREAM_WAIT_VALUE_FLUSH", "remote writes need no flush here");
          return CUDA_ERROR_NOT_SUPPORTED;
        }
        if (one.waitValue.flags > kComparison) return CUDA_ERROR_INVALID_VALUE;
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        if (one.writeValue.flags > CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) {
          return CUDA_ERROR_INVALID_VALUE;
        }
        break;
      case CU_STREAM_MEM_OP_BARRIER:
        if (one.memoryBarrier.flags > 1) return CUDA_ERROR_INVALID_VALUE;
        continue;
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        log_refusal("CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES", "remote writes need no flush here");
        return CUDA_ERROR_NOT_SUPPORTED;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t bytes = is_wide(one.operation) ? 8 : 4;
    CUdeviceptr address = one.waitValue.address;
    if (address % bytes || !process.memory.find(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

int64_t perform(Process& process, Context& context, const MemoryOperations& operations,
                int64_t begin_ns) {
  for (const CUstreamBatchMemOpParams& one : operations.list) {
    bool wide = is_wide(one.operation);
    if (is_wait(one.operation)) {
      bool over = wait_is_over(one.waitValue, read_word(one.waitValue.address, wide), wide);
      if (over) continue;
      ThreadClock::release();
      wait_for(process, context, one.waitValue, wide);
      begin_ns = std::max(begin_ns, process.node->now_ns());
      ThreadClock::hold(begin_ns);
    } else if (one.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64) {
      __atomic_store_n(reinterpret_cast<uint64_t*>(one.writeValue.address), one.writeValue.value64,
                       __ATOMIC_RELEASE);
    } else if (one.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32) {
      __atomic_store_n(reinterpret_cast<uint32_t*>(one.writeValue.address), one.writeValue.value,
                       __ATOMIC_RELEASE);
    }
  }
  return begin_ns;
}

}  // namespace lambent::emulated_cuda
