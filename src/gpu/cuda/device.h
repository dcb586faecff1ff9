// Context, DeviceBuffer and Module: what a program holds on a device, each given back by its owner.
// Resources of the thread that made the context; the Driver outlives them.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "gpu/cuda/driver.h"

namespace lambent::cuda {

// The primary context of a device, current on the thread that made it.
class Context {
 public:
  static Result<Context> create(const Driver& driver, int ordinal);
  Context(Context&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)),
        device_(other.device_),
        context_(other.context_) {}
  ~Context();

  // The compute capability, such as {9, 0}.
  Result<std::pair<int, int>> compute_capability() const;
  Result<void> synchronize() const;
  // Makes it the calling thread's current context, so that it may use what belongs to it.
  Result<void> enter() const;

 private:
  Context(const Driver* driver, CUdevice device, CUcontext context)
      : driver_(driver), device_(device), context_(context) {}

  const Driver* driver_;  // null when moved from
  CUdevice device_;
  CUcontext context_;
};

// The ordinals of the other visible devices whose memory this one can reach without the host.
Result<std::vector<uint32_t>> peers_of(const Driver& driver, int ordinal);

// Host memory that the device can reach by itself.
class PinnedBuffer {
 public:
  static Result<PinnedBuffer> allocate(const Driver& driver, Bytes size);
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)),
        pointer_(other.pointer_),
        size_(other.size_) {}
  PinnedBuffer& operator=(PinnedBuffer&&) = delete;
  ~PinnedBuffer();

  void* pointer() const { return pointer_; }
  Bytes size() const { return size_; }

 private:
  PinnedBuffer(const Driver* driver, void* pointer, Bytes size)
      : driver_(driver), pointer_(pointer), size_(size) {}

  const Driver* driver_;  // null when moved from
  void* pointer_;
  Bytes size_;
};

enum class CopyDirection { kToDevice, kToHost };

class DeviceBuffer {
 public:
  static Result<DeviceBuffer> allocate(const Driver& driver, Bytes size);
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)),
        pointer_(other.pointer_),
        size_(other.size_) {}
  ~DeviceBuffer();

  CUdeviceptr pointer() const { return pointer_; }
  Bytes size() const { return size_; }
  // Both wait for the copy; OUT_OF_RANGE if it is larger than the buffer.
  Result<void> write(std::span<const std::byte> content);
  Result<void> read(std::span<std::byte> content) const;
  Result<void> fill(unsigned char value);
  // Copies all of the smaller of the two and waits; the seconds that it took by the device's
  // events.
  Result<double> timed_copy(const PinnedBuffer& host, CopyDirection direction);

 private:
  DeviceBuffer(const Driver* driver, CUdeviceptr pointer, Bytes size)
      : driver_(driver), pointer_(pointer), size_(size) {}

  const Driver* driver_;  // null when moved from
  CUdeviceptr pointer_;
  Bytes size_;
};

struct Dimensions {
  unsigned x = 1, y = 1, z = 1;
};

class Module {
 public:
  // FAILED_PRECONDITION if the image is not for this driver: try the next.
  static Result<Module> load(const Driver& driver, const std::string& image);
  Module(Module&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)), module_(other.module_) {}
  ~Module();

  Result<CUfunction> function(const std::string& symbol) const;

 private:
  Module(const Driver* driver, CUmodule module) : driver_(driver), module_(module) {}

  const Driver* driver_;  // null when moved from
  CUmodule module_;
};

Result<void> launch(const Driver& driver, CUfunction function, Dimensions grid, Dimensions block,
                    unsigned shared_bytes, std::span<void* const> parameters);

}  // namespace lambent::cuda
