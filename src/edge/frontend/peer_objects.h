// PeerObjects: brings objects of other nodes to this one's store when they are wanted, by the
// same calls as clients use. On the loop thread; what waits for a peer does so on threads that may.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/http/client.h"
#include "node/objects/object_store.h"

namespace lambent::frontend {

class PeerObjects {
 public:
  // From now on `store` seeks with these peers, in turn, what it does not know. Each of `lanes`
  // brings one object at a time. The store outlives what they are given.
  PeerObjects(objects::ObjectStore& store, std::vector<http::Endpoint> peers,
              std::vector<objects::Disk> lanes);
  ~PeerObjects();
  PeerObjects(const PeerObjects&) = delete;
  PeerObjects& operator=(const PeerObjects&) = delete;

 private:
  struct Lane {
    objects::Disk run;
    size_t under_way = 0;
  };
  Result<void> seek(TenantId tenant, ObjectId object);

  objects::ObjectStore& store_;
  const std::vector<http::Endpoint> peers_;
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
// DEADLINE_EXCEEDED if it cannot be asked. Blocks, for what is being made a few seconds at most.
Result<PeerObject> bring_object(const http::Endpoint& peer, ObjectId object, Bytes most);

}  // namespace lambent::frontend
