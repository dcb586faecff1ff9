#include "bin/state_backup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "bin/backup_digests.h"
#include "core/base/fd.h"
#include "node/catalog/backup.h"
#include "node/layers/layer_backup.h"
#include "node/volumes/volume_backup.h"

namespace lambent::bin {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCatalog = "catalog.db";
constexpr const char* kCode = "code";
// What else there may be. Of a log the newest bytes may be missing, as after a kill.
constexpr const char* kOthers[] = {"node.key", "audit.log", "audit.log.1"};
constexpr const char* kLogs = "logs";
constexpr const char* kVolumes = "volumes";
constexpr const char* kLayers = "layers";

Error failed(const std::string& doing, const std::error_code& error) {
  return {
      error == std::errc::no_space_on_device ? ErrorCode::kStorageFull : ErrorCode::kUnavailable,
      doing + ": " + error.message()};
}

// What goes while it is copied was of no use any more.
bool is_gone(const std::error_code& error) { return error == std::errc::no_such_file_or_directory; }

// Files, folders and links below `from`, with their modes; what is at `to` already stays.
Result<void> copy_tree(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::copy(from, to,
           fs::copy_options::recursive | fs::copy_options::copy_symlinks |
               fs::copy_options::skip_existing,
           error);
  if (error && !is_gone(error)) return failed("copy " + from.string(), error);
  return {};
}

// What is in a folder, one by one, so that what goes meanwhile takes no other along; what was
// copied before stays as it is.
Result<void> copy_entries(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directories(to, error);
  if (error) return failed("create " + to.string(), error);
  for (const auto& entry : fs::directory_iterator(from, error)) {
    const fs::path target = to / entry.path().filename();
    std::error_code ignored;
    if (!fs::exists(fs::symlink_status(target, ignored))) {
      RETURN_IF_ERROR(copy_tree(entry.path(), target));
    }
  }
  if (error && !is_gone(error)) return failed("read " + from.string(), error);
  return {};
}

Result<void> copy_others(const fs::path& from, const fs::path& to) {
  for (const char* name : kOthers) {
    std::error_code ignored;
    if (fs::exists(from / name, ignored)) RETURN_IF_ERROR(copy_tree(from / name, to / name));
  }
  return {};
}

// On disk, as far as the kernel goes; one call for all files of the backup.
Result<void> sync_all(const fs::path& folder) {
  const OwnedFd file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file.valid() || ::syncfs(file.get()) != 0) {
    return error_from_errno("sync " + folder.string(), errno);
  }
  return {};
}

// Code, layers and volumes are copied before the database, so that no function in it goes without
// because they were removed meanwhile, and after it for those that came meanwhile. A folder of code
// never changes.
Result<void> copy_state(const fs::path& state, const fs::path& to, const BackupParts& parts) {
  layers::LayerCopy layer_copy(state / kLayers, to / kLayers);
  const auto copy_files = [&]() -> Result<void> {
    RETURN_IF_ERROR(copy_entries(state / kCode, to / kCode));
    RETURN_IF_ERROR(layer_copy.copy());
    if (!parts.volumes) return {};
    return volumes::copy_volumes(state / kVolumes, to / kVolumes);
  };
  RETURN_IF_ERROR(copy_files());
  RETURN_IF_ERROR(catalog::copy_database(state / kCatalog, to / kCatalog));
  RETURN_IF_ERROR(copy_files());
  RETURN_IF_ERROR(copy_others(state, to));
  return copy_entries(state / kLogs, to / kLogs);
}

// Fills a folder beside `to` and renames it, so that `to` is whole or not there.
template <typename Fill>
Result<void> make_folder(const fs::path& to, Fill fill) {
  std::error_code error;
  if (to.has_parent_path()) fs::create_directories(to.parent_path(), error);
  if (error) return failed("create " + to.parent_path().string(), error);
  std::string name = to.string() + ".XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) return error_from_errno("create " + name, errno);
  const fs::path beside = name;
  const Result<void> filled = fill(beside);
  if (filled.ok()) fs::rename(beside, to, error);
  if (filled.ok() && !error) return {};
  std::error_code ignored;
  fs::remove_all(beside, ignored);
  return filled.ok() ? failed("rename to " + to.string(), error) : filled.error();
}

// Functions read layers and volumes as another user, whatever the caller's umask is. Who is not the
// owner gets no further than the outer folder.
constexpr mode_t kModes = 0022;

// Of a folder that may be given as "folder/".
std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

Result<void> back_up_state(const std::string& state, const std::string& folder,
                           const BackupParts& parts) {
  ::umask(kModes);
  const std::string to = without_slash(folder);
  std::error_code ignored;
  if (fs::exists(to, ignored)) {
    return Error{ErrorCode::kAlreadyExists, to + " exists already; name a new folder"};
  }
  return make_folder(to, [&](const fs::path& beside) -> Result<void> {
    RETURN_IF_ERROR(copy_state(state, beside, parts));
    RETURN_IF_ERROR(write_digests(beside));
    return sync_all(beside);
  });
}

Result<void> restore_state(const std::string& from, const std::string& folder) {
  ::umask(kModes);
  const std::string state = without_slash(folder);
  std::error_code ignored;
  if (fs::exists(fs::path(state) / kCatalog, ignored)) {
    return Error{ErrorCode::kAlreadyExists,
                 state + " is a worker's state already; move it away, or name another folder"};
  }
  RETURN_IF_ERROR(check_digests(without_slash(from)));
  RETURN_IF_ERROR(catalog::check_database(fs::path(from) / kCatalog));
  // An empty folder, such as one that a package made, is replaced.
  fs::remove(state, ignored);
  if (fs::exists(state, ignored)) {
    return Error{ErrorCode::kAlreadyExists, state + " is not empty; name another folder"};
  }
  return make_folder(state, [&](const fs::path& beside) -> Result<void> {
    RETURN_IF_ERROR(copy_state(from, beside, {}));
    return sync_all(beside);
  });
}

}  // namespace lambent::bin
