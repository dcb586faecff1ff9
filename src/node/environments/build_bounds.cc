#include "node/environments/build_bounds.h"

#include <fcntl.h>
#include <fts.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <memory>
#include <set>
#include <utility>

#include "core/base/fd.h"

namespace lambent::environments {
namespace {

constexpr Bytes kKeepFree = Bytes::mib(512);  // of the disk
constexpr uint64_t kMostFiles = 2'000'000;    // that one build may make
constexpr int kPauseFactor = 20;  // between two looks at all files: of the last one's time

Bytes free_on_disk(const std::string& folder) {
  struct statvfs status {};
  if (statvfs(folder.c_str(), &status) != 0) return Bytes(UINT64_MAX);
  return Bytes(uint64_t{status.f_bavail} * status.f_frsize);
}

constexpr mode_t kListed = S_IRUSR | S_IXUSR;

// Whether a folder is ours and its mode keeps us from looking into it.
bool hides_from_owner(const struct stat& status) {
  return geteuid() != 0 && status.st_uid == geteuid() && (status.st_mode & kListed) != kListed;
}

// Of the folder that was seen, not of what a build has put in its place meanwhile; and only where
// its mode is still this one. A failure shows when the folder is read.
void change_mode(const FTSENT& folder, mode_t from, mode_t to) {
  const OwnedFd seen(::open(folder.fts_accpath, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  const bool is_it = seen.valid() && fstat(seen.get(), &status) == 0 &&
                     status.st_dev == folder.fts_statp->st_dev &&
                     status.st_ino == folder.fts_statp->st_ino &&
                     (status.st_mode & 07777) == (from & 07777);
  if (is_it) (void)::chmod(("/proc/self/fd/" + std::to_string(seen.get())).c_str(), to & 07777);
}

}  // namespace

BuildBounds::BuildBounds(std::vector<std::string> folders, Bytes most, Duration timeout,
                         BoundWords words)
    : folders_(std::move(folders)),
      most_(most),
      timeout_(timeout),
      words_(std::move(words)),
      at_start_(disk_use(folders_)),
      until_(clock_.now() + timeout),
      look_at_(clock_.now()) {}

Result<void> BuildBounds::check_rest() const {
  if (clock_.now() > until_) {
    return Error{ErrorCode::kDeadlineExceeded,
                 words_.what + " took longer than " +
                     std::to_string(static_cast<int64_t>(to_seconds(timeout_))) +
                     " s, which the worker's " + words_.timeout_flag + " allows"};
  }
  for (const std::string& folder : folders_) {
    if (free_on_disk(folder) >= kKeepFree) continue;
    return Error{ErrorCode::kStorageFull, words_.what + ": the disk of the state folder is full"};
  }
  return {};
}

Result<void> BuildBounds::check() { return clock_.now() < look_at_ ? check_rest() : check_all(); }

Result<void> BuildBounds::check_all() {
  RETURN_IF_ERROR(check_rest());
  const Instant began = clock_.now();
  const DiskUse use = disk_use(folders_);
  const Instant ended = clock_.now();
  look_at_ = ended + (ended - began) * kPauseFactor;
  if (use.size > at_start_.size && use.size - at_start_.size > most_) {
    return Error{ErrorCode::kInvalidArgument, words_.what + " took more than " + to_string(most_) +
                                                  " of disk, which the worker's " +
                                                  words_.size_flag + " allows"};
  }
  if (use.unreadable > at_start_.unreadable) {
    return Error{
        ErrorCode::kInvalidArgument,
        words_.what + " left files that the worker cannot count: it may not read a folder"};
  }
  if (use.files > at_start_.files && use.files - at_start_.files > kMostFiles) {
    return Error{ErrorCode::kInvalidArgument,
                 words_.what + " had more than " + std::to_string(kMostFiles) + " files"};
  }
  return {};
}

DiskUse disk_use(const std::vector<std::string>& folders, bool with_one_name_only) {
  DiskUse use;
  std::vector<char*> roots;
  // fts does not write to them.
  for (const std::string& each : folders) roots.push_back(const_cast<char*>(each.c_str()));
  roots.push_back(nullptr);
  const std::unique_ptr<FTS, int (*)(FTS*)> walk(
      fts_open(roots.data(), FTS_PHYSICAL | FTS_NOCHDIR, nullptr), &fts_close);
  if (walk == nullptr) return use;
  std::set<std::pair<dev_t, ino_t>> seen;
  while (const FTSENT* entry = fts_read(walk.get())) {
    const bool is_folder = entry->fts_info == FTS_D;
    const bool is_left = entry->fts_info == FTS_DP || entry->fts_info == FTS_DNR;
    // It is opened for the time in which it is walked. Its entry has the mode of before.
    if ((is_folder || is_left) && hides_from_owner(*entry->fts_statp)) {
      const mode_t given = entry->fts_statp->st_mode, opened = given | kListed;
      is_left ? change_mode(*entry, opened, given) : change_mode(*entry, given, opened);
    }
    const bool is_hidden = entry->fts_info == FTS_DNR || entry->fts_info == FTS_NS;
    if (is_hidden && entry->fts_errno == EACCES) ++use.unreadable;
    const bool is_file = entry->fts_info == FTS_F || entry->fts_info == FTS_SL ||
                         entry->fts_info == FTS_SLNONE || entry->fts_info == FTS_DEFAULT;
    if (!is_folder && !is_file) continue;
    const struct stat& status = *entry->fts_statp;
    if (is_file && status.st_nlink > 1) {
      if (with_one_name_only || !seen.insert({status.st_dev, status.st_ino}).second) continue;
    }
    ++use.files;
    use.size += Bytes(static_cast<uint64_t>(status.st_blocks) * 512);
  }
  return use;
}

Bytes size_on_disk(const std::string& folder, bool with_one_name_only) {
  return disk_use({folder}, with_one_name_only).size;
}

}  // namespace lambent::environments
