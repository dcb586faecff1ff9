// PoolTable: the pools that the program has made and that are as the device's own: their memory is
// ours to give. Not synchronised.
#pragma once

#include "gpu/shim/passed_types.h"

namespace lambent::shim {

class PoolTable {
 public:
  // Of more than it can remember, the memory stays the driver's.
  static constexpr int kMost = 64;

  void add(Handle pool, Device device) {
    for (Pool& known : pools_) {
      if (known.pool != nullptr) continue;
      known = {pool, device};
      return;
    }
  }
  void remove(Handle pool) {
    for (Pool& known : pools_) {
      if (known.pool == pool) known.pool = nullptr;
    }
  }
  // The device that its memory lies on; false if the pool is not known.
  bool find(Handle pool, Device* device) const {
    for (const Pool& known : pools_) {
      if (known.pool != pool) continue;
      *device = known.device;
      return true;
    }
    return false;
  }

 private:
  struct Pool {
    Handle pool = nullptr;
    Device device = 0;
  };
  Pool pools_[kMost] = {};
};

}  // namespace lambent::shim
