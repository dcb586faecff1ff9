// Layers on the disk: their versions in STATE/layers/TENANT/NAME/VERSION, and what functions see of
// several of them in STATE/layers/TENANT/.composed/DIGEST, by hard links. Free functions that
// block; the store's thread, and before the loop runs.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/domain/layer.h"

namespace lambent::layers {

// Unpacks and describes a version; `version` gets its digest and sizes. `folder` is there whole, or
// not at all. INVALID_ARGUMENT: a bad zip, or content that cannot lie under /opt.
Result<void> write_version(const std::string& folder, const std::string& zip_base64,
                           LayerVersion& version);
// DATA_LOSS: what lies there is no version.
Result<LayerVersion> read_version(const std::string& folder);

// The folders right below `folder`, by name.
Result<std::vector<std::string>> folders_in(const std::string& folder);

// Makes `destination` of the contents of versions' folders, later ones over earlier ones. One that
// is there is left as it is.
Result<void> compose(const std::vector<std::string>& versions, const std::string& destination);

}  // namespace lambent::layers
