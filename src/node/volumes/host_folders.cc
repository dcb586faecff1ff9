#include "node/volumes/host_folders.h"

#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace lambent::volumes {
namespace {

namespace fs = std::filesystem;

bool lies_within(std::string_view inner, std::string_view outer) {
  return inner.starts_with(outer) && (inner.size() == outer.size() || inner[outer.size()] == '/');
}

}  // namespace

Result<HostFolders> HostFolders::open(const std::vector<std::string>& allowed,
                                      const std::vector<std::string>& own) {
  HostFolders folders;
  for (const std::string& text : allowed) {
    const size_t equals = text.rfind('=');
    Folder folder{.path = text.substr(0, equals),
                  .real = {},
                  .tenant = equals == std::string::npos ? "" : text.substr(equals + 1)};
    while (folder.path.size() > 1 && folder.path.ends_with('/')) folder.path.pop_back();
    std::error_code error;
    if (folder.path.starts_with('/')) folder.real = fs::canonical(folder.path, error);
    if (error || !fs::is_directory(folder.real, error)) {
      return Error{ErrorCode::kNotFound, "there is no folder '" + folder.path +
                                             "'; it is an absolute path, with =TENANT behind it "
                                             "where only one tenant may mount it"};
    }
    if (folder.real == "/") {
      return Error{ErrorCode::kInvalidArgument, "the root of the host cannot be mounted"};
    }
    for (const std::string& each : own) {
      const std::string ours = fs::weakly_canonical(each, error);
      if (!lies_within(ours, folder.real) && !lies_within(folder.real, ours)) continue;
      return Error{ErrorCode::kInvalidArgument,
                   "'" + folder.path + "' has the worker's own folder " + ours +
                       " in it or around it, which no function may see"};
    }
    folders.folders_.push_back(std::move(folder));
  }
  return folders;
}

Result<std::string> HostFolders::resolve(const std::string& tenant, const std::string& path) const {
  std::string list;
  for (const Folder& folder : folders_) {
    if (!folder.tenant.empty() && folder.tenant != tenant) continue;
    if (lies_within(path, folder.path)) return folder.real + path.substr(folder.path.size());
    if (lies_within(path, folder.real)) return path;
    list += (list.empty() ? "" : ", ") + folder.path;
  }
  return Error{ErrorCode::kPermissionDenied,
               "the folder " + path +
                   " of the host may not be mounted; the operator of this "
                   "worker allows " +
                   (list.empty() ? "none" : list) + " (lambent serve --mount-allow PATH)"};
}

}  // namespace lambent::volumes
