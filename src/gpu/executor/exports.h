// Exports: the objects in an executor's device memory that other executors of the tenant import.
// Each stays where it is until its exports have ended. Of the loop thread.
#pragma once

#include <unordered_map>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "gpu/executor/device_store.h"
#include "gpu/executor/memory_pool.h"

namespace lambent::executor {

class Exports {
 public:
  // The store lies in the pool; both outlive this.
  Exports(DeviceStore& store, const MemoryPool& pool) : store_(store), pool_(pool) {}
  Exports(const Exports&) = delete;
  Exports& operator=(const Exports&) = delete;

  // The object's memory, for another executor, which may have it until end(). NOT_FOUND if the
  // object does not lie on the device, or not in memory of its own.
  Result<MemoryPool::Shareable> begin(ObjectId object);
  // One of the object's exports is over; false if it has none.
  bool end(ObjectId object);
  bool empty() const { return counts_.empty(); }

 private:
  DeviceStore& store_;
  const MemoryPool& pool_;
  std::unordered_map<ObjectId, unsigned> counts_;  // each object is pinned as often
};

}  // namespace lambent::executor
