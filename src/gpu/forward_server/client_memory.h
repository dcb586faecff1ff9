// ClientMemory: what all processes of one client hold together: its device memory, which is also
// written into its ledger, and the rest. Any thread.
#pragma once

#include "core/base/fd.h"
#include "core/base/mutex.h"
#include "core/base/units.h"
#include "gpu/cuda_abi/driver_types.h"
#include "gpu/forward_server/client_quotas.h"
#include "gpu/ledger/writer.h"

namespace lambent::forward_server {

class ClientMemory {
 public:
  // Without a ledger, or with one that is none, it is counted only here.
  ClientMemory(Bytes limit, OwnedFd ledger) : limit_(limit) {
    if (ledger.valid()) writer_.attach(ledger.release());
  }

  Bytes limit() const { return limit_; }
  Bytes used() const {
    const MutexLock lock(mutex_);
    return used_;
  }
  // Before the driver is asked: true if it fits. It is then kept or cancelled.
  bool take(Bytes bytes) {
    const MutexLock lock(mutex_);
    // The ledger counts refusals too, so it is asked in any case; its own limit may be another.
    if (!writer_.try_reserve(bytes.count)) return false;
    if (bytes > limit_ || used_ > limit_ - bytes) {
      writer_.cancel(bytes.count);
      return false;
    }
    used_ += bytes;
    return true;
  }
  void keep(Bytes bytes) {
    const MutexLock lock(mutex_);
    writer_.keep(bytes.count);
  }
  void cancel(Bytes bytes) {
    const MutexLock lock(mutex_);
    used_ -= bytes;
    writer_.cancel(bytes.count);
  }
  // A process of it has no executor any more, and no way back: its sandbox is to be replaced.
  void lose_process() {
    const MutexLock lock(mutex_);
    writer_.context_is_broken(CUDA_ERROR_UNKNOWN);
  }
  // Host memory of the executor: for images that come in parts, and for what is known of functions
  // and graphs. Not in the ledger.
  bool take_upload(Bytes bytes) {
    const MutexLock lock(mutex_);
    if (uploads_ + bytes > kMostUploads) return false;
    uploads_ += bytes;
    return true;
  }
  void give_back_upload(Bytes bytes) {
    const MutexLock lock(mutex_);
    uploads_ -= bytes;
  }
  void give_back(Bytes bytes) {
    const MutexLock lock(mutex_);
    used_ -= bytes;
    writer_.release(bytes.count);
  }

  ClientQuotas quotas;

 private:
  static constexpr Bytes kMostUploads = Bytes::mib(512);

  const Bytes limit_;
  mutable Mutex mutex_;  // also keeps the two countings together
  Bytes used_ GUARDED_BY(mutex_);
  Bytes uploads_ GUARDED_BY(mutex_);
  ledger::LedgerWriter writer_ GUARDED_BY(mutex_);
};

}  // namespace lambent::forward_server
