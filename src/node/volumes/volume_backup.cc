#include "node/volumes/volume_backup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include "core/crypto/copied_file.h"
#include "core/domain/mount.h"
#include "node/volumes/volume_folder.h"

namespace lambent::volumes {
namespace {

namespace fs = std::filesystem;

Error copy_failed(const std::string& doing, const std::error_code& error) {
  return error_from_errno(doing, error.value());
}

// Also what lay in a folder that is a file now.
bool is_gone(const std::error_code& error) {
  return error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
}

std::string content_in(const std::string& folder, const std::string& sha256) {
  return folder + "/contents/" + sha256;
}

// One volume. Files are told apart by their inodes, as load_volume() does.
class VolumeCopy {
 public:
  VolumeCopy(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}

  Result<void> copy() {
    std::error_code error;
    for (const std::string& path : {tree_of(to_), content_in(to_, "")}) {
      fs::create_directories(path, error);
      if (error) return copy_failed("create " + path, error);
    }
    // A folder that goes with its last file ends a walk; what was copied is passed quickly.
    for (int walk = 0; walk < kWalks; ++walk) {
      ASSIGN_OR_RETURN(const bool is_whole, copy_tree());
      if (is_whole) return {};
    }
    return Error{ErrorCode::kUnavailable, "folders of it go as fast as they are read; try again"};
  }

 private:
  static constexpr int kWalks = 1000;

  // Whether all of it was seen, or is gone.
  Result<bool> copy_tree() {
    const std::string tree = tree_of(from_);
    std::error_code error;
    for (auto at = fs::recursive_directory_iterator(tree, error);
         !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
      std::error_code ignored;
      if (at->is_directory(ignored)) continue;
      RETURN_IF_ERROR(copy_file(at->path().string().substr(tree.size() + 1)));
    }
    if (!error) return true;
    if (!is_gone(error)) return copy_failed("read " + tree, error);
    std::error_code ignored;
    return !fs::exists(tree, ignored);
  }

  Result<void> copy_file(const std::string& path) {
    const std::string source = tree_of(from_) + "/" + path;
    const OwnedFd file(::open(source.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (!file.valid() && (errno == ENOENT || errno == ENOTDIR)) return {};
    if (!file.valid() || ::fstat(file.get(), &status) != 0) {
      return error_from_errno("open " + source, errno);
    }
    if (!S_ISREG(status.st_mode)) return {};
    const auto named = name_of(status.st_ino);
    if (named && ::access(content_in(to_, *named).c_str(), F_OK) == 0) return show(*named, path);
    const std::string beside = to_ + "/.copied";
    ::unlink(beside.c_str());
    ASSIGN_OR_RETURN(const crypto::Digest digest, crypto::copy_rest(file.get(), beside));
    const std::string sha256 = crypto::to_hex(digest);
    if (named && *named != sha256) {
      ::unlink(beside.c_str());
      return Error{ErrorCode::kDataLoss, source + " is not what was put there: its SHA-256 is " +
                                             sha256 + ", not " + *named +
                                             "; put the file again, or remove it"};
    }
    // Of two equal files without a name the second is the first one's content.
    if (::access(content_in(to_, sha256).c_str(), F_OK) == 0) {
      ::unlink(beside.c_str());
    } else if (::rename(beside.c_str(), content_in(to_, sha256).c_str()) != 0) {
      return error_from_errno("keep " + content_in(to_, sha256), errno);
    }
    return show(sha256, path);
  }

  // The content that has this inode now. The number may have been another content's when the names
  // were read, so that it is looked at once more. A copy that lost its hard links has none: it is
  // not read again for each file.
  std::optional<std::string> name_of(ino_t inode) {
    for (const bool again : {false, true}) {
      if (again && !read_names()) return std::nullopt;
      const auto found = names_.find(inode);
      struct stat status {};
      if (found != names_.end() &&
          ::lstat(content_in(from_, found->second).c_str(), &status) == 0 &&
          status.st_ino == inode) {
        return found->second;
      }
    }
    return std::nullopt;
  }

  // Whether they may be others than before.
  bool read_names() {
    std::error_code error;
    const auto changed = fs::last_write_time(content_in(from_, ""), error);
    if (!error && changed == names_of_) return false;
    names_of_ = error ? fs::file_time_type::min() : changed;
    names_.clear();
    for (auto at = fs::directory_iterator(content_in(from_, ""), error);
         !error && at != fs::directory_iterator(); at.increment(error)) {
      struct stat status {};
      if (::lstat(at->path().c_str(), &status) == 0)
        names_[status.st_ino] = at->path().filename().string();
    }
    return true;
  }

  // The content at its path, in the place of another one.
  Result<void> show(const std::string& sha256, const std::string& path) {
    const std::string content = content_in(to_, sha256);
    const std::string target = tree_of(to_) + "/" + path;
    std::error_code error;
    if (fs::equivalent(content, target, error)) return {};
    // What was a file may be a folder now, and the other way round.
    for (size_t slash = path.find('/'); slash != std::string::npos;
         slash = path.find('/', slash + 1)) {
      const std::string parent = tree_of(to_) + "/" + path.substr(0, slash);
      if (!fs::is_directory(parent, error)) fs::remove(parent, error);
    }
    fs::create_directories(fs::path(target).parent_path(), error);
    if (!error) fs::remove_all(target, error);
    if (!error) fs::create_hard_link(content, target, error);
    return error ? copy_failed("make " + target, error) : Result<void>();
  }

  const std::string from_;
  const std::string to_;
  std::map<ino_t, std::string> names_;
  fs::file_time_type names_of_ = fs::file_time_type::min();  // when `contents` had changed last
};

// The folders in one, by name; none if it is not there.
Result<std::vector<std::string>> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto at = fs::directory_iterator(folder, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    std::error_code ignored;
    if (at->is_directory(ignored)) names.push_back(at->path().filename());
  }
  if (error && !is_gone(error)) return copy_failed("read " + folder, error);
  return names;
}

bool is_number(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Result<void> copy_volumes(const std::string& from, const std::string& to) {
  ASSIGN_OR_RETURN(const auto tenants, names_in(from));
  for (const std::string& tenant : tenants) {
    if (!is_number(tenant)) continue;
    const std::string folder = from + "/" + tenant;
    ASSIGN_OR_RETURN(const auto volumes, names_in(folder));
    for (const std::string& name : volumes) {
      if (!validate_volume_name(name).ok()) continue;
      const Result<void> copied =
          VolumeCopy(folder + "/" + name, to + "/" + tenant + "/" + name).copy();
      if (!copied.ok()) return copied.error().with_context("volume '" + name + "'");
    }
  }
  return {};
}

}  // namespace lambent::volumes
