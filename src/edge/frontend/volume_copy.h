// What nodes tell each other of the volumes that one of them keeps: which there are, and which
// files they have, a page at a time. Values and their JSON; pure, any thread; fuzzed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/domain/volume.h"

namespace lambent::frontend {

struct ToldVolume {
  std::string tenant;  // its name
  VolumeStatus volume;

  bool operator==(const ToldVolume&) const = default;
};
struct VolumeList {
  std::string version;  // of all of it
  std::vector<ToldVolume> volumes;

  bool operator==(const VolumeList&) const = default;
};
struct VolumePage {
  std::string version;  // of the volume, when this was told
  std::vector<VolumeFile> files;
  bool is_last = true;

  bool operator==(const VolumePage&) const = default;
};

// The version is that of the volumes.
VolumeList volume_list_of(std::vector<ToldVolume> volumes);
std::string json_text_of(const VolumeList& list);
std::string json_text_of(const VolumePage& page);
// INVALID_ARGUMENT: it is none; names, paths and digests are valid otherwise, and within limits.
Result<VolumeList> read_volume_list(std::string_view text);
Result<VolumePage> read_volume_page(std::string_view text);

}  // namespace lambent::frontend
