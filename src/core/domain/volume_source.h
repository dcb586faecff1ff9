// VolumeSource: the volumes that another node keeps, as this one reads them to have copies. All
// calls and callbacks happen on the loop thread; a callback may come before the call returns.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/domain/volume.h"

namespace lambent {

// Of which tenant.
struct VolumeName {
  TenantId tenant;
  std::string name;

  auto operator<=>(const VolumeName&) const = default;
};

// Files of this node that never change, and that it shows other nodes as a volume of this name
// beside those of tenants: packages of layers, an image.
struct SharedFolder {
  struct File {
    VolumeFile file;
    std::string place;  // on the disk
  };
  std::string name;
  std::vector<File> files;
};

class VolumeSource {
 public:
  template <typename T>
  using Callback = std::function<void(Result<T>)>;

  virtual ~VolumeSource() = default;
  // The node that keeps them; empty: this one does, or it is not known yet which one.
  virtual std::string keeper() const = 0;
  // Whether this node is known to keep them.
  virtual bool keeps_here() const { return false; }
  // All of tenants that are known here. UNAVAILABLE; UNIMPLEMENTED: its program does not tell.
  virtual void list(Callback<std::map<VolumeName, VolumeStatus>> done) = 0;
  // The files that it had at one moment. NOT_FOUND, UNAVAILABLE.
  virtual void list_files(const VolumeName& volume, Callback<std::vector<VolumeFile>> done) = 0;
  // `count` bytes of a file from `offset` on, at most kVolumePart, as they were sent. ABORTED,
  // NOT_FOUND: there is no such file any more; DATA_LOSS: other bytes came; UNAVAILABLE.
  virtual void read(const VolumeName& volume, const VolumeFile& file, Bytes offset, Bytes count,
                    Callback<std::string> done) = 0;
};

// That one node asks of another at once.
constexpr Bytes kVolumePart = Bytes::mib(4);

}  // namespace lambent
