#include "gpu/forward_server/memory_handles.h"

#include <map>
#include <utility>

namespace lambent::forward_server {

MemoryHandles::~MemoryHandles() {
  const MutexLock lock(mutex_);
  entries_.clear();
  if (stream_ == nullptr) return;
  driver_->stream_synchronize(stream_);
  driver_->stream_destroy(stream_);
}

MemoryHandles::Share MemoryHandles::share(ExportedMemory::Owner owner,
                                          ExportedMemory::Place place) {
  CUstream stream = nullptr;
  {
    const MutexLock lock(mutex_);
    if (stream_ == nullptr &&
        driver_->stream_create(&stream_, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
      stream_ = nullptr;
      return nullptr;
    }
    stream = stream_;
  }
  if (!owner.memory->quotas.exports.take()) return nullptr;
  return std::make_shared<ExportedMemory>(driver_, stream, std::move(owner), place);
}

MemoryHandle MemoryHandles::hand_out(const Share& share) {
  const MutexLock lock(mutex_);
  if (share->drawn == MemoryHandle{}) share->drawn = {random_.next() | 1, random_.next()};
  Entry& entry = entries_[share->drawn];
  entry.memory = share;
  entry.held = share;
  ++entry.expected;
  entry.until = clock_.now() + hold_;
  return share->drawn;
}

bool MemoryHandles::give_name(const Share& share, MemoryHandle name) {
  const MutexLock lock(mutex_);
  if (name == MemoryHandle{}) return false;
  if (share->name != MemoryHandle{}) return share->name == name;
  const auto found = entries_.find(name);
  if (found != entries_.end() && !found->second.memory.expired()) return false;
  share->name = name;
  entries_[name] = Entry{.memory = share};
  return true;
}

MemoryHandles::Share MemoryHandles::open(MemoryHandle handle) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(handle);
  if (found == entries_.end()) return nullptr;
  Entry& entry = found->second;
  Share share = entry.memory.lock();
  if (share == nullptr) {
    entries_.erase(found);
  } else if (entry.expected > 0 && --entry.expected == 0) {
    entry.held.reset();
  }
  return share;
}

// Memory that is released here is freed without the lock.
void MemoryHandles::expire() {
  std::vector<Share> released;
  const MutexLock lock(mutex_);
  if (entries_.empty()) return;
  const Instant now = clock_.now();
  for (auto& [handle, entry] : entries_) {
    if (entry.expected == 0 || entry.until > now) continue;
    entry.expected = 0;
    released.push_back(std::move(entry.held));
  }
  std::erase_if(entries_, [](const auto& each) { return each.second.memory.expired(); });
}

void MemoryHandles::forget_client(uint64_t client) {
  std::vector<Share> released;
  const MutexLock lock(mutex_);
  for (auto& [handle, entry] : entries_) {
    if (entry.held == nullptr || entry.held->client() != client) continue;
    entry.expected = 0;
    released.push_back(std::move(entry.held));
  }
}

size_t MemoryHandles::size() const {
  const MutexLock lock(mutex_);
  return entries_.size();
}

}  // namespace lambent::forward_server
