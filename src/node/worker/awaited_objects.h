// AwaitedObjects: objects that runs of workflows have made on a device and have brought to the
// host, and the calls that are made once they are there. Owned by WorkflowHost, on the loop thread.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "core/base/ids.h"
#include "node/objects/object_store.h"

namespace lambent::worker {

class AwaitedObjects {
 public:
  // `on_end`: the object of this run is on the host or will not be, which came() is to be told;
  // perhaps before bring() returns. The store outlives this.
  AwaitedObjects(objects::ObjectStore* store, std::function<void(InvocationId, ObjectId)> on_end)
      : store_(store), on_end_(std::move(on_end)) {}
  ~AwaitedObjects();
  AwaitedObjects(const AwaitedObjects&) = delete;
  AwaitedObjects& operator=(const AwaitedObjects&) = delete;

  void bring(InvocationId run, TenantId tenant, ObjectId object);
  // Whether any of the run's objects are still to come.
  bool any_of(InvocationId run) const { return runs_.contains(run); }
  // Holds the call if some of these are still to come.
  bool hold(InvocationId run, InvocationId call, const std::vector<ObjectId>& objects);
  // The calls that are held for nothing any more.
  std::vector<InvocationId> came(InvocationId run, ObjectId object);
  // The run has ended: the calls that were held.
  std::set<InvocationId> drop(InvocationId run);

 private:
  struct Run {
    std::map<ObjectId, objects::WaitId> coming;
    std::map<InvocationId, std::set<ObjectId>> held;  // calls, and what they lack
  };

  objects::ObjectStore* const store_;
  const std::function<void(InvocationId, ObjectId)> on_end_;
  std::map<InvocationId, Run> runs_;
};

}  // namespace lambent::worker
