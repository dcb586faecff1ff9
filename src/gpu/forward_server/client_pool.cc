#include "gpu/forward_server/client_pool.h"

#include <algorithm>
#include <utility>

namespace lambent::forward_server {
namespace {

// Beyond the limit, for a pool's blocks are of certain sizes and pieces lie between them: this
// much, or an eighth. A client that frees nearly all of each block has no more either.
constexpr Bytes kSlack = Bytes::mib(64);

}  // namespace

ClientPool::~ClientPool() {
  if (pool_ != nullptr) driver_->mem_pool_destroy(pool_);
}

CUresult ClientPool::allocate(CUdeviceptr* address, uint64_t bytes, CUstream stream) {
  CUmemoryPool pool = nullptr;
  {
    const MutexLock lock(mutex_);
    const bool is_known =
        driver_->mem_pool_create != nullptr && driver_->mem_alloc_from_pool_async != nullptr;
    if (!std::exchange(was_made_, true) && is_known) {
      CUmemPoolProps wanted{};
      wanted.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
      wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal_};
      wanted.maxSize = (limit_ + std::max(kSlack, Bytes(limit_.count / 8))).count;
      if (driver_->mem_pool_create(&pool_, &wanted) != CUDA_SUCCESS) pool_ = nullptr;
    }
    pool = pool_;
  }
  if (pool == nullptr) return driver_->mem_alloc_async(address, bytes, stream);
  return driver_->mem_alloc_from_pool_async(address, bytes, pool, stream);
}

// The driver gives back by itself what is free when a stream of the pool is waited for, which may
// be never: the streams of frees are not waited for.
void ClientPool::recycle(Instant now) {
  {
    const MutexLock lock(mutex_);
    const uint64_t frees = frees_;
    if (frees != seen_) {
      seen_ = frees;
      seen_at_ = now;
    }
    if (seen_ == trimmed_ || now - seen_at_ < kHold) return;
  }
  trim();
}

void ClientPool::trim() {
  CUmemoryPool pool = nullptr;
  {
    const MutexLock lock(mutex_);
    trimmed_ = seen_ = frees_;
    pool = pool_;
  }
  if (pool != nullptr && driver_->mem_pool_trim_to != nullptr) driver_->mem_pool_trim_to(pool, 0);
}

}  // namespace lambent::forward_server
