// A volume on the disk: `tree` is what sandboxes see; every file of it is a hard link of its
// content in `contents`, whose name is its digest; `uploads` has what is not whole yet. Free
// functions that block; the thread of volumes, and before the loop runs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/domain/volume.h"

namespace lambent::volumes {

std::string tree_of(const std::string& folder);
std::string upload_path(const std::string& folder, const std::string& name);

// Makes the folders of a new volume, or what an earlier worker did not get to make of them.
Result<void> make_volume(const std::string& folder);

struct LoadedVolume {
  std::vector<VolumeFile> files;
  struct Unfinished {
    Bytes size;
    Duration changed_at{};  // since the Unix epoch
  };
  std::map<std::string, Unfinished> uploads;  // by name
};
// What the volume has. Contents that no file has are removed; files without content are digested
// again and get one.
Result<LoadedVolume> load_volume(const std::string& folder);

// The content appears under the path, in place of what was there, durable. `upload` is the name of
// a file in `uploads`, which becomes the content; empty: the content is there.
Result<void> publish(const std::string& folder, const std::string& upload,
                     const std::string& sha256, const std::string& path);
// Removes files and the folders that this leaves empty, then those of the contents that no file has
// any more.
Result<void> remove_from(const std::string& folder, const std::vector<std::string>& paths,
                         const std::vector<std::string>& contents);

}  // namespace lambent::volumes
