// Which contexts of one process have opened the memory of which others to their kernels. Locks for
// itself; any thread.
#pragma once

#include <map>
#include <mutex>
#include <utility>

namespace lambent::emulated_cuda {

class Peers {
 public:
  // False if it is open already.
  bool open(const void* context, int device, const void* peer, int peer_device) {
    std::lock_guard lock(mutex_);
    return opened_.try_emplace({context, peer}, device, peer_device).second;
  }
  // False if it is not open.
  bool close(const void* context, const void* peer) {
    std::lock_guard lock(mutex_);
    return opened_.erase({context, peer}) != 0;
  }
  // Whether any context of one of the two has opened one of the other.
  bool opened(int device, int peer) const {
    std::lock_guard lock(mutex_);
    for (const auto& [contexts, devices] : opened_) {
      if (devices == std::pair(device, peer) || devices == std::pair(peer, device)) return true;
    }
    return false;
  }
  // A context is gone.
  void forget(const void* context) {
    std::lock_guard lock(mutex_);
    std::erase_if(opened_, [&](const auto& entry) {
      return entry.first.first == context || entry.first.second == context;
    });
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<const void*, const void*>, std::pair<int, int>> opened_;
};

}  // namespace lambent::emulated_cuda
