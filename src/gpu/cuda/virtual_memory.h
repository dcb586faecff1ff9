// ReservedAddresses and PhysicalMemory: device addresses and the memory that is mapped at them,
// made apart. Resources of a thread whose current context is the device's; outlived by the Driver.
#pragma once

#include <utility>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "gpu/cuda/driver.h"

namespace lambent::cuda {

// What sizes and addresses of mapped memory must be multiples of.
Result<Bytes> mapping_granularity(const Driver& driver, int ordinal);

// Whether other processes can be given memory as a descriptor.
enum class Sharing { kNone, kDescriptor };
// kDescriptor if this device can; kNone otherwise.
Sharing sharing_of(const Driver& driver, int ordinal);

// Memory of a device without an address. May be dropped once mapped: it stays until unmapped.
class PhysicalMemory {
 public:
  // RESOURCE_EXHAUSTED if the device has not as much left.
  static Result<PhysicalMemory> create(const Driver& driver, int ordinal, Bytes size,
                                       Sharing sharing = Sharing::kNone);
  // What another process gave away as a descriptor, all of its `size`.
  static Result<PhysicalMemory> import(const Driver& driver, const OwnedFd& descriptor, Bytes size);
  PhysicalMemory(PhysicalMemory&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)),
        handle_(other.handle_),
        size_(other.size_) {}
  PhysicalMemory& operator=(PhysicalMemory&&) = delete;
  ~PhysicalMemory();

  Bytes size() const { return size_; }
  CUmemGenericAllocationHandle handle() const { return handle_; }

 private:
  PhysicalMemory(const Driver* driver, CUmemGenericAllocationHandle handle, Bytes size)
      : driver_(driver), handle_(handle), size_(size) {}

  const Driver* driver_;  // null when moved from
  CUmemGenericAllocationHandle handle_;
  Bytes size_;
};

// The memory that is mapped at this address as a whole, for another process; it stays as long as
// a process has it. Only of what was made with Sharing::kDescriptor.
Result<OwnedFd> export_memory(const Driver& driver, CUdeviceptr address);

// A range of addresses at which nothing lies until something is mapped.
class ReservedAddresses {
 public:
  static Result<ReservedAddresses> reserve(const Driver& driver, int ordinal, Bytes size);
  ReservedAddresses(ReservedAddresses&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)),
        ordinal_(other.ordinal_),
        base_(other.base_),
        size_(other.size_) {}
  ReservedAddresses& operator=(ReservedAddresses&&) = delete;
  // What is still mapped in it must have been unmapped.
  ~ReservedAddresses();

  CUdeviceptr base() const { return base_; }
  Bytes size() const { return size_; }
  // Maps all of the memory at `address`, for kernels and copies of this device.
  Result<void> map(CUdeviceptr address, const PhysicalMemory& memory) const;
  // In two steps, so that neighbours are opened together: nothing can use the memory before.
  Result<void> place(CUdeviceptr address, const PhysicalMemory& memory) const;
  Result<void> open(CUdeviceptr address, Bytes size) const;
  // What was mapped there, each as a whole, goes back to who has its handle, or to the device.
  Result<void> unmap(CUdeviceptr address, Bytes size) const;

 private:
  ReservedAddresses(const Driver* driver, int ordinal, CUdeviceptr base, Bytes size)
      : driver_(driver), ordinal_(ordinal), base_(base), size_(size) {}

  const Driver* driver_;  // null when moved from
  int ordinal_;
  CUdeviceptr base_;
  Bytes size_;
};

}  // namespace lambent::cuda
