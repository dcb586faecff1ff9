#include "node/volumes/volume_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "core/base/fd.h"
#include "core/crypto/copied_file.h"

namespace lambent::volumes {
namespace {

namespace fs = std::filesystem;

// Sandboxes run as other users, and may run programs of a volume. The worker's state folder keeps
// others of the host out.
constexpr mode_t kFileMode = 0555;

std::string contents_of(const std::string& folder) { return folder + "/contents"; }

Error failed(const std::string& doing) { return error_from_errno(doing, errno); }

Error failed(const std::string& doing, const std::error_code& error) {
  return error_from_errno(doing, error.value());
}

Result<void> sync_folder(const std::string& path) {
  const OwnedFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid() || fsync(folder.get()) != 0) return failed("sync " + path);
  return {};
}

// The folders of `path` below `tree`, durable. No part of it is a link: the tree has none.
Result<void> make_parents(const std::string& tree, const std::string& path) {
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const fs::path made = tree + "/" + path.substr(0, slash);
    if (mkdir(made.c_str(), 0755) == 0) {
      RETURN_IF_ERROR(sync_folder(made.parent_path()));
    } else if (errno != EEXIST) {
      return failed("create a folder of the volume");
    }
  }
  return {};
}

struct Content {
  std::string sha256 = {};
  bool is_used = false;
};
using Contents = std::map<ino_t, Content>;

Result<Contents> read_contents(const std::string& folder) {
  Contents contents;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(contents_of(folder), error)) {
    struct stat status {};
    if (lstat(entry.path().c_str(), &status) != 0) return failed("read " + entry.path().string());
    contents[status.st_ino] = {entry.path().filename()};
  }
  if (error) return failed("read " + contents_of(folder), error);
  return contents;
}

// Of a file that a power failure left without its content.
Result<std::string> restore_content(const std::string& folder, const std::string& path) {
  ASSIGN_OR_RETURN(const crypto::Digest digest, crypto::digest_of_file(path));
  const std::string sha256 = crypto::to_hex(digest);
  const std::string content = contents_of(folder) + "/" + sha256;
  if (link(path.c_str(), content.c_str()) != 0 && errno != EEXIST) {
    return failed("keep the content of " + path);
  }
  return sha256;
}

Result<void> read_tree(const std::string& folder, Contents& contents,
                       std::vector<VolumeFile>& files) {
  const std::string tree = tree_of(folder);
  std::error_code error;
  for (auto at = fs::recursive_directory_iterator(tree, error);
       !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    struct stat status {};
    const std::string path = at->path();
    if (lstat(path.c_str(), &status) != 0) return failed("read " + path);
    if (!S_ISREG(status.st_mode)) continue;
    VolumeFile file{.path = path.substr(tree.size() + 1),
                    .size = Bytes(static_cast<uint64_t>(status.st_size)),
                    .sha256 = {}};
    if (const auto content = contents.find(status.st_ino); content != contents.end()) {
      content->second.is_used = true;
      file.sha256 = content->second.sha256;
    } else {
      ASSIGN_OR_RETURN(file.sha256, restore_content(folder, path));
    }
    files.push_back(std::move(file));
  }
  if (error) return failed("read " + tree, error);
  return {};
}

Result<void> read_uploads(const std::string& folder, LoadedVolume& loaded) {
  const std::string uploads = upload_path(folder, "");
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(uploads, error)) {
    struct stat status {};
    if (entry.path().filename().string().starts_with('.')) continue;
    if (lstat(entry.path().c_str(), &status) != 0) return failed("read " + entry.path().string());
    loaded.uploads[entry.path().filename()] = {Bytes(static_cast<uint64_t>(status.st_size)),
                                               seconds(status.st_mtim.tv_sec)};
  }
  if (error) return failed("read " + uploads, error);
  return {};
}

}  // namespace

std::string tree_of(const std::string& folder) { return folder + "/tree"; }

std::string upload_path(const std::string& folder, const std::string& name) {
  return folder + "/uploads/" + name;
}

Result<void> make_volume(const std::string& folder) {
  std::error_code error;
  for (const std::string& path : {tree_of(folder), contents_of(folder), upload_path(folder, "")}) {
    fs::create_directories(path, error);
    if (error) return failed("create " + path, error);
  }
  RETURN_IF_ERROR(sync_folder(folder));
  return sync_folder(fs::path(folder).parent_path());
}

Result<LoadedVolume> load_volume(const std::string& folder) {
  RETURN_IF_ERROR(make_volume(folder));
  LoadedVolume loaded;
  ASSIGN_OR_RETURN(Contents contents, read_contents(folder));
  RETURN_IF_ERROR(read_tree(folder, contents, loaded.files));
  for (const auto& [inode, content] : contents) {
    if (!content.is_used) unlink((contents_of(folder) + "/" + content.sha256).c_str());
  }
  RETURN_IF_ERROR(read_uploads(folder, loaded));
  return loaded;
}

Result<void> publish(const std::string& folder, const std::string& upload,
                     const std::string& sha256, const std::string& path) {
  const std::string content = contents_of(folder) + "/" + sha256;
  if (!upload.empty()) {
    const std::string from = upload_path(folder, upload);
    if (chmod(from.c_str(), kFileMode) != 0) return failed("finish an upload");
    // What other files of the volume are links of stays.
    if (link(from.c_str(), content.c_str()) != 0 && errno != EEXIST) {
      return failed("finish an upload");
    }
    unlink(from.c_str());
    RETURN_IF_ERROR(sync_folder(contents_of(folder)));
  }
  RETURN_IF_ERROR(make_parents(tree_of(folder), path));
  const std::string beside = upload_path(folder, ".link");
  unlink(beside.c_str());
  if (link(content.c_str(), beside.c_str()) != 0) {
    if (errno != ENOENT) return failed("put '" + path + "'");
    return Error{ErrorCode::kAborted,
                 "the content of '" + path + "' was removed meanwhile; put it again"};
  }
  const std::string target = tree_of(folder) + "/" + path;
  // A second link of the same content is not moved by rename(), and stays.
  const bool moved = rename(beside.c_str(), target.c_str()) == 0;
  const int error = errno;
  unlink(beside.c_str());
  if (!moved) return error_from_errno("put '" + path + "'", error);
  return sync_folder(fs::path(target).parent_path());
}

Result<void> remove_from(const std::string& folder, const std::vector<std::string>& paths,
                         const std::vector<std::string>& contents) {
  const std::string tree = tree_of(folder);
  for (const std::string& path : paths) {
    if (unlink((tree + "/" + path).c_str()) != 0 && errno != ENOENT) {
      return failed("remove '" + path + "'");
    }
    for (size_t slash = path.rfind('/'); slash != std::string::npos && slash > 0;
         slash = path.rfind('/', slash - 1)) {
      if (rmdir((tree + "/" + path.substr(0, slash)).c_str()) != 0) break;
    }
  }
  for (const std::string& content : contents) {
    const std::string path = contents_of(folder) + "/" + content;
    struct stat status {};
    if (lstat(path.c_str(), &status) == 0 && status.st_nlink == 1) unlink(path.c_str());
  }
  return sync_folder(tree);
}

}  // namespace lambent::volumes
