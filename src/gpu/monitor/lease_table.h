// LeaseTable: how much of the node's host memory is leased for device memory that moved out, by
// sandbox. Pure; used by MemoryService on its thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "core/base/units.h"

namespace lambent::monitor {

class LeaseTable {
 public:
  explicit LeaseTable(Bytes budget) : budget_(budget) {}

  void add_sandbox(uint64_t sandbox, Bytes most) { sandboxes_[sandbox].most = most; }
  // What it still has leased stays counted until it is given back.
  void remove_sandbox(uint64_t sandbox) { sandboxes_.erase(sandbox); }

  // False if the sandbox is unknown, or its share or the budget would be exceeded.
  bool lease(uint64_t sandbox, Bytes bytes) {
    const auto found = sandboxes_.find(sandbox);
    if (found == sandboxes_.end()) return false;
    Sandbox& one = found->second;
    // In this order nothing can wrap.
    if (bytes > one.most || one.leased > one.most - bytes) return false;
    if (bytes > budget_ || leased_ > budget_ - bytes) return false;
    one.leased += bytes;
    leased_ += bytes;
    return true;
  }
  // What it says that it has from another daemon counts from now on, beyond the budget if need be,
  // but no more than its share. Returns how much that is.
  Bytes claim(uint64_t sandbox, Bytes bytes) {
    const auto found = sandboxes_.find(sandbox);
    if (found == sandboxes_.end()) return {};
    Sandbox& one = found->second;
    const Bytes counted = std::min({bytes, one.most - one.leased, Bytes(~uint64_t{0}) - leased_});
    one.leased += counted;
    leased_ += counted;
    return counted;
  }
  void give_back(uint64_t sandbox, Bytes bytes) {
    leased_ -= bytes;
    const auto found = sandboxes_.find(sandbox);
    if (found != sandboxes_.end()) found->second.leased -= bytes;
  }

  Bytes leased() const { return leased_; }

 private:
  struct Sandbox {
    Bytes most;
    Bytes leased;
  };

  Bytes budget_;
  Bytes leased_;
  std::map<uint64_t, Sandbox> sandboxes_;
};

}  // namespace lambent::monitor
