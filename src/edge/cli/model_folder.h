// Folders of this machine in Triton's layout (NAME/3/model.onnx). What makes one a model's:
// folders in it that are called by numbers, and a config.pbtxt or a model (.onnx) in one of these;
// find_stored_models() holds to the same. Blocks; used by `lambent deploy`, on its thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lambent::cli {

struct ModelFolder {
  std::string path;
  std::map<uint64_t, std::string> versions;  // to their folders
  // Whether a manifest in it counts. Of what was fetched it does not: it could name files of this
  // machine, a network and Python packages.
  bool has_own_manifest = false;
};
// Nothing if `path` is no model's folder, or one of a function of another kind.
std::optional<ModelFolder> find_model_folder(const std::string& path);

// The models of a repository, a folder each, in order of their names; none if `path` is a
// function's folder.
std::vector<ModelFolder> find_model_repository(const std::string& path);

}  // namespace lambent::cli
