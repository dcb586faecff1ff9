// SharedFiles: what this node shows others to copy: its volumes, and folders of files that it has
// for another purpose, as volumes. Owned by main; on the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/domain/volume_source.h"
#include "node/volumes/volume_store.h"

namespace lambent::volumes {

class SharedFiles final : public VolumeReading {
 public:
  // The folders of a tenant, each name once.
  using Folders = std::function<std::vector<SharedFolder>(TenantId)>;
  // A file of this folder is read. A whole one comes in many reads, between which nothing holds it:
  // who keeps the folder leaves it for a while after each.
  using Shown = std::function<void(TenantId, const std::string& folder)>;

  // `volumes` may be null; it outlives this. A volume with the name of a folder is not shown.
  SharedFiles(VolumeStore* volumes, Folders folders, Shown shown, Disk disk)
      : volumes_(volumes),
        folders_(std::move(folders)),
        shown_(std::move(shown)),
        disk_(std::move(disk)) {}

  std::vector<VolumeStatus> list_volumes(TenantId tenant) const override;
  Result<std::vector<VolumeFile>> list_files(TenantId tenant, const std::string& volume,
                                             const std::string& prefix, const std::string& after,
                                             size_t limit) const override;
  void open_file(TenantId tenant, const std::string& volume, const std::string& path,
                 Callback<std::shared_ptr<VolumeDownload>> done) override;

 private:
  std::optional<SharedFolder> folder_of(TenantId tenant, const std::string& name) const;

  VolumeStore* const volumes_;
  const Folders folders_;
  const Shown shown_;
  const Disk disk_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::volumes
