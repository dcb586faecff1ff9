#include "gpu/executor/exports.h"

namespace lambent::executor {

Result<MemoryPool::Shareable> Exports::begin(ObjectId object) {
  const DeviceName name = DeviceName::of(object);
  const auto* entry = store_.find(name);
  if (entry == nullptr || !entry->filled) {
    return Error{ErrorCode::kNotFound, "it does not lie on the device"};
  }
  ASSIGN_OR_RETURN(auto memory, pool_.share(entry->address));
  // Pinned: the importer would see what takes the object's place.
  store_.pin(name);
  ++counts_[object];
  return memory;
}

bool Exports::end(ObjectId object) {
  const auto count = counts_.find(object);
  if (count == counts_.end()) return false;
  store_.unpin(DeviceName::of(object));
  if (--count->second == 0) counts_.erase(count);
  return true;
}

}  // namespace lambent::executor
