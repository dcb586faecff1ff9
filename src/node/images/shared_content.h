// What a new image has in common with those that are here: layers, which need not be fetched again,
// and files, which are on the disk once. Blocks; used by lambent-environment.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "node/images/pull_order.h"

namespace lambent::images {

struct ReadyImage {
  std::string folder;
  PulledImage image;
};

// Those in the folder `ready`. One that goes meanwhile is left out, or its files are missing later.
std::vector<ReadyImage> ready_images(const std::string& ready);

// Whether a path is a file or folder and no link to one, which may lead anywhere.
bool is_plain_file(const std::string& path);
bool is_plain_folder(const std::string& path);

// The blobs that images keep, by the digits of their digests, and where each lies. With `registry`
// only those of images that came from there.
std::map<std::string, std::string> kept_blobs(const std::vector<ReadyImage>& images,
                                              const std::string& registry = "");

// The image with the most of these layers; null: none has any.
const ReadyImage* closest_image(const std::vector<ReadyImage>& images,
                                const std::vector<std::string>& layers);

// Makes `path` another name of the file `source`, by way of `spare`, a name on the same file
// system that is free. False: it stays as it is.
bool replace_by_link(const std::string& source, const std::string& path, const std::string& spare);

// Of the files below `root`: those that `other` has by the same path and with the same bytes, mode,
// owner and time become further names of its own. Nothing else may change both trees meanwhile.
// What that saves of the disk.
Bytes share_files(const std::string& root, const std::string& other, const std::string& spare);

}  // namespace lambent::images
