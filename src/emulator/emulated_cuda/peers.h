// Which contexts of one process have opened the memory of which others to their kernels. Locks for
// itself; any thread.
#pragma once

#include <map>
#include <utility>

#include "core/base/mutex.h"

namespace lambent::emulated_cuda {

class Peers {
 public:
  // False if it is open already.
  bool open(const void* context, int device, const void* peer, int peer_device) {
    const MutexLock lock(mutex_);
    return opened_.try_emplace({context, peer}, device, peer_device).second;
  }
  // False if it is not open.
  bool close(const void* context, const void* peer) {
    const MutexLock lock(mutex_);
    return opened_.erase({context, peer}) != 0;
  }
  // Whether any context of one of the two has opened one of the other.
  bool opened(int device, int peer) const {
    const MutexLock lock(mutex_);
    for (const auto& [contexts, devices] : opened_) {
      if (devices == std::pair(device, peer) || devices == std::pair(peer, device)) return true;
    }
    return false;
  }
  // A context is gone.
  void forget(const void* context) {
    const MutexLock lock(mutex_);
    std::erase_if(opened_, [&](const auto& entry) {
      return entry.first.first == context || entry.first.second == context;
    });
  }

 private:
  mutable Mutex mutex_;
  std::map<std::pair<const void*, const void*>, std::pair<int, int>> opened_ GUARDED_BY(mutex_);
};

}  // namespace lambent::emulated_cuda
