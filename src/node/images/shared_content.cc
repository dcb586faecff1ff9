#include "node/images/shared_content.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "core/base/fd.h"
#include "core/domain/volume.h"
#include "node/images/puller.h"

namespace lambent::images {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestReport = 1 << 20;
constexpr size_t kPiece = 128 << 10;
constexpr unsigned kMostDepth = 200;  // of folders: their descriptors are open at once

OwnedFd open_folder(int at, const char* name) {
  open_how how{};
  how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV;
  return OwnedFd(static_cast<int>(syscall(SYS_openat2, at, name, &how, sizeof(how))));
}

size_t read_piece(int file, std::array<char, kPiece>& piece) {
  size_t have = 0;
  while (have < piece.size()) {
    const ssize_t count = read(file, piece.data() + have, piece.size() - have);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    have += static_cast<size_t>(count);
  }
  return have;
}

bool has_attributes(int file) { return flistxattr(file, nullptr, 0) > 0; }

bool are_alike(const struct stat& one, const struct stat& other) {
  return S_ISREG(one.st_mode) && one.st_mode == other.st_mode && one.st_uid == other.st_uid &&
         one.st_gid == other.st_gid && one.st_size == other.st_size &&
         one.st_mtim.tv_sec == other.st_mtim.tv_sec && one.st_mtim.tv_nsec == other.st_mtim.tv_nsec;
}

class Sharing {
 public:
  explicit Sharing(std::string spare)
      : spare_(std::move(spare)),
        piece_(std::make_unique<std::array<char, kPiece>>()),
        other_piece_(std::make_unique<std::array<char, kPiece>>()) {}

  Bytes saved() const { return saved_; }

  void share_folder(const OwnedFd& folder, const OwnedFd& other, unsigned depth) {
    struct stat before {};
    // fdopendir() takes its descriptor, and the others are needed.
    OwnedFd listed(openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!listed.valid() || fstat(folder.get(), &before) != 0) return;
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(fdopendir(listed.get()), &closedir);
    if (entries == nullptr) return;
    (void)listed.release();
    std::vector<std::string> folders;
    bool has_changed = false;
    while (const dirent* entry = readdir(entries.get())) {
      const std::string name = entry->d_name;
      struct stat status {};
      if (name == "." || name == ".." ||
          fstatat(folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
        continue;
      }
      if (S_ISDIR(status.st_mode)) folders.push_back(name);
      if (S_ISREG(status.st_mode)) has_changed |= share_file(folder, other, name, status);
    }
    const std::array<timespec, 2> times = {before.st_atim, before.st_mtim};
    if (has_changed) (void)futimens(folder.get(), times.data());
    if (depth == kMostDepth) return;
    for (const std::string& name : folders) {
      const OwnedFd inner = open_folder(folder.get(), name.c_str());
      const OwnedFd inner_other = open_folder(other.get(), name.c_str());
      if (inner.valid() && inner_other.valid()) share_folder(inner, inner_other, depth + 1);
    }
  }

 private:
  bool share_file(const OwnedFd& folder, const OwnedFd& other, const std::string& name,
                  const struct stat& status) {
    struct stat kept {};
    const bool may_be =
        status.st_size > 0 && fstatat(other.get(), name.c_str(), &kept, AT_SYMLINK_NOFOLLOW) == 0 &&
        are_alike(status, kept) && status.st_dev == kept.st_dev && status.st_ino != kept.st_ino;
    if (!may_be || !have_same_bytes(folder, other, name)) return false;
    (void)unlink(spare_.c_str());
    if (linkat(other.get(), name.c_str(), AT_FDCWD, spare_.c_str(), 0) != 0) return false;
    if (renameat(AT_FDCWD, spare_.c_str(), folder.get(), name.c_str()) != 0) {
      (void)unlink(spare_.c_str());
      return false;
    }
    if (status.st_nlink == 1) saved_ += Bytes(static_cast<uint64_t>(status.st_blocks) * 512);
    return true;
  }

  bool have_same_bytes(const OwnedFd& folder, const OwnedFd& other, const std::string& name) {
    constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    const OwnedFd one(openat(folder.get(), name.c_str(), kFlags));
    const OwnedFd two(openat(other.get(), name.c_str(), kFlags));
    if (!one.valid() || !two.valid()) return false;
    if (has_attributes(one.get()) || has_attributes(two.get())) return false;
    while (true) {
      const size_t size = read_piece(one.get(), *piece_);
      if (size != read_piece(two.get(), *other_piece_)) return false;
      if (std::memcmp(piece_->data(), other_piece_->data(), size) != 0) return false;
      if (size < kPiece) return true;
    }
  }

  const std::string spare_;
  const std::unique_ptr<std::array<char, kPiece>> piece_, other_piece_;
  Bytes saved_;
};

}  // namespace

bool is_plain_file(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool is_plain_folder(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::vector<ReadyImage> ready_images(const std::string& ready) {
  std::vector<ReadyImage> images;
  std::error_code error;
  for (fs::directory_iterator each(ready, error), end; !error && each != end;
       each.increment(error)) {
    const std::string folder = each->path();
    const auto report = read_file(folder + "/" + kReportFile, kLargestReport);
    if (!report.ok()) continue;
    auto image = parse_pulled_image(*report);
    if (image.ok()) images.push_back({folder, std::move(*image)});
  }
  return images;
}

std::map<std::string, std::string> kept_blobs(const std::vector<ReadyImage>& images,
                                              const std::string& registry) {
  std::map<std::string, std::string> blobs;
  for (const ReadyImage& one : images) {
    if (!registry.empty() && one.image.registry != registry) continue;
    std::string folder = one.folder + "/" + kLayoutFolder;
    bool is_there = is_plain_folder(folder);
    for (const char* inner : {"/blobs", "/sha256"}) {
      folder += inner;
      is_there = is_there && is_plain_folder(folder);
    }
    std::error_code error;
    if (!is_there) continue;
    for (fs::directory_iterator each(folder, error), end; !error && each != end;
         each.increment(error)) {
      const std::string digits = each->path().filename();
      if (validate_sha256(digits).ok() && is_plain_file(each->path())) blobs[digits] = each->path();
    }
  }
  return blobs;
}

const ReadyImage* closest_image(const std::vector<ReadyImage>& images,
                                const std::vector<std::string>& layers) {
  const ReadyImage* closest = nullptr;
  ptrdiff_t most = 0;
  for (const ReadyImage& one : images) {
    const std::vector<std::string>& has = one.image.config.layers;
    const ptrdiff_t common = std::ranges::count_if(layers, [&](const std::string& layer) {
      return std::ranges::find(has, layer) != has.end();
    });
    if (common > most) {
      most = common;
      closest = &one;
    }
  }
  return closest;
}

bool replace_by_link(const std::string& source, const std::string& path, const std::string& spare) {
  (void)unlink(spare.c_str());
  if (linkat(AT_FDCWD, source.c_str(), AT_FDCWD, spare.c_str(), 0) != 0) return false;
  const bool is_done = rename(spare.c_str(), path.c_str()) == 0;
  // Two names of one file are left as they are.
  (void)unlink(spare.c_str());
  return is_done;
}

Bytes share_files(const std::string& root, const std::string& other, const std::string& spare) {
  const OwnedFd folder(open(root.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  const OwnedFd kept(open(other.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  Sharing sharing(spare);
  if (folder.valid() && kept.valid()) sharing.share_folder(folder, kept, 0);
  return sharing.saved();
}

}  // namespace lambent::images
