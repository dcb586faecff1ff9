// Stream and Event: work in order on a device, and marks in it; each given back by its owner.
// Made and used on threads whose current context is the owner's; the Driver outlives them.
#pragma once

#include <cstddef>
#include <utility>

#include "core/base/result.h"
#include "core/base/units.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/partition.h"

namespace lambent::cuda {

class Event {
 public:
  // Such events take no time stamps: they are only for order.
  static Result<Event> create(const Driver& driver);
  Event(Event&& other) noexcept
      : driver_(other.driver_), event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event();

  CUevent get() const { return event_; }
  // Blocks until what was recorded last is over.
  Result<void> synchronize() const;

 private:
  Event(const Driver* driver, CUevent event) : driver_(driver), event_(event) {}

  const Driver* driver_;
  CUevent event_;  // null when moved from
};

// One that does not wait for the legacy stream.
class Stream {
 public:
  static Result<Stream> create(const Driver& driver);
  // Its kernels keep to the context's multiprocessors.
  static Result<Stream> create(const Driver& driver, const GreenContext& context);
  Stream(Stream&& other) noexcept
      : driver_(other.driver_), stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&&) = delete;
  ~Stream();

  CUstream get() const { return stream_; }
  // All return when the work is queued, if the host memory is page-locked.
  Result<void> copy_to_device(CUdeviceptr to, const void* from, Bytes size) const;
  Result<void> copy_to_host(void* to, CUdeviceptr from, Bytes size) const;
  Result<void> copy_on_device(CUdeviceptr to, CUdeviceptr from, Bytes size) const;
  Result<void> zero(CUdeviceptr to, Bytes size) const;
  Result<void> record(const Event& event) const;
  // What is queued from here on begins after what `event` marks.
  Result<void> wait_for(const Event& event) const;
  // Calls `callback` on a thread of the driver's when all that is queued is over, also if it
  // failed: its status says so. It must not call the driver.
  Result<void> call_back(CUstreamCallback callback, void* user_data) const;
  Result<void> synchronize() const;
  // Whether all is over; an error if the context is broken.
  Result<bool> is_idle() const;

 private:
  Stream(const Driver* driver, CUstream stream) : driver_(driver), stream_(stream) {}

  const Driver* driver_;
  CUstream stream_;  // null when moved from
};

}  // namespace lambent::cuda
