// WaitReason: why an invocation waits, in a word that users see. A value; given by policies, kept
// by dispatch with each outcome.
#pragma once

#include <string_view>

namespace lambent::scheduling {

enum class WaitReason {
  kNone,              // it did not wait
  kOwnQueue,          // behind others of its function
  kConcurrencyLimit,  // its function runs as many as it may
  kThrottled,         // its function is ahead of the others' share
  kBehindOthers,      // other functions came first in the policy's order
  kNoToken,           // every device runs as many as it may
  kNoMemory,          // no device has that much memory free
  kNoSandbox,         // the pool is full of sandboxes at work
  kNoDevice,          // no healthy device
  kMemoryMoving,      // it has a place, where its memory or room for it is yet to come
  kDraining,          // the worker takes no more work
  kOwnPool,           // the devices of its function are at work, and no other function has more
  kPoolHandover,      // a device that was taken from another function is yet at work for that one
  kHostBusy,          // it runs on the host's processors, which run as many as they may
  kWarmElsewhere,  // it is warm on a busy device; a cold start on an idle one is not worth it yet
  kAtWork,         // its sandboxes are at work; a cold start beside them is not worth it yet
  // A quota of its tenant: as many of its invocations as may are at work; its sandboxes at work
  // have the GPU memory, or that of the host, that it may have; it has used the GPU time of this
  // hour.
  kTenantConcurrency,
  kTenantGpuMemory,
  kTenantHostMemory,
  kTenantGpuTime,
  kTenantAhead,      // its tenant is ahead of the other tenants' share
  kSlowsOthers,      // beside those at work it would cost more than its wait for the first of them
  kGpusNotTogether,  // it takes several GPUs, and as many are not free at once
  kGpuReserved,      // the GPU is kept for a function that takes several and has waited for them
};
constexpr WaitReason kLastWaitReason = WaitReason::kGpuReserved;
std::string_view name_of(WaitReason reason);

}  // namespace lambent::scheduling
