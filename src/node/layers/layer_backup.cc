#include "node/layers/layer_backup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include "core/base/parse_number.h"
#include "core/crypto/copied_file.h"
#include "core/domain/layer.h"
#include "node/layers/layer_folder.h"

namespace lambent::layers {
namespace {

namespace fs = std::filesystem;

Error copy_failed(const std::string& doing, const std::error_code& error) {
  return error_from_errno(doing, error.value());
}

// Of a folder that is there. Zero: it is not.
ino_t inode_of(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

// The folders in one; none if that is not there.
Result<std::vector<std::string>> names_in(const std::string& folder) {
  if (inode_of(folder) == 0) return std::vector<std::string>();
  auto names = folders_in(folder);
  if (!names.ok() && inode_of(folder) == 0) return std::vector<std::string>();
  return names;
}

}  // namespace

LayerCopy::LayerCopy(std::string from, std::string to)
    : from_(std::move(from)), to_(std::move(to)) {}

Result<void> LayerCopy::copy() {
  ASSIGN_OR_RETURN(const auto tenants, names_in(from_));
  for (const std::string& tenant : tenants) {
    if (!parse_number<uint64_t>(tenant)) continue;
    const Result<void> copied = copy_tenant("/" + tenant);
    if (!copied.ok()) return copied.error().with_context("layers of tenant " + tenant);
  }
  return {};
}

Result<void> LayerCopy::copy_tenant(const std::string& tenant) {
  ASSIGN_OR_RETURN(const auto names, names_in(from_ + tenant));
  for (const std::string& name : names) {
    if (validate_layer_name(name).ok()) RETURN_IF_ERROR(copy_layer(tenant + "/" + name));
  }
  ASSIGN_OR_RETURN(const auto composed, names_in(from_ + tenant + "/" + kComposed));
  for (const std::string& digest : composed) {
    if (digest.size() != kLayersDigestLength) continue;
    const std::string folder = tenant + "/" + kComposed + "/" + digest;
    if (copied_size(from_ + folder)) continue;
    RETURN_IF_ERROR(copy_whole(folder));
    const std::string packages = tenant + "/" + kPackages + "/" + digest;
    if (inode_of(from_ + packages) != 0) RETURN_IF_ERROR(copy_whole(packages));
  }
  return {};
}

Result<void> LayerCopy::copy_layer(const std::string& layer) {
  ASSIGN_OR_RETURN(const auto numbers, names_in(from_ + layer));
  for (const std::string& number : numbers) {
    // Its description is written last.
    if (read_version(from_ + layer + "/" + number).ok()) {
      RETURN_IF_ERROR(copy_whole(layer + "/" + number));
    }
  }
  // After the versions: a number that it does not know could be given again.
  const auto last = read_file(from_ + layer + kLast, 32);
  if (!last.ok()) return {};
  std::error_code error;
  fs::create_directories(to_ + layer, error);
  if (error) return copy_failed("create " + to_ + layer, error);
  return write_file_atomically(to_ + layer + kLast, *last, false);
}

Result<void> LayerCopy::copy_whole(const std::string& folder) {
  const std::string source = from_ + folder;
  const std::string target = to_ + folder;
  const ino_t inode = inode_of(source);
  if (inode == 0 || inode_of(target) != 0) return {};
  std::error_code error;
  fs::create_directories(fs::path(target).parent_path(), error);
  if (error) return copy_failed("create " + target, error);
  Result<void> copied = copy_entries(source, target);
  if (inode_of(source) == inode) return copied;
  fs::remove_all(target, error);  // it went by rename(), before anything in it
  return error ? copy_failed("remove " + target, error) : Result<void>();
}

Result<void> LayerCopy::copy_entries(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::create_directory(to, from, error);
  for (fs::directory_iterator each(from, error), end; !error && each != end;
       each.increment(error)) {
    const std::string source = each->path();
    const std::string target = to + "/" + each->path().filename().string();
    switch (each->symlink_status(error).type()) {
      case fs::file_type::directory:
        RETURN_IF_ERROR(copy_entries(source, target));
        break;
      case fs::file_type::symlink:
        fs::copy_symlink(source, target, error);
        break;
      default:
        RETURN_IF_ERROR(copy_file(source, target));
    }
    if (error) break;
  }
  return error ? copy_failed("copy " + from, error) : Result<void>();
}

Result<void> LayerCopy::copy_file(const std::string& from, const std::string& to) {
  const OwnedFd file(::open(from.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) {
    return error_from_errno("open " + from, errno);
  }
  ASSIGN_OR_RETURN(const crypto::Digest digest, crypto::copy_rest(file.get(), to));
  // Python compares times of change with those that it noted.
  const std::string key = crypto::to_hex(digest) + " " + std::to_string(status.st_mode) + " " +
                          std::to_string(status.st_mtim.tv_sec) + " " +
                          std::to_string(status.st_mtim.tv_nsec);
  const auto [same, is_new] = files_.try_emplace(key, to);
  if (is_new) return {};
  // The one that is there may have been removed again, or be full of links: then this one stays.
  const std::string beside = to + ".link";
  if (::link(same->second.c_str(), beside.c_str()) != 0) {
    same->second = to;
    return {};
  }
  std::error_code error;
  fs::rename(beside, to, error);
  return error ? copy_failed("keep " + to, error) : Result<void>();
}

}  // namespace lambent::layers
