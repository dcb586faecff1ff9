#include "emulator/emulated_cuda/pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>

namespace lambent::emulated_cuda {

namespace {

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Pool::Pool(PoolSource source, std::shared_ptr<Backing> backing, const CUmemPoolProps& properties,
           int device)
    : properties(properties),
      device(device),
      source_(std::move(source)),
      backing_(std::move(backing)) {
  access[device < 0 ? emulated_node::kMaxPartitions : device] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

Pool::~Pool() {
  for (auto& [base, chunk] : chunks_) {
    munmap(reinterpret_cast<void*>(base), chunk.bytes);
    source_.uncount(chunk.bytes);
  }
}

std::optional<Pool::Taken> Pool::allocate(size_t bytes, uint64_t stream, const void* context) {
  if (bytes > SIZE_MAX / 2) return std::nullopt;
  bytes = round_up(bytes, kPoolAlignmentBytes);
  bool scaled = source_.memory_scale > 1 && bytes >= kPoolScaledBytes;
  settle(false);
  auto own = best_pending(bytes, scaled, stream), free = best_free(bytes, scaled);
  auto best = own;
  bool free_fits_better =
      free != blocks_.end() && own != blocks_.end() && free->second.bytes < own->second.bytes;
  if (own == blocks_.end() || free_fits_better) best = free;
  if (best == blocks_.end() && grow(bytes)) best = best_free(bytes, scaled);
  if (best == blocks_.end() && allow_internal_dependencies) {
    best = best_pending(bytes, scaled, std::nullopt);
  }
  if (best == blocks_.end()) return std::nullopt;
  return take(best, bytes, stream, context);
}

Pool::Taken Pool::take(Blocks::iterator it, size_t bytes, uint64_t stream, const void* context) {
  uintptr_t address = it->first;
  Block& block = it->second;
  CompletionPtr after;
  if (block.state == State::kFreed) {
    if (block.stream != stream) after = block.end;
    pending_.erase(address);
  } else {
    free_[block.scaled].erase({block.bytes, address});
  }
  if (block.bytes > bytes) {
    Block rest = block;
    rest.bytes = block.bytes - bytes;
    blocks_[address + bytes] = rest;
    if (rest.state == State::kFreed) {
      pending_.insert(address + bytes);
    } else {
      free_[rest.scaled].insert({rest.bytes, address + bytes});
    }
  }
  block = {bytes, State::kAllocated, block.scaled, stream, nullptr, context};
  usage.used += bytes;
  usage.used_high = std::max(usage.used_high, usage.used);
  size_t behind = chunk_of(address)->second.memory->backing_bytes();
  return {address, block.scaled ? std::min(bytes, behind) : bytes, std::move(after)};
}

bool Pool::begin_free(uintptr_t address) {
  auto it = blocks_.find(address);
  if (it == blocks_.end() || it->second.state != State::kAllocated) return false;
  it->second.state = State::kFreed;  // and not yet pending: no stream can have it
  usage.used -= it->second.bytes;
  return true;
}

void Pool::end_free(uintptr_t address, uint64_t stream, CompletionPtr end) {
  auto it = blocks_.find(address);
  if (it == blocks_.end() || it->second.state != State::kFreed) return;
  if (!end) {
    make_free(it);
    return;
  }
  it->second.stream = stream;
  it->second.end = std::move(end);
  pending_.insert(address);
}

void Pool::observe() {
  settle(true);
  while (usage.reserved > release_threshold_bytes && release_idle_chunk(0)) {
  }
}

void Pool::trim(size_t keep_bytes) {
  settle(true);
  while (release_idle_chunk(keep_bytes)) {
  }
}

std::vector<uintptr_t> Pool::forget(const void* context) {
  std::vector<uintptr_t> addresses;
  for (const auto& [address, block] : blocks_) {
    bool its = block.state == State::kAllocated && block.context == context;
    if (its) addresses.push_back(address);
  }
  for (uintptr_t address : addresses) {
    if (begin_free(address)) end_free(address, 0, nullptr);
  }
  return addresses;
}

std::optional<size_t> Pool::file_offset(uintptr_t address) const {
  auto it = chunk_of(address);
  if (it == chunks_.end()) return std::nullopt;
  return it->second.memory->file_offset() + (address - it->first);
}

bool Pool::grow(size_t bytes) {
  bool scaled = source_.memory_scale > 1 && bytes >= kPoolScaledBytes;
  size_t exact = round_up(bytes, kBackingBlockBytes);
  if (scaled) {
    size_t behind = static_cast<size_t>(std::ceil(exact / source_.memory_scale));
    return add_chunk(exact, std::min(exact, round_up(behind, 4096)));
  }
  size_t wanted = std::max(exact, kPoolChunkBytes);
  if (add_chunk(wanted, wanted)) return true;
  if (exact < wanted && add_chunk(exact, exact)) return true;
  while (release_idle_chunk(0)) {  // they are too small, but what is behind them is not
    if (add_chunk(exact, exact)) return true;
  }
  return false;
}

bool Pool::add_chunk(size_t bytes, size_t backing_bytes) {
  if (properties.maxSize && usage.reserved + bytes > properties.maxSize) return false;
  if (!source_.count(bytes)) return false;
  auto memory = PhysicalMemory::create(backing_, bytes, backing_bytes, device, {});
  void* at = memory ? mmap(nullptr, bytes + kBackingBlockBytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                    : MAP_FAILED;
  if (at == MAP_FAILED) {
    source_.uncount(bytes);
    return false;
  }
  uintptr_t begin = reinterpret_cast<uintptr_t>(at);
  uintptr_t base = round_up(begin, kBackingBlockBytes);
  if (base > begin) munmap(at, base - begin);
  munmap(reinterpret_cast<void*>(base + bytes), begin + kBackingBlockBytes - base);
  void* pages = reinterpret_cast<void*>(base);
  bool mapped = memory->map(base, 0, bytes) && mprotect(pages, bytes, PROT_READ | PROT_WRITE) == 0;
  if (!mapped) {
    munmap(pages, bytes);
    source_.uncount(bytes);
    return false;
  }
  chunks_[base] = {bytes, std::move(memory)};
  bool scaled = backing_bytes < bytes;
  blocks_[base] = {bytes, State::kFree, scaled, 0, nullptr, nullptr};
  free_[scaled].insert({bytes, base});
  usage.reserved += bytes;
  usage.reserved_high = std::max(usage.reserved_high, usage.reserved);
  return true;
}

bool Pool::release_idle_chunk(size_t keep_bytes) {
  for (auto it = chunks_.begin(); it != chunks_.end(); ++it) {
    auto [base, bytes] = std::pair(it->first, it->second.bytes);
    auto block = blocks_.find(base);
    bool idle = block->second.state == State::kFree && block->second.bytes == bytes;
    if (!idle || usage.reserved - bytes < keep_bytes) continue;
    free_[block->second.scaled].erase({bytes, base});
    blocks_.erase(block);
    munmap(reinterpret_cast<void*>(base), bytes);
    chunks_.erase(it);
    usage.reserved -= bytes;
    source_.uncount(bytes);
    return true;
  }
  return false;
}

// Frees that have been reached are for all streams; unless the program wants none of such luck, or
// has seen that they were (`all`).
void Pool::settle(bool all) {
  if (!all && !allow_opportunistic) return;
  for (auto it = pending_.begin(); it != pending_.end();) {
    auto block = blocks_.find(*it);
    if (!block->second.end->done()) {
      ++it;
      continue;
    }
    it = pending_.erase(it);
    make_free(block);
  }
}

void Pool::make_free(Blocks::iterator it) {
  it->second.state = State::kFree;
  it->second.end = nullptr;
  auto chunk = chunk_of(it->first);
  uintptr_t end = chunk->first + chunk->second.bytes;
  auto next = std::next(it);
  if (next != blocks_.end() && next->first < end && next->second.state == State::kFree) {
    free_[next->second.scaled].erase({next->second.bytes, next->first});
    it->second.bytes += next->second.bytes;
    blocks_.erase(next);
  }
  if (it->first != chunk->first && std::prev(it)->second.state == State::kFree) {
    auto previous = std::prev(it);
    free_[previous->second.scaled].erase({previous->second.bytes, previous->first});
    previous->second.bytes += it->second.bytes;
    blocks_.erase(it);
    it = previous;
  }
  free_[it->second.scaled].insert({it->second.bytes, it->first});
}

Pool::Blocks::iterator Pool::best_free(size_t bytes, bool scaled) {
  auto it = free_[scaled].lower_bound({bytes, 0});
  return it == free_[scaled].end() ? blocks_.end() : blocks_.find(it->second);
}

Pool::Blocks::iterator Pool::best_pending(size_t bytes, bool scaled,
                                          std::optional<uint64_t> stream) {
  auto best = blocks_.end();
  for (uintptr_t address : pending_) {
    auto it = blocks_.find(address);
    const Block& block = it->second;
    if (block.bytes < bytes || block.scaled != scaled) continue;
    if (stream && block.stream != *stream) continue;
    if (best == blocks_.end() || block.bytes < best->second.bytes) best = it;
  }
  return best;
}

std::map<uintptr_t, Pool::Chunk>::const_iterator Pool::chunk_of(uintptr_t address) const {
  auto it = chunks_.upper_bound(address);
  if (it == chunks_.begin()) return chunks_.end();
  --it;
  return address - it->first < it->second.bytes ? it : chunks_.end();
}

}  // namespace lambent::emulated_cuda
