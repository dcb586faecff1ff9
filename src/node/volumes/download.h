// open_download: a file on the disk as what a VolumeService or a VolumeReading hands out. Used by
// VolumeStore and SharedFiles, on the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/domain/volume.h"
#include "node/volumes/volume_store.h"

namespace lambent::volumes {

// The download holds `lease`. `done` is called if `owner` is there then.
void open_download(const Disk& disk, const std::weak_ptr<bool>& owner, const std::string& place,
                   VolumeFile file, std::shared_ptr<size_t> lease,
                   std::function<void(Result<std::shared_ptr<VolumeDownload>>)> done);

}  // namespace lambent::volumes
