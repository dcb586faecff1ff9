#include "edge/cli/staging.h"

#include <cstdlib>
#include <filesystem>

namespace lambent::cli {

namespace fs = std::filesystem;

Result<StagingFolder> StagingFolder::make() {
  std::error_code code;
  std::string path = (fs::temp_directory_path(code) / "lambent-package-XXXXXX").string();
  if (code || mkdtemp(path.data()) == nullptr) {
    return error_from_errno("make a temporary folder " + path, errno);
  }
  return StagingFolder(std::move(path));
}

StagingFolder::~StagingFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Result<void> StagingFolder::add(const std::string& source, const std::string& place) const {
  const fs::path target = place.empty() ? fs::path(path_) : fs::path(path_) / place;
  std::error_code code;
  if (!fs::exists(source, code)) {
    return Error{ErrorCode::kNotFound, "there is no file or folder " + source};
  }
  if (target.has_parent_path()) fs::create_directories(target.parent_path(), code);
  if (!code) {
    fs::copy(source, target,
             fs::copy_options::recursive | fs::copy_options::copy_symlinks |
                 fs::copy_options::overwrite_existing,
             code);
  }
  if (code) {
    return Error{ErrorCode::kUnknown, "copying " + source + ": " + code.message()};
  }
  return {};
}

std::string join_path(const std::string& folder, const std::string& path) {
  return (fs::path(folder) / path).lexically_normal().string();
}

std::string folder_of(const std::string& file) {
  const std::string folder = fs::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string last_part(const std::string& path) {
  fs::path normal = fs::path(path).lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();
  return normal.filename().string();
}

}  // namespace lambent::cli
