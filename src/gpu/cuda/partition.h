// Multiprocessors and GreenContext: the multiprocessors of a device in groups, and contexts whose
// kernels keep to some of them, with the memory of the primary one. The Driver outlives them.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "gpu/cuda/driver.h"

namespace lambent::cuda {

// A value: any copy stands for the same groups.
class Multiprocessors {
 public:
  // In groups as small as the architecture allows (8 on Hopper), what is left over in none.
  // UNIMPLEMENTED if the driver or the device knows no such groups.
  static Result<Multiprocessors> of(const Driver& driver, int ordinal);

  unsigned count() const { return count_; }            // of the device
  unsigned group_size() const { return group_size_; }  // multiprocessors of a group
  size_t groups() const { return groups_.size(); }

 private:
  friend class GreenContext;
  unsigned count_ = 0, group_size_ = 0;
  std::vector<CUdevResource> groups_;
};

class GreenContext {
 public:
  // At least one group. The device's primary context is there.
  static Result<GreenContext> create(const Driver& driver, int ordinal, const Multiprocessors& all,
                                     std::span<const uint32_t> groups);
  GreenContext(GreenContext&& other) noexcept
      : driver_(other.driver_), green_(std::exchange(other.green_, nullptr)) {}
  GreenContext& operator=(GreenContext&&) = delete;
  // Streams made in it are destroyed before.
  ~GreenContext();

  CUgreenCtx get() const { return green_; }
  // As the context of a graph's kernels.
  Result<CUcontext> context() const;

 private:
  GreenContext(const Driver* driver, CUgreenCtx green) : driver_(driver), green_(green) {}

  const Driver* driver_;
  CUgreenCtx green_;  // null when moved from
};

}  // namespace lambent::cuda
