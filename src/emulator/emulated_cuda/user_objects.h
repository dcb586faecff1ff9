// Objects of the program that graphs keep alive: counted references, and a destructor of the
// program that a thread of the driver calls when the last has gone. Any thread, under the graphs'
// lock.
#pragma once

#include <memory>
#include <unordered_map>

#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_cuda {

// Ends by calling the program's destructor, on a thread of its own.
class UserObject {
 public:
  UserObject(CUhostFn destroy, void* object) : destroy_(destroy), object_(object) {}
  ~UserObject();
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;

 private:
  CUhostFn destroy_;
  void* object_;
};

// Counted references of one owner (the program, or a graph) to user objects. The object is shared
// by its owners: it ends with the last of them.
class UserReferences {
 public:
  void retain(const std::shared_ptr<UserObject>& object, unsigned count) {
    Reference& own = references_[object.get()];
    own.object = object;
    own.count += count;
  }
  // False, and nothing happens, if the owner has not that many.
  bool release(const UserObject* object, unsigned count) {
    auto it = references_.find(object);
    if (it == references_.end() || it->second.count < count) return false;
    it->second.count -= count;
    if (it->second.count == 0) references_.erase(it);
    return true;
  }

 private:
  struct Reference {
    std::shared_ptr<UserObject> object;
    uint64_t count = 0;
  };
  std::unordered_map<const UserObject*, Reference> references_;
};

}  // namespace lambent::emulated_cuda
