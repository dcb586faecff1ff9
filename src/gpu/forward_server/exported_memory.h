// ExportedMemory: device memory that may have more than one holder: freed, and counted no more,
// with the last. Any thread, with the device's context current.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/base/units.h"
#include "gpu/cuda/driver.h"
#include "gpu/forward_server/client_memory.h"
#include "gpu/forward_server/client_pool.h"

namespace lambent::forward_server {

// What names memory to other processes: drawn, or made of a name that the program gave. Zeros:
// none.
struct MemoryHandle {
  uint64_t high = 0, low = 0;
  auto operator<=>(const MemoryHandle&) const = default;
};

class ExportedMemory {
 public:
  struct Place {
    CUdeviceptr address = 0;
    uint64_t bytes = 0;
    Bytes counted;
  };
  // Whose it is: it counts against that client's limit, and lies in its pool.
  struct Owner {
    uint64_t client = 0;
    std::shared_ptr<ClientMemory> memory;
    std::shared_ptr<ClientPool> pool;
  };

  // One of the client's quota of exports was taken for it. `stream` is for its free; both it and
  // the driver outlive the memory.
  ExportedMemory(const cuda::Driver& driver, CUstream stream, Owner owner, Place place)
      : driver_(driver), stream_(stream), owner_(std::move(owner)), place_(place) {}
  ~ExportedMemory() {
    driver_->mem_free_async(place_.address, stream_);
    owner_.pool->freed();
    owner_.memory->give_back(place_.counted);
    owner_.memory->quotas.exports.give_back();
  }
  ExportedMemory(const ExportedMemory&) = delete;
  ExportedMemory& operator=(const ExportedMemory&) = delete;

  const Place& place() const { return place_; }
  uint64_t client() const { return owner_.client; }

  // What it goes by; guarded by the mutex of MemoryHandles.
  MemoryHandle drawn, name;

 private:
  const cuda::Driver& driver_;
  const CUstream stream_;
  const Owner owner_;
  const Place place_;
};

}  // namespace lambent::forward_server
