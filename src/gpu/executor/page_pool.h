// PagePool: device memory in pages of one size that are mapped where they are needed, and go from
// window to window: for what comes and goes while requests run. Synchronised; each thread has the
// device's context current. What unmaps may wait for what runs on the device: shrink(), drop(),
// loosen() and close(), none of which holds up the others meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "gpu/cuda/virtual_memory.h"
#include "gpu/device_memory/address_space.h"

namespace lambent::executor {

// A window is a range of addresses that stays; at each of its pages lies memory or nothing. A page
// that is given back stays where it is until it is loosened or goes to the device: who takes it
// again before has it without the driver.
class PagePool {
 public:
  static Result<std::unique_ptr<PagePool>> create(const cuda::Driver& driver, int ordinal);
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  Bytes page() const { return page_; }

  // Returns the address of a window of so many pages, by which it goes; none is there yet.
  Result<CUdeviceptr> open(uint32_t pages);
  // Its pages are given back; nothing else is done with it any more.
  void close(CUdeviceptr window);

  struct Run {
    CUdeviceptr address = 0;
    Bytes size;
  };
  // Has these pages of the window there, none of which is taken already; returns those in which
  // something else may lie than what the window had, as often as they are taken until cleaned() is
  // called. Nothing is taken, and RESOURCE_EXHAUSTED, if the device has not as much left and too
  // little lies loose; UNAVAILABLE while one of them is being unmapped. `pages` ascend.
  Result<std::vector<Run>> take(CUdeviceptr window, std::span<const uint32_t> pages);
  // Of these, which are still taken, what others left is overwritten before anybody reads it.
  void cleaned(CUdeviceptr window, std::span<const Run> runs);
  // Nothing may still be running that uses them.
  void give_back(CUdeviceptr window, std::span<const uint32_t> pages);

  // Asks the device for free pages, before they are needed, until there is so much in all or
  // the device has no more.
  void grow_to(Bytes size);
  // Unmaps free pages, those that have been free for longest first, until any window can have so
  // much of them or none is left.
  void loosen(Bytes size);
  // Gives free pages to the device, those that have been free for longest first, until so much has
  // gone or none is free.
  void shrink(Bytes less);
  // Those of the window that are free go to the device.
  void drop(CUdeviceptr window);

  // What it has of the device's memory.
  Bytes size() const { return page_ * size_.load(std::memory_order_relaxed); }
  // How often the driver was asked to make, map, unmap or free memory.
  uint64_t driver_calls() const { return driver_calls_.load(std::memory_order_relaxed); }

 private:
  struct Page {
    cuda::PhysicalMemory memory;
    CUdeviceptr window = 0;  // where it is mapped; 0: nowhere
    uint32_t place = 0;      // of the window's pages
  };
  using Pages = std::list<Page>;
  struct Place {
    enum class State : uint8_t { kNone, kFree, kTaken, kLeaving };
    State state = State::kNone;
    bool is_foreign = false;  // not cleaned since it was mapped here
    Pages::iterator page;     // if there is one
  };
  using Places = std::vector<Place>;

  PagePool(const cuda::Driver& driver, int ordinal, Bytes page, cuda::ReservedAddresses addresses);

  Result<void> add_page() REQUIRES(mutex_);
  // Has memory at these places, which have none.
  Result<void> map(CUdeviceptr window, Places& places, std::span<const uint32_t> missing)
      REQUIRES(mutex_);
  Result<void> map_run(CUdeviceptr window, Places& places, uint32_t begin, uint32_t end)
      REQUIRES(mutex_);
  void give_back(Place& place) REQUIRES(mutex_);
  // Marks a free page as leaving; the others do the rest, without the lock in between.
  void begin_unmapping(Pages::iterator page, Pages& leaving) REQUIRES(mutex_);
  void unmap(MutexLock& lock, Pages& leaving) REQUIRES(mutex_) NO_THREAD_SAFETY_ANALYSIS;
  void unmap_and_free(MutexLock& lock, Pages leaving) REQUIRES(mutex_) NO_THREAD_SAFETY_ANALYSIS;
  void forget(const Page& page) REQUIRES(mutex_);

  const cuda::Driver& driver_;
  const int ordinal_;
  const Bytes page_;
  const cuda::ReservedAddresses addresses_;
  std::atomic<uint64_t> size_{0}, driver_calls_{0};  // pages, and calls

  Mutex mutex_;
  Condition left_;
  device_memory::AddressSpace space_ GUARDED_BY(mutex_);
  std::unordered_map<CUdeviceptr, Places> windows_ GUARDED_BY(mutex_);
  // Those that are mapped nowhere, then the longest free first.
  Pages free_ GUARDED_BY(mutex_);
  Pages taken_ GUARDED_BY(mutex_);
};

}  // namespace lambent::executor
