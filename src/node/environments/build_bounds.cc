#include "node/environments/build_bounds.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

namespace lambent::environments {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kKeepFree = Bytes::mib(512);  // of the disk
constexpr uint64_t kMostFiles = 2'000'000;    // that one build may make

Bytes free_on_disk(const std::string& folder) {
  struct statvfs status {};
  if (statvfs(folder.c_str(), &status) != 0) return Bytes();
  return Bytes(status.f_bavail * status.f_frsize);
}

// Zero where the file system has no fixed number of them.
uint64_t free_files(const std::string& folder) {
  struct statvfs status {};
  return statvfs(folder.c_str(), &status) == 0 ? status.f_favail : 0;
}

}  // namespace

BuildBounds::BuildBounds(std::string folder, Bytes most, Duration timeout, BoundWords words)
    : folder_(std::move(folder)),
      most_(most),
      timeout_(timeout),
      words_(std::move(words)),
      free_at_start_(free_on_disk(folder_)),
      files_at_start_(free_files(folder_)),
      until_(clock_.now() + timeout) {}

Result<void> BuildBounds::check() const {
  if (clock_.now() > until_) {
    return Error{ErrorCode::kDeadlineExceeded,
                 words_.what + " took longer than " +
                     std::to_string(static_cast<int64_t>(to_seconds(timeout_))) +
                     " s, which the worker's " + words_.timeout_flag + " allows"};
  }
  const Bytes free = free_on_disk(folder_);
  if (free < kKeepFree) {
    return Error{ErrorCode::kStorageFull, words_.what + ": the disk of the state folder is full"};
  }
  if (free_at_start_ > free && free_at_start_ - free > most_) {
    return Error{ErrorCode::kInvalidArgument, words_.what + " took more than " + to_string(most_) +
                                                  " of disk, which the worker's " +
                                                  words_.size_flag + " allows"};
  }
  const uint64_t files = free_files(folder_);
  if (files_at_start_ > files && files_at_start_ - files > kMostFiles) {
    return Error{ErrorCode::kInvalidArgument,
                 words_.what + " had more than " + std::to_string(kMostFiles) + " files"};
  }
  return {};
}

Bytes size_on_disk(const std::string& folder, bool with_one_name_only) {
  Bytes bytes;
  std::set<std::pair<dev_t, ino_t>> seen;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    struct stat status {};
    if (lstat(at->path().c_str(), &status) != 0) continue;
    if (with_one_name_only && status.st_nlink > 1 && !S_ISDIR(status.st_mode)) continue;
    if (!seen.insert({status.st_dev, status.st_ino}).second) continue;
    bytes += Bytes(static_cast<uint64_t>(status.st_blocks) * 512);
  }
  return bytes;
}

}  // namespace lambent::environments
