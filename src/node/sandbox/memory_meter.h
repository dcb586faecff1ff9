// MemoryMeter: the memory use of a sandbox, now and at most since the last reset, as numbers in
// files: the kernel's, of its cgroup, or where there is none a file in memory with both, which its
// init writes every 20 ms. Read by the worker on its loop thread; neither side trusts what it reads
// beyond its being a number.
#pragma once

#include <utility>
#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/base/units.h"

namespace lambent::sandbox {

class MemoryMeter {
 public:
  // Measures nothing.
  MemoryMeter() = default;
  // Without `usage` what is used now is the second number of `file`.
  explicit MemoryMeter(OwnedFd file, OwnedFd usage = OwnedFd())
      : file_(std::move(file)), usage_(std::move(usage)) {}
  // One that raise() writes.
  static Result<MemoryMeter> make();

  // Zero where nothing is measured, or was yet. A kernel before 6.12 (cgroup v2) cannot reset:
  // there it is the peak since the sandbox was made.
  Bytes peak() const;
  // Zero where nothing is measured, or was yet.
  Bytes now() const;
  void reset();
  // Its memory is so much now.
  void raise(Bytes now);
  const OwnedFd& file() const { return file_; }
  // As descriptors for another process: none, its file, or that and its usage.
  std::vector<OwnedFd> release() &&;

 private:
  void write(Bytes peak, Bytes now);

  OwnedFd file_;
  OwnedFd usage_;
};

}  // namespace lambent::sandbox
