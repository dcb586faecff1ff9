#include "edge/cli/model_folder.h"

#include <filesystem>
#include <set>
#include <utility>

#include "core/base/fd.h"
#include "core/domain/version.h"
#include "edge/cli/manifest.h"
#include "edge/model_files/onnx_files.h"
#include "edge/model_files/triton_config.h"

namespace lambent::cli {
namespace {

namespace fs = std::filesystem;

bool has_model(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (model_files::is_onnx_name(entry.path().filename().string())) return true;
  }
  return false;
}

}  // namespace

std::optional<ModelFolder> find_model_folder(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::nullopt;
  ModelFolder folder{.path = path, .versions = {}};
  bool has_one = fs::exists(fs::path(path) / model_files::kTritonConfig, error);
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    const auto number = version_number(entry.path().filename().string());
    if (!number || !entry.is_directory(error)) continue;
    folder.versions.emplace(*number, entry.path().string());
    has_one = has_one || has_model(entry.path());
  }
  if (folder.versions.empty() || !has_one) return std::nullopt;
  // A function of another kind may have folders that are called so, and a model one of its own.
  const std::string file = path + "/" + kManifestName;
  folder.has_own_manifest = fs::exists(file, error);
  const auto text = read_file(file, kMostManifestText);
  if (!text.ok()) return folder;
  const auto manifest = parse_manifest(*text, file);
  if (!manifest.ok() || !manifest->model) return std::nullopt;
  if (fs::exists(fs::path(path) / manifest->model->file, error)) return std::nullopt;
  return folder;
}

std::vector<ModelFolder> find_model_repository(const std::string& path) {
  std::vector<ModelFolder> repository;
  std::error_code error;
  if (!fs::is_directory(path, error) || fs::exists(fs::path(path) / kManifestName, error)) {
    return repository;
  }
  std::set<std::string> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    folders.insert(entry.path().string());
  }
  for (const std::string& folder : folders) {
    if (auto model = find_model_folder(folder)) repository.push_back(*std::move(model));
  }
  return repository;
}

}  // namespace lambent::cli
