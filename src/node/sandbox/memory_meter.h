// MemoryMeter: the highest memory use of a sandbox since the last reset, as a number in a file: the
// kernel's, of its cgroup, or where there is none a file in memory that its init writes every 20
// ms. Read by the worker on its loop thread; neither side trusts what it reads beyond its being a
// number.
#pragma once

#include <utility>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/base/units.h"

namespace lambent::sandbox {

class MemoryMeter {
 public:
  // Measures nothing.
  MemoryMeter() = default;
  explicit MemoryMeter(OwnedFd file) : file_(std::move(file)) {}
  // One that raise() writes.
  static Result<MemoryMeter> make();

  // Zero where nothing is measured, or was yet. A kernel before 6.12 (cgroup v2) cannot reset:
  // there it is the peak since the sandbox was made.
  Bytes peak() const;
  void reset();
  // Its memory is so much now.
  void raise(Bytes now);
  const OwnedFd& file() const { return file_; }
  OwnedFd release() && { return std::move(file_); }

 private:
  OwnedFd file_;
};

}  // namespace lambent::sandbox
