#include "gpu/executor/page_pool.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "gpu/device_memory/piece_map.h"

namespace lambent::executor {
namespace {

Bytes round_up(Bytes size, Bytes step) {
  return Bytes((size.count + step.count - 1) / step.count * step.count);
}

}  // namespace

Result<std::unique_ptr<PagePool>> PagePool::create(const cuda::Driver& driver, int ordinal) {
  CUdevice device = 0;
  RETURN_IF_ERROR(driver.check(driver->device_get(&device, ordinal), "cuDeviceGet"));
  size_t total = 0;
  RETURN_IF_ERROR(driver.check(driver->device_total_mem(&total, device), "cuDeviceTotalMem"));
  ASSIGN_OR_RETURN(const Bytes granularity, cuda::mapping_granularity(driver, ordinal));
  // As large as the units of MemoryPool, so that both round a size to the same.
  const Bytes page =
      round_up(Bytes(device_memory::kPieceBlockBytes), std::max(granularity, Bytes(1)));
  ASSIGN_OR_RETURN(auto addresses, cuda::ReservedAddresses::reserve(
                                       driver, ordinal, round_up(Bytes(4 * total), page)));
  return std::unique_ptr<PagePool>(new PagePool(driver, ordinal, page, std::move(addresses)));
}

PagePool::PagePool(const cuda::Driver& driver, int ordinal, Bytes page,
                   cuda::ReservedAddresses addresses)
    : driver_(driver), ordinal_(ordinal), page_(page), addresses_(std::move(addresses)) {
  CHECK(space_.add_region(addresses_.base(), addresses_.size().count), "memory for one region");
}

PagePool::~PagePool() {
  for (const Pages* pages : {&free_, &taken_}) {
    for (const Page& page : *pages) {
      if (page.window == 0) continue;
      (void)addresses_.unmap(page.window + page_.count * page.place, page_);
    }
  }
}

Result<CUdeviceptr> PagePool::open(uint32_t pages) {
  const MutexLock lock(mutex_);
  const CUdeviceptr window = space_.take(page_.count * pages);
  if (window == 0) {
    return Error{ErrorCode::kResourceExhausted,
                 "no device addresses left for " + to_string(page_ * pages)};
  }
  windows_[window].resize(pages);
  return window;
}

void PagePool::close(CUdeviceptr window) {
  MutexLock lock(mutex_);
  Places& places = windows_.at(window);
  Pages leaving;
  for (Place& place : places) {
    if (place.state == Place::State::kTaken) give_back(place);
    if (place.state == Place::State::kFree) begin_unmapping(place.page, leaving);
  }
  unmap_and_free(lock, std::move(leaving));
  const auto leaves = [](const Place& place) { return place.state == Place::State::kLeaving; };
  while (std::ranges::any_of(places, leaves)) left_.wait(lock);
  space_.give_back(window, page_.count * places.size());
  windows_.erase(window);
}

Result<std::vector<PagePool::Run>> PagePool::take(CUdeviceptr window,
                                                  std::span<const uint32_t> pages) {
  const MutexLock lock(mutex_);
  Places& places = windows_.at(window);
  if (std::ranges::any_of(
          pages, [&](uint32_t page) { return places[page].state == Place::State::kLeaving; })) {
    return Error{ErrorCode::kUnavailable, "a page of the window is being unmapped"};
  }
  std::vector<uint32_t> missing;
  for (const uint32_t page : pages) {
    Place& place = places[page];
    CHECK(place.state != Place::State::kTaken, "a page is taken once");
    if (place.state == Place::State::kNone) {
      missing.push_back(page);
      continue;
    }
    taken_.splice(taken_.end(), free_, place.page);
    place.state = Place::State::kTaken;
  }
  const auto mapped = map(window, places, missing);
  if (!mapped.ok()) {
    for (const uint32_t page : pages) {
      if (places[page].state == Place::State::kTaken) give_back(places[page]);
    }
    return mapped.error();
  }
  std::vector<Run> foreign;
  for (const uint32_t page : pages) {
    if (!places[page].is_foreign) continue;
    const CUdeviceptr address = window + page_.count * page;
    if (!foreign.empty() && foreign.back().address + foreign.back().size.count == address) {
      foreign.back().size += page_;
    } else {
      foreign.push_back({address, page_});
    }
  }
  return foreign;
}

void PagePool::cleaned(CUdeviceptr window, std::span<const Run> runs) {
  const MutexLock lock(mutex_);
  Places& places = windows_.at(window);
  for (const Run& run : runs) {
    const uint64_t begin = (run.address - window) / page_.count;
    for (uint64_t at = begin; at < begin + run.size.count / page_.count; ++at) {
      CHECK(places[at].state == Place::State::kTaken, "what is cleaned is taken");
      places[at].is_foreign = false;
    }
  }
}

void PagePool::give_back(CUdeviceptr window, std::span<const uint32_t> pages) {
  const MutexLock lock(mutex_);
  for (const uint32_t page : pages) give_back(windows_.at(window)[page]);
}

void PagePool::give_back(Place& place) {
  CHECK(place.state == Place::State::kTaken, "what is given back was taken");
  free_.splice(free_.end(), taken_, place.page);
  place.state = Place::State::kFree;
}

void PagePool::grow_to(Bytes size) {
  const MutexLock lock(mutex_);
  while (this->size() < size && add_page().ok()) {
  }
}

void PagePool::loosen(Bytes size) {
  MutexLock lock(mutex_);
  Pages leaving;
  auto page = free_.begin();
  Bytes loose;
  for (; page != free_.end() && page->window == 0; ++page) loose += page_;
  for (; loose < size && page != free_.end(); loose += page_) begin_unmapping(page++, leaving);
  unmap(lock, leaving);
  free_.splice(free_.begin(), leaving);
  left_.notify_all();
}

void PagePool::shrink(Bytes less) {
  MutexLock lock(mutex_);
  Pages leaving;
  for (Bytes gone; gone < less && !free_.empty(); gone += page_)
    begin_unmapping(free_.begin(), leaving);
  unmap_and_free(lock, std::move(leaving));
}

void PagePool::drop(CUdeviceptr window) {
  MutexLock lock(mutex_);
  const auto dropped = windows_.find(window);
  if (dropped == windows_.end()) return;
  Pages leaving;
  for (const Place& place : dropped->second) {
    if (place.state == Place::State::kFree) begin_unmapping(place.page, leaving);
  }
  unmap_and_free(lock, std::move(leaving));
}

Result<void> PagePool::add_page() {
  ++driver_calls_;
  ASSIGN_OR_RETURN(auto memory, cuda::PhysicalMemory::create(driver_, ordinal_, page_));
  free_.push_front({std::move(memory)});
  ++size_;
  return {};
}

// All of them are there before one is mapped: to unmap it again might wait for the device.
// Access is given for as many pages at a time as lie side by side: that call costs most.
Result<void> PagePool::map(CUdeviceptr window, Places& places, std::span<const uint32_t> missing) {
  const auto is_mapped = [](const Page& page) { return page.window != 0; };
  auto loose = static_cast<size_t>(
      std::distance(free_.begin(), std::find_if(free_.begin(), free_.end(), is_mapped)));
  for (; loose < missing.size(); ++loose) RETURN_IF_ERROR(add_page());
  for (size_t begin = 0; begin < missing.size();) {
    size_t end = begin + 1;
    while (end < missing.size() && missing[end] == missing[end - 1] + 1) ++end;
    RETURN_IF_ERROR(map_run(window, places, missing[begin], missing[end - 1] + 1));
    begin = end;
  }
  return {};
}

Result<void> PagePool::map_run(CUdeviceptr window, Places& places, uint32_t begin, uint32_t end) {
  const CUdeviceptr base = window + page_.count * begin;
  uint32_t at = begin;
  const auto map_all = [&]() REQUIRES(mutex_) -> Result<void> {
    for (; at < end; ++at) {
      const auto page = free_.begin();
      CHECK(page != free_.end() && page->window == 0, "there are enough");
      ++driver_calls_;
      RETURN_IF_ERROR(addresses_.place(window + page_.count * at, page->memory));
      page->window = window;
      page->place = at;
      places[at] = {Place::State::kTaken, true, page};
      taken_.splice(taken_.end(), free_, page);
    }
    ++driver_calls_;
    return addresses_.open(base, page_ * (end - begin));
  };
  auto mapped = map_all();
  if (mapped.ok() || at == begin) return mapped;
  // None of them can be used: they are mapped nowhere, as before.
  (void)addresses_.unmap(base, page_ * (at - begin));
  for (uint32_t each = begin; each < at; ++each) {
    const auto page = places[each].page;
    places[each] = {};
    page->window = 0;
    free_.splice(free_.begin(), taken_, page);
  }
  return mapped;
}

void PagePool::forget(const Page& page) { windows_.at(page.window)[page.place] = {}; }

void PagePool::begin_unmapping(Pages::iterator page, Pages& leaving) {
  if (page->window != 0) windows_.at(page->window)[page->place].state = Place::State::kLeaving;
  leaving.splice(leaving.end(), free_, page);
}

// Neighbours go with one call, for each may wait for what runs on the device.
void PagePool::unmap(MutexLock& lock, Pages& leaving) {
  lock.unlock();
  leaving.sort([](const Page& one, const Page& other) {
    return std::pair(one.window, one.place) < std::pair(other.window, other.place);
  });
  for (auto page = leaving.begin(); page != leaving.end();) {
    const auto first = page;
    Bytes size = page_;
    for (++page; page != leaving.end() && page->window == first->window &&
                 page_ * (page->place - first->place) == size;
         ++page) {
      size += page_;
    }
    if (first->window == 0) continue;
    ++driver_calls_;
    // In a broken context this fails; then the memory goes with the process.
    (void)addresses_.unmap(first->window + page_.count * first->place, size);
  }
  lock.lock();
  for (Page& page : leaving) {
    if (page.window != 0) forget(page);
    page.window = 0;
  }
}

void PagePool::unmap_and_free(MutexLock& lock, Pages leaving) {
  if (leaving.empty()) return;
  const uint64_t count = leaving.size();
  unmap(lock, leaving);
  lock.unlock();
  leaving.clear();
  driver_calls_ += count;
  size_ -= count;
  lock.lock();
  left_.notify_all();
}

}  // namespace lambent::executor
