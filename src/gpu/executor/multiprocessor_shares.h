// MultiprocessorShares: which multiprocessors of the device each kernel instance and each client of
// an executor may use, and what is reported where a share cannot be applied. Of the loop thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "gpu/cuda/partition.h"
#include "gpu/executor/share_table.h"

namespace lambent::executor {

class MultiprocessorShares {
 public:
  // Where the driver or the device has no green contexts, every user has all multiprocessors.
  MultiprocessorShares(const cuda::Driver& driver, int ordinal);
  MultiprocessorShares(const MultiprocessorShares&) = delete;
  MultiprocessorShares& operator=(const MultiprocessorShares&) = delete;

  // Null: the device cannot be split. It lives as long as this.
  const cuda::Multiprocessors* multiprocessors() const { return all_ ? &*all_ : nullptr; }

  // The groups of multiprocessors that the user, an instance or a client, has from now on for a
  // share of so many per cent, in place of those it had; none: all. Prints what cannot be applied.
  std::vector<uint32_t> give(SandboxId user, uint32_t share);
  void take_back(SandboxId user);

 private:
  std::optional<cuda::Multiprocessors> all_;
  std::optional<ShareTable> table_;  // if there are multiprocessors
  bool has_printed_ = false;         // that shares are not applied
};

}  // namespace lambent::executor
