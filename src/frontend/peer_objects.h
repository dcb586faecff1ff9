// PeerObjects: brings objects of other nodes to this one's store when somebody wants them, by the
// same calls as clients use. On the loop thread; what waits for a peer does so on threads that may.
#pragma once

#include <string>
#include <vector>

#include "http/client.h"
#include "objects/object_store.h"

namespace lambent::frontend {

class PeerObjects {
 public:
  // From now on `store` seeks with these peers, in turn, what it does not know. Each lane brings
  // one object at a time. The store outlives what the lanes are given.
  PeerObjects(objects::ObjectStore& store, std::vector<http::Endpoint> peers,
              std::vector<objects::Disk> lanes);
  PeerObjects(const PeerObjects&) = delete;
  PeerObjects& operator=(const PeerObjects&) = delete;

 private:
  void seek(TenantId tenant, ObjectId object);

  objects::ObjectStore& store_;
  const std::vector<http::Endpoint> peers_;
  const std::vector<objects::Disk> lanes_;
  size_t next_lane_ = 0;
};

// What a peer has of an object; NOT_FOUND if it knows none of that name, UNAVAILABLE or
// DEADLINE_EXCEEDED if it cannot be asked. Blocks.
struct PeerObject {
  TensorType type;
  OwnedFd memfd;  // sealed
};
Result<PeerObject> bring_object(const http::Endpoint& peer, ObjectId object);

}  // namespace lambent::frontend
