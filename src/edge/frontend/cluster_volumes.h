// ClusterVolumes: /v1/cluster/volumes and /v1/cluster/images: what a node tells those that copy its
// volumes, packages of layers and images. On the loop thread.
#pragma once

#include <string>
#include <vector>

#include "core/domain/access_service.h"
#include "core/domain/volume.h"
#include "core/http/server.h"
#include "node/objects/spill_folder.h"

namespace lambent::frontend {

class ClusterVolumes {
 public:
  // Both outlive it; `offload` computes digests.
  ClusterVolumes(VolumeReading& volumes, const AccessService& access, objects::Disk offload)
      : volumes_(volumes), access_(access), offload_(std::move(offload)) {}

  // `parts`: those of the path. GET only.
  void handle(const http::Request& request, const std::vector<std::string>& parts,
              http::Responder responder);
  // Of one volume: `what` is "files" or "content".
  void handle(TenantId tenant, const std::string& volume, const std::string& what,
              const http::Request& request, http::Responder responder);

 private:
  void list(const http::Request& request, http::Responder& responder);
  void files(TenantId tenant, const std::string& volume, const http::Request& request,
             http::Responder& responder);
  void content(TenantId tenant, const std::string& volume, const http::Request& request,
               http::Responder responder);

  VolumeReading& volumes_;
  const AccessService& access_;
  const objects::Disk offload_;
};

}  // namespace lambent::frontend
