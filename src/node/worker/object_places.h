// ObjectPlaces: which executors have which objects, as far as they have said or must be taken to.
// Pure bookkeeping; used by ExecutorHost, ObjectExports and ElasticObjects on the loop thread.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "core/base/units.h"
#include "node/objects/object_index.h"
#include "node/worker/executor_supervisor.h"

namespace lambent::worker {

class ObjectPlaces {
 public:
  // What one executor has of an object.
  struct Copy {
    ExecutorKey holder;
    // What it takes of the device, in memory of its own. Zero: it has asked for the object or made
    // it, and may have it, somewhere among others.
    Bytes held;
    uint64_t last_use = 0;  // larger is later
    unsigned shared = 0;    // how often now
    // Why this copy goes, if it does, and where the object is then.
    enum class Going : uint8_t { kNot, kToReader, kToNeighbour, kToHost } going = Going::kNot;
    DeviceId to = {};    // of kToNeighbour
    bool told = false;   // to let it go
    bool stays = false;  // it was told, and uses it
  };
  using Copies = std::vector<Copy>;

  // It has asked for the object, or made it.
  void note(const objects::ObjectKey& object, const ExecutorKey& holder);
  // It takes so much of the device there; zero: it lies there no more.
  void held(const objects::ObjectKey& object, const ExecutorKey& holder, Bytes size);
  // It shares the object, or does so once less; whether that lies on the device or not.
  void shared(const objects::ObjectKey& object, const ExecutorKey& holder, bool begins);
  // It keeps it, told to release it, until may_release(): what it uses may have changed then.
  void stays(const objects::ObjectKey& object, const ExecutorKey& holder);
  void may_release(const ExecutorKey& holder);
  // It is no more; who may have it.
  std::vector<ExecutorKey> forget(const objects::ObjectKey& object);
  void executor_ended(const ExecutorKey& holder);

  // Null: no executor has it, or it does not lie on a device.
  Copy* find(const objects::ObjectKey& object, const ExecutorKey& holder);
  const Copies* find(const objects::ObjectKey& object) const;
  // What objects take of a device, and of all.
  Bytes on_device(DeviceId device) const;
  Bytes on_devices() const { return on_devices_; }
  // Grows with everything that is said here.
  uint64_t changes() const { return changes_; }
  // Calls `visit` with each object and each copy that lies on a device.
  template <typename Visit>
  void for_each(Visit visit) {
    for (auto& [object, copies] : copies_) {
      for (Copy& copy : copies) {
        if (copy.held > Bytes(0)) visit(object, copy);
      }
    }
  }

 private:
  Copy& copy_of(const objects::ObjectKey& object, const ExecutorKey& holder);
  void count(DeviceId device, Bytes more, Bytes less);

  std::map<objects::ObjectKey, Copies> copies_;
  std::map<DeviceId, Bytes> taken_;
  Bytes on_devices_;
  std::set<ExecutorKey> staying_;  // those that keep something
  uint64_t uses_ = 0;
  uint64_t changes_ = 0;
};

}  // namespace lambent::worker
