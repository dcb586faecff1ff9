// PeerObjects: brings objects of other nodes to this one's store when they are wanted, by the
// same calls as clients use. On the loop thread; what waits for a peer does so on threads that may.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/http/client.h"
#include "node/objects/object_store.h"

namespace lambent::frontend {

// A node that may have an object.
struct ObjectSource {
  http::Endpoint endpoint;
  // Tells that node who asks, and for whom; on any thread. Empty: there is nothing to tell.
  std::function<void(http::Request&)> sign = {};
};
// The nodes that may have a tenant's objects at the moment.
struct ObjectSources {
  std::vector<ObjectSource> nodes;
  std::vector<std::string> lost;  // names of those that do not answer
};

class PeerObjects {
 public:
  // From now on `store` seeks with these peers, in turn, what it does not know. Each of `lanes`
  // brings one object at a time. The store outlives what they are given.
  PeerObjects(objects::ObjectStore& store, std::vector<http::Endpoint> peers,
              std::vector<objects::Disk> lanes);
  ~PeerObjects();
  PeerObjects(const PeerObjects&) = delete;
  PeerObjects& operator=(const PeerObjects&) = delete;

  // Nodes of a cluster, which are asked before the peers. They are told at each look-up.
  void seek_in_cluster(std::function<ObjectSources(TenantId)> sources);

 private:
  struct Lane {
    objects::Disk run;
    size_t under_way = 0;
  };
  Result<void> seek(TenantId tenant, ObjectId object);
  void begin();

  objects::ObjectStore& store_;
  const std::vector<http::Endpoint> peers_;
  std::function<ObjectSources(TenantId)> cluster_;  // empty: there is none
  std::vector<Lane> lanes_;
  // Set: what waits in `lanes_` is not begun any more.
  const std::shared_ptr<std::atomic<bool>> stopping_ = std::make_shared<std::atomic<bool>>(false);
};

// What a peer has of an object.
struct PeerObject {
  TensorType type;
  OwnedFd memfd;        // sealed
  bool is_made = true;  // false: it is still being made there, and this is all that is known
};
// NOT_FOUND if it knows none of that name; OUT_OF_RANGE if it is larger than `most`; UNAVAILABLE or
// DEADLINE_EXCEEDED if it cannot be asked; DATA_LOSS if a part is not what its digest says. Blocks,
// for what is being made a few seconds at most, and for a large one until `stopping`.
Result<PeerObject> bring_object(const ObjectSource& source, ObjectId object, Bytes most,
                                const std::atomic<bool>& stopping);

}  // namespace lambent::frontend
