#include "node/volumes/unfinished_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

#include "core/domain/limits.h"

namespace lambent::volumes {
namespace {

Error failed(const char* doing) { return error_from_errno(doing, errno); }

}  // namespace

Result<void> UnfinishedFile::digest_again() {
  digest_ = crypto::Sha256();
  size_ = Bytes();
  std::string piece(limits::kVolumePiece.count, '\0');
  for (;;) {
    const ssize_t got =
        pread(file_.get(), piece.data(), piece.size(), static_cast<off_t>(size_.count));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("read what came of an upload");
    if (got == 0) break;
    digest_.add(std::string_view(piece).substr(0, static_cast<size_t>(got)));
    size_ += Bytes(static_cast<uint64_t>(got));
  }
  if (lseek(file_.get(), 0, SEEK_END) < 0) return failed("continue an upload");
  return {};
}

Result<void> UnfinishedFile::open_at(Bytes offset) {
  failure_.reset();
  const bool is_new = !file_.valid();
  if (is_new) {
    file_ = OwnedFd(open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file_.valid()) return failed("begin an upload");
  }
  if (offset == Bytes()) {
    digest_ = crypto::Sha256();
    size_ = Bytes();
    if (ftruncate(file_.get(), 0) != 0) return failed("begin an upload");
    if (lseek(file_.get(), 0, SEEK_SET) != 0) return failed("begin an upload");
    return {};
  }
  if (is_new) RETURN_IF_ERROR(digest_again());
  if (offset == size_) return {};
  return Error{ErrorCode::kAborted, "the upload has " + std::to_string(size_.count) +
                                        " bytes, so that it goes on there and not at " +
                                        std::to_string(offset.count)};
}

Result<Bytes> UnfinishedFile::measure() {
  if (file_.valid()) return size_;
  struct stat status {};
  if (stat(path_.c_str(), &status) == 0) return Bytes(static_cast<uint64_t>(status.st_size));
  if (errno == ENOENT) return Bytes();
  return failed("look at an upload");
}

Result<void> UnfinishedFile::check_space(Bytes more) const {
  struct statvfs disk {};
  if (fstatvfs(file_.get(), &disk) != 0) return {};  // a write tells
  const Bytes free(uint64_t{disk.f_bavail} * disk.f_frsize);
  if (more + left_free_ <= free) return {};
  return Error{ErrorCode::kStorageFull,
               "keep an upload: the worker's disk has " + to_string(free) + " free, of which " +
                   to_string(left_free_) + " are left to others, and " + to_string(more) +
                   " are to come; remove files of volumes, or give it more disk"};
}

Result<void> UnfinishedFile::append(std::string_view bytes) {
  if (failure_) return *failure_;
  if (auto space = check_space(Bytes(bytes.size())); !space.ok()) {
    failure_ = space.error();
    return space;
  }
  if (const auto written = write_all(file_.get(), bytes); !written.ok()) {
    // A part of it may be there: the file ends where its digest does.
    if (ftruncate(file_.get(), static_cast<off_t>(size_.count)) != 0) file_.reset();
    if (file_.valid()) lseek(file_.get(), 0, SEEK_END);
    failure_ = written.error().with_context("keep an upload");
    return *failure_;
  }
  digest_.add(bytes);
  size_ += Bytes(bytes.size());
  return {};
}

Result<std::string> UnfinishedFile::finish() {
  if (failure_) return *failure_;
  if (fsync(file_.get()) != 0) return failed("keep an upload");
  return crypto::to_hex(digest_.digest());
}

void UnfinishedFile::remove() {
  unlink(path_.c_str());
  file_.reset();
  size_ = Bytes();
}

}  // namespace lambent::volumes
