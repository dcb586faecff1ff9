#include "gpu/executor/memory_pool.h"

#include <algorithm>

#include "core/base/check.h"

namespace lambent::executor {
namespace {

Bytes round_up(Bytes size, Bytes step) {
  return Bytes((size.count + step.count - 1) / step.count * step.count);
}

}  // namespace

Result<std::unique_ptr<MemoryPool>> MemoryPool::create(const cuda::Driver& driver, int ordinal) {
  CUdevice device = 0;
  RETURN_IF_ERROR(driver.check(driver->device_get(&device, ordinal), "cuDeviceGet"));
  size_t total = 0;
  RETURN_IF_ERROR(driver.check(driver->device_total_mem(&total, device), "cuDeviceTotalMem"));
  ASSIGN_OR_RETURN(const Bytes granularity, cuda::mapping_granularity(driver, ordinal));
  const Bytes unit =
      round_up(Bytes(device_memory::kPieceBlockBytes), std::max(granularity, Bytes(1)));
  ASSIGN_OR_RETURN(auto addresses, cuda::ReservedAddresses::reserve(
                                       driver, ordinal, round_up(Bytes(2 * total), unit)));
  return std::unique_ptr<MemoryPool>(new MemoryPool(driver, ordinal, unit, std::move(addresses)));
}

MemoryPool::MemoryPool(const cuda::Driver& driver, int ordinal, Bytes unit,
                       cuda::ReservedAddresses addresses)
    : driver_(driver),
      ordinal_(ordinal),
      unit_(unit),
      sharing_(cuda::sharing_of(driver, ordinal)),
      addresses_(std::move(addresses)) {
  CHECK(space_.add_region(addresses_.base(), addresses_.size().count), "memory for one region");
}

MemoryPool::~MemoryPool() {
  for (const auto& [address, block] : large_) unmap(address, block.size);
  for (const auto& [size, block] : free_large_) unmap(block.address, size);
  for (const auto& [address, block] : shared_) unmap(address, unit_);
  for (const auto& [address, size] : leaving_) (void)addresses_.unmap(address, size);
}

bool MemoryPool::is_small(Bytes size) const { return size < kLeastLarge; }

Bytes MemoryPool::rounded(Bytes size) const {
  size = std::max(size, Bytes(1));
  return is_small(size) ? round_up(size, Bytes(device_memory::kPieceBytes)) : round_up(size, unit_);
}

Result<MemoryPool::Block> MemoryPool::take(Bytes size, uint64_t user) {
  const Bytes counted = rounded(size);
  if (used_ + counted > limit_) {
    return Error{ErrorCode::kResourceExhausted,
                 "device memory: " + to_string(counted) + " more than " + to_string(used_) +
                     " in use would exceed the " + to_string(limit_) + " allowed"};
  }
  ASSIGN_OR_RETURN(const Block block,
                   is_small(size) ? take_small(counted) : take_large(counted, user));
  used_ += block.size;
  return block;
}

Result<MemoryPool::Block> MemoryPool::take_small(Bytes size) {
  CUdeviceptr address = 0;
  for (auto& [base, unit] : shared_) {
    if (unit->pieces.free_bytes() < size.count) continue;
    const uint32_t offset = unit->pieces.take(size.count);
    if (offset == device_memory::PieceMap::kNone) continue;
    address = base + offset;
    break;
  }
  if (address == 0) {
    make_room(unit_);
    ASSIGN_OR_RETURN(const CUdeviceptr base, map_new(unit_));
    auto unit = std::make_unique<Shared>();
    address = base + unit->pieces.take(size.count);
    shared_.emplace(base, std::move(unit));
  }
  small_.emplace(address, size);
  return Block{address, size, false};
}

Result<MemoryPool::Block> MemoryPool::take_large(Bytes size, uint64_t user) {
  // Of this size exactly: what is larger would count for more than was planned with.
  const auto [begin, end] = free_large_.equal_range(size);
  if (begin != end) {
    auto chosen =
        std::find_if(begin, end, [user](const auto& block) { return block.second.user == user; });
    if (chosen == end) chosen = begin;
    const Free block = chosen->second;
    large_.emplace(block.address, Large{size, user});
    free_large_.erase(chosen);
    return Block{block.address, size, block.user == user};
  }
  make_room(size);
  ASSIGN_OR_RETURN(const CUdeviceptr address, map_new(size));
  large_.emplace(address, Large{size, user});
  return Block{address, size, false};
}

void MemoryPool::give_back(CUdeviceptr address) {
  if (const auto large = large_.find(address); large != large_.end()) {
    used_ -= large->second.size;
    free_large_.emplace(large->second.size, Free{address, large->second.user, looks_});
    large_.erase(large);
  } else {
    const auto small = small_.find(address);
    CHECK(small != small_.end(), "a block of this pool");
    used_ -= small->second;
    small_.erase(small);
    const auto unit = std::prev(shared_.upper_bound(address));
    unit->second->pieces.give_back(static_cast<uint32_t>(address - unit->first));
    unit->second->empty_since = looks_;
  }
  if (mapped_ > limit_) make_room(Bytes(0));
}

MemoryPool::Leaving MemoryPool::begin_unmapping(Bytes most) {
  return begin_unmapping_if(most, [](uint64_t) { return true; });
}

MemoryPool::Leaving MemoryPool::begin_unmapping_idle(Bytes most, uint64_t looks) {
  ++looks_;
  return begin_unmapping_if(most, [this, looks](uint64_t since) { return looks_ - since > looks; });
}

MemoryPool::Leaving MemoryPool::begin_unmapping_if(Bytes most,
                                                   const std::function<bool(uint64_t)>& since) {
  Leaving leaving;
  Bytes gone;
  for (auto each = free_large_.end(); each != free_large_.begin() && gone < most;) {
    --each;
    if (!since(each->second.since)) continue;
    gone += each->first;
    leave(each->second.address, each->first, &leaving);
    each = free_large_.erase(each);
  }
  for (auto each = shared_.begin(); each != shared_.end() && gone < most;) {
    if (!each->second->pieces.is_empty() || !since(each->second->empty_since)) {
      ++each;
      continue;
    }
    gone += unit_;
    leave(each->first, unit_, &leaving);
    each = shared_.erase(each);
  }
  return leaving;
}

void MemoryPool::give_to_device(CUdeviceptr address, Leaving* leaving) {
  if (const auto large = large_.find(address); large != large_.end()) {
    used_ -= large->second.size;
    leave(address, large->second.size, leaving);
    large_.erase(large);
    return;
  }
  give_back(address);
  auto unit = shared_.upper_bound(address);
  if (unit == shared_.begin()) return;  // the limit has taken its unit
  --unit;
  if (address - unit->first >= unit_.count || !unit->second->pieces.is_empty()) return;
  leave(unit->first, unit_, leaving);
  shared_.erase(unit);
}

void MemoryPool::leave(CUdeviceptr address, Bytes size, Leaving* leaving) {
  leaving->emplace_back(address, size);
  leaving_.emplace(address, size);
  const MutexLock lock(leaving_mutex_);
  ++to_unmap_;
}

void MemoryPool::unmap(const Leaving& leaving) const {
  for (const auto& [address, size] : leaving) (void)addresses_.unmap(address, size);
  const MutexLock lock(leaving_mutex_);
  to_unmap_ -= leaving.size();
  unmapped_.notify_all();
}

// The thread that unmaps it does not wait for this thread.
void MemoryPool::await_leaving() const {
  MutexLock lock(leaving_mutex_);
  while (to_unmap_ != 0) unmapped_.wait(lock);
}

void MemoryPool::forget(const Leaving& leaving) {
  for (const auto& [address, size] : leaving) {
    ++driver_calls_;
    leaving_.erase(address);
    space_.give_back(address, size.count);
    mapped_ -= size;
  }
}

Bytes MemoryPool::free() const {
  Bytes sum;
  for (const auto& [size, block] : free_large_) sum += size;
  for (const auto& [address, unit] : shared_) {
    if (unit->pieces.is_empty()) sum += unit_;
  }
  return sum;
}

bool MemoryPool::has_free() const {
  return !free_large_.empty() || std::any_of(shared_.begin(), shared_.end(), [](const auto& unit) {
    return unit.second->pieces.is_empty();
  });
}

Result<MemoryPool::Shareable> MemoryPool::share(CUdeviceptr address) const {
  const auto block = large_.find(address);
  if (block == large_.end() || sharing_ == cuda::Sharing::kNone) {
    return Error{ErrorCode::kNotFound, "it has no memory of its own that can be shared"};
  }
  ASSIGN_OR_RETURN(OwnedFd memory, cuda::export_memory(driver_, address));
  return Shareable{block->second.size, std::move(memory)};
}

void MemoryPool::set_limit(Bytes limit) {
  limit_ = limit;
  make_room(Bytes(0));
}

void MemoryPool::make_room(Bytes more) {
  const Bytes most = round_up(limit_, unit_);
  while (mapped_ + more > most && !free_large_.empty()) {
    unmap_free(std::prev(free_large_.end()));
  }
  for (auto each = shared_.begin(); each != shared_.end() && mapped_ + more > most;) {
    if (!each->second->pieces.is_empty()) {
      ++each;
      continue;
    }
    unmap(each->first, unit_);
    each = shared_.erase(each);
  }
}

Result<CUdeviceptr> MemoryPool::map_new(Bytes size) {
  const CUdeviceptr address = space_.take(size.count);
  if (address == 0) {
    return Error{ErrorCode::kResourceExhausted, "no device addresses left for " + to_string(size)};
  }
  const auto map = [&]() -> Result<void> {
    ++driver_calls_;
    ASSIGN_OR_RETURN(const auto memory,
                     cuda::PhysicalMemory::create(driver_, ordinal_, size, sharing_));
    return addresses_.map(address, memory);
  };
  auto mapped = map();
  const auto is_short = [&] {
    return !mapped.ok() && mapped.error().code == ErrorCode::kResourceExhausted;
  };
  if (is_short() && !leaving_.empty()) {
    await_leaving();
    mapped = map();
  }
  if (is_short() && !free_large_.empty()) {
    // Others have the rest of the device: what lies free here is as good.
    while (!free_large_.empty()) unmap_free(std::prev(free_large_.end()));
    mapped = map();
  }
  if (!mapped.ok()) {
    space_.give_back(address, size.count);
    return mapped.error();
  }
  mapped_ += size;
  return address;
}

void MemoryPool::unmap_free(FreeBlocks::iterator block) {
  unmap(block->second.address, block->first);
  free_large_.erase(block);
}

void MemoryPool::unmap(CUdeviceptr address, Bytes size) {
  ++driver_calls_;
  // In a broken context this fails too; then the memory goes with the process.
  if (addresses_.unmap(address, size).ok()) space_.give_back(address, size.count);
  mapped_ -= size;
}

}  // namespace lambent::executor
