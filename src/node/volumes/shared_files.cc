#include "node/volumes/shared_files.h"

#include <algorithm>

#include "node/volumes/download.h"
#include "node/volumes/volume_index.h"

namespace lambent::volumes {
namespace {

VolumeIndex index_of(const SharedFolder& folder) {
  VolumeIndex index;
  for (const SharedFolder::File& each : folder.files) index.put(each.file);
  return index;
}

}  // namespace

std::optional<SharedFolder> SharedFiles::folder_of(TenantId tenant, const std::string& name) const {
  for (SharedFolder& folder : folders_(tenant)) {
    if (folder.name == name) return std::move(folder);
  }
  return std::nullopt;
}

std::vector<VolumeStatus> SharedFiles::list_volumes(TenantId tenant) const {
  std::vector<VolumeStatus> all;
  for (const SharedFolder& folder : folders_(tenant)) {
    const VolumeIndex index = index_of(folder);
    all.push_back({.name = folder.name,
                   .files = index.files(),
                   .size = index.size(),
                   .version = index.version()});
  }
  if (volumes_ != nullptr) {
    for (VolumeStatus& volume : volumes_->list_volumes(tenant)) {
      if (std::ranges::find(all, volume.name, &VolumeStatus::name) == all.end()) {
        all.push_back(std::move(volume));
      }
    }
  }
  std::ranges::sort(all, {}, &VolumeStatus::name);
  return all;
}

Result<std::vector<VolumeFile>> SharedFiles::list_files(TenantId tenant, const std::string& volume,
                                                        const std::string& prefix,
                                                        const std::string& after,
                                                        size_t limit) const {
  if (const auto folder = folder_of(tenant, volume)) {
    return index_of(*folder).list(prefix, after, limit);
  }
  if (volumes_ != nullptr) return volumes_->list_files(tenant, volume, prefix, after, limit);
  return Error{ErrorCode::kNotFound, "this node shows no files of that name"};
}

void SharedFiles::open_file(TenantId tenant, const std::string& volume, const std::string& path,
                            Callback<std::shared_ptr<VolumeDownload>> done) {
  const auto folder = folder_of(tenant, volume);
  if (!folder && volumes_ != nullptr) {
    return volumes_->open_file(tenant, volume, path, std::move(done));
  }
  if (folder) {
    for (const SharedFolder::File& each : folder->files) {
      if (each.file.path != path) continue;
      shown_(tenant, volume);
      return open_download(disk_, alive_, each.place, each.file, nullptr, std::move(done));
    }
  }
  done(Error{ErrorCode::kNotFound, "this node shows no such file"});
}

}  // namespace lambent::volumes
