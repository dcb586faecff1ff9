// PeerVolumes: the volumes that the cluster's home keeps, or what else a node shows as such, read
// by HTTP from node to node. On the loop thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/domain/access_service.h"
#include "core/domain/volume_source.h"
#include "core/http/message.h"
#include "edge/frontend/volume_copy.h"
#include "node/objects/spill_folder.h"

namespace lambent::frontend {

class PeerVolumes final : public VolumeSource {
 public:
  // All outlive it.
  struct Uses {
    const AccessService& access;
    objects::Disk offload;  // for digests, which take long
    std::function<std::string()> keeper;
    // Asks that node; UNAVAILABLE.
    std::function<void(std::string target, std::function<void(Result<http::Response>)>)> ask;
    // Where it tells of one; empty: where it tells of volumes.
    std::function<std::string(const VolumeName&)> place = {};
    // VolumeSource::keeps_here(); empty: it does not.
    std::function<bool()> keeps_here = {};
  };
  explicit PeerVolumes(Uses uses) : uses_(std::move(uses)) {}

  std::string keeper() const override { return uses_.keeper(); }
  bool keeps_here() const override { return uses_.keeps_here && uses_.keeps_here(); }
  void list(Callback<std::map<VolumeName, VolumeStatus>> done) override;
  void list_files(const VolumeName& volume, Callback<std::vector<VolumeFile>> done) override;
  void read(const VolumeName& volume, const VolumeFile& file, Bytes offset, Bytes count,
            Callback<std::string> done) override;

 private:
  struct Listing;
  std::string target_of(const VolumeName& volume, const std::string& what) const;
  void list_on(const std::shared_ptr<Listing>& listing);
  std::map<VolumeName, VolumeStatus> volumes_here(const VolumeList& list) const;

  const Uses uses_;
  VolumeList known_;
  std::string known_of_;  // the node that told of them
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::frontend
