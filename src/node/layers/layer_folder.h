// Layers on the disk: their versions in STATE/layers/TENANT/NAME/VERSION, and what functions see of
// several of them in STATE/layers/TENANT/.composed/DIGEST, by hard links. In a cluster their zips
// lie in STATE/layers/TENANT/.packages/DIGEST, for other nodes. Free functions that block; the
// store's thread, and before the loop runs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/domain/layer.h"

namespace lambent::layers {

// In the folder of a tenant, and of a layer.
inline constexpr char kComposed[] = ".composed";
inline constexpr char kPackages[] = ".packages";
inline constexpr char kLast[] = "/last";

// The zip of a version that is part of what was composed.
struct LayerPackage {
  std::string name;    // of its file; their order is that of the layers
  std::string sha256;  // in hexadecimal digits
  Bytes size;
};

// Unpacks and describes a version; `version` gets its digest and sizes. `folder` is there whole, or
// not at all; with `keeps_package` it has the zip too. INVALID_ARGUMENT: a bad zip, or content that
// cannot lie under /opt.
Result<void> write_version(const std::string& folder, const std::string& zip_base64,
                           bool keeps_package, LayerVersion& version);
// DATA_LOSS: what lies there is no version.
Result<LayerVersion> read_version(const std::string& folder);

// The folders right below `folder`, by name.
Result<std::vector<std::string>> folders_in(const std::string& folder);

// Makes `destination` of the contents of versions' folders, later ones over earlier ones. One that
// is there is left as it is.
Result<void> compose(const std::vector<std::string>& versions, const std::string& destination);

// The zips of versions, in their order, in the folder `destination`, by hard links; nothing if one
// of the versions has none.
Result<void> link_packages(const std::vector<std::string>& versions,
                           const std::string& destination);
// The same for what was composed of versions without zips: one zip of all of it, made again. It is
// told by its name, for its digest says nothing of the layers. INVALID_ARGUMENT: it is too large
// for a zip, or has folders that zips leave out.
Result<void> pack_composed(const std::string& composed, const std::string& destination);
// What such a folder has. Empty: it is not there.
std::vector<LayerPackage> packages_in(const std::string& folder);

// What tells composed layers apart: a digest of those of their zips (in base64), in their order.
std::string digest_of_layers(const std::vector<std::string>& code_sha256);

// Whether zips are those that the digest names, or one that pack_composed() made, for which its
// node answers; what their files have, unpacked. DATA_LOSS.
Result<Bytes> check_packages(const std::vector<std::string>& zips, const std::string& digest);
// compose() of zips. How large it is, `size`, lies beside it before it is there.
Result<void> compose_packages(const std::vector<std::string>& zips, const std::string& destination,
                              Bytes size);
// What lies there is composed of this node's own layers too: after that copied_size() is nothing.
Result<void> own_copy(const std::string& destination);
// Nothing: what lies there was not composed of zips.
std::optional<Bytes> copied_size(const std::string& destination);

// Removes a folder, and what lies beside it: under its own name it is there whole, or not at all.
// Until all of it is gone the rest has this at the end of its name.
inline constexpr std::string_view kRemovedFolder = ".removed";
void remove_folder_at_once(const std::string& folder);
// What compositions and removals in `folder` left that did not end; `is_one`: the names that whole
// ones have.
void remove_leftovers(const std::string& folder,
                      const std::function<bool(const std::string& name)>& is_one);

}  // namespace lambent::layers
