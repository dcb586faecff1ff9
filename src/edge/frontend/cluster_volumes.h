// ClusterVolumes: /v1/cluster/volumes: what a node that keeps volumes tells those that copy them.
// On the loop thread.
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
  ClusterVolumes(VolumeService& volumes, const AccessService& access, objects::Disk offload)
      : volumes_(volumes), access_(access), offload_(std::move(offload)) {}

  // `parts`: those of the path. GET only.
  void handle(const http::Request& request, const std::vector<std::string>& parts,
              http::Responder responder);

 private:
  void list(const http::Request& request, http::Responder& responder);
  void files(TenantId tenant, const std::string& volume, const http::Request& request,
             http::Responder& responder);
  void content(TenantId tenant, const std::string& volume, const http::Request& request,
               http::Responder responder);

  VolumeService& volumes_;
  const AccessService& access_;
  const objects::Disk offload_;
};

}  // namespace lambent::frontend
