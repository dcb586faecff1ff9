#include "gpu/forward_server/gates.h"

#include <cstring>

namespace lambent::forward_server {
namespace {

constexpr size_t kGatesOfPage = 1024, kMostPages = 16;
constexpr size_t kPageBytes = kGatesOfPage * sizeof(uint32_t);

}  // namespace

CUresult Gates::take(size_t* gate) {
  if (free_.empty()) {
    if (const CUresult result = add_page()) return result;
  }
  *gate = free_.back();
  free_.pop_back();
  return CUDA_SUCCESS;
}

CUresult Gates::add_page() {
  if (pages_.size() == kMostPages) return CUDA_ERROR_OUT_OF_MEMORY;
  void* page = nullptr;
  CUdeviceptr address = 0;
  CUresult result = driver_->mem_host_alloc(&page, kPageBytes, CU_MEMHOSTALLOC_DEVICEMAP);
  if (result != CUDA_SUCCESS) return result;
  result = driver_->mem_host_get_device_pointer(&address, page, 0);
  if (result != CUDA_SUCCESS) {
    driver_->mem_free_host(page);
    return result;
  }
  std::memset(page, 0, kPageBytes);
  pages_.push_back(page);
  const MutexLock lock(mutex_);
  for (size_t i = 0; i < kGatesOfPage; ++i) {
    free_.push_back(gates_.size());
    gates_.push_back({static_cast<uint32_t*>(page) + i, address + i * sizeof(uint32_t)});
  }
  return CUDA_SUCCESS;
}

CUdeviceptr Gates::address(size_t gate) const {
  const MutexLock lock(mutex_);
  return gates_[gate].address;
}

uint32_t Gates::shut(size_t gate) {
  const MutexLock lock(mutex_);
  return ++gates_[gate].turn;
}

uint32_t Gates::turn(size_t gate) const {
  const MutexLock lock(mutex_);
  return gates_[gate].turn;
}

void Gates::open(size_t gate, uint32_t turn) {
  const MutexLock lock(mutex_);
  *gates_[gate].word = turn;
}

void Gates::open_all() {
  const MutexLock lock(mutex_);
  for (const Gate& gate : gates_) *gate.word = gate.turn;
}

void Gates::release() {
  {
    const MutexLock lock(mutex_);
    gates_.clear();  // open_all() may still come
  }
  for (void* page : pages_) driver_->mem_free_host(page);
  pages_.clear();
  free_.clear();
}

}  // namespace lambent::forward_server
