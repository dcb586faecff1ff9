#include "emulator/emulated_cuda/graph_memory.h"

#include <algorithm>

#include "emulator/emulated_cuda/process.h"

namespace lambent::emulated_cuda {

CUresult GraphMemory::reserve(Context& context, int device, size_t bytes, uint64_t graph_id,
                              CUdeviceptr* address, Hold* hold) {
  const DeviceSpec& spec = process_.spec(device);
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > spec.memory_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  auto allocation = process_.memory.allocate(bytes, 0, bytes, device, &context);
  if (!allocation) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t unit = std::max<uint64_t>(1, spec.allocation_granularity);
  uint64_t counted = (bytes + unit - 1) / unit * unit;
  const MutexLock lock(mutex_);
  *address = allocation->base;
  Block& block = blocks_[*address] = {counted, device, &context};
  block.id = next_id_++;
  block.graph_id = graph_id;
  *hold = this->hold(*address, block);
  return CUDA_SUCCESS;
}

CUresult GraphMemory::add_free_node(CUdeviceptr address, uint64_t graph_id) {
  const MutexLock lock(mutex_);
  auto it = blocks_.find(address);
  if (it == blocks_.end()) return CUDA_ERROR_INVALID_VALUE;
  Block& block = it->second;
  bool owner = graph_id == block.graph_id;
  bool freed_by_owner = block.freed_by.count(block.graph_id) != 0;
  if (block.freed_by.count(graph_id) || freed_by_owner || (owner && !block.freed_by.empty())) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  block.freed_by.insert(graph_id);
  return CUDA_SUCCESS;
}

CUresult GraphMemory::allocate(CUdeviceptr address) {
  const MutexLock lock(mutex_);
  auto it = blocks_.find(address);
  if (it == blocks_.end() || it->second.allocated) return CUDA_ERROR_INVALID_VALUE;
  Block& block = it->second;
  Totals& totals = totals_[block.device];
  if (!block.counted) {
    if (!process_.claim_bytes(block.device, block.bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    block.counted = true;
    totals.reserved += block.bytes;
    totals.reserved_high = std::max(totals.reserved_high, totals.reserved);
  }
  block.allocated = true;
  totals.used += block.bytes;
  totals.used_high = std::max(totals.used_high, totals.used);
  return CUDA_SUCCESS;
}

bool GraphMemory::free(CUdeviceptr address, Hold* until) {
  Hold hold;
  {
    const MutexLock lock(mutex_);
    auto it = blocks_.find(address);
    if (it == blocks_.end() || !it->second.allocated) return false;
    it->second.allocated = false;
    totals_[it->second.device].used -= it->second.bytes;
    hold = this->hold(address, it->second);
  }
  // This may release what *until held before, and that locks.
  *until = std::move(hold);
  return true;
}

bool GraphMemory::known(CUdeviceptr address) const {
  const MutexLock lock(mutex_);
  return blocks_.count(address) != 0;
}

bool GraphMemory::allocated(CUdeviceptr address) const {
  const MutexLock lock(mutex_);
  auto it = blocks_.find(address);
  return it != blocks_.end() && it->second.allocated;
}

void GraphMemory::trim(int device) {
  const MutexLock lock(mutex_);
  for (auto& [address, block] : blocks_) {
    if (block.device == device && !block.allocated) uncount(block);
  }
}

void GraphMemory::forget(const void* context) {
  const MutexLock lock(mutex_);
  for (auto it = blocks_.begin(); it != blocks_.end();) {
    Block& block = it->second;
    if (block.context != context) {
      ++it;
      continue;
    }
    if (block.allocated) totals_[block.device].used -= block.bytes;
    uncount(block);
    it = blocks_.erase(it);
  }
}

CUresult GraphMemory::get(int device, CUgraphMem_attribute attribute, uint64_t* value) const {
  const MutexLock lock(mutex_);
  auto it = totals_.find(device);
  const Totals totals = it == totals_.end() ? Totals{} : it->second;
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      *value = totals.used;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      *value = totals.used_high;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      *value = totals.reserved;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      *value = totals.reserved_high;
      return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult GraphMemory::reset_high(int device, CUgraphMem_attribute attribute) {
  const MutexLock lock(mutex_);
  Totals& totals = totals_[device];
  if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) {
    totals.used_high = totals.used;
  } else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) {
    totals.reserved_high = totals.reserved;
  } else {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

GraphMemory::Hold GraphMemory::hold(CUdeviceptr address, Block& block) {
  block.holds++;
  return Hold(nullptr, [this, address, id = block.id](const void*) { release(address, id); });
}

void GraphMemory::release(CUdeviceptr address, uint64_t id) {
  const MutexLock lock(mutex_);
  auto it = blocks_.find(address);
  if (it == blocks_.end() || it->second.id != id) return;  // its context is gone
  it->second.holds--;
  erase_if_unused(it);
}

void GraphMemory::uncount(Block& block) {
  if (!block.counted) return;
  block.counted = false;
  totals_[block.device].reserved -= block.bytes;
  process_.uncount_bytes(block.device, block.bytes);
}

void GraphMemory::erase_if_unused(std::map<CUdeviceptr, Block>::iterator it) {
  if (it->second.holds > 0 || it->second.allocated) return;
  uncount(it->second);
  process_.memory.release(it->first, MemoryKind::kDevice);
  blocks_.erase(it);
}

}  // namespace lambent::emulated_cuda
