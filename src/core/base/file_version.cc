#include "core/base/file_version.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

namespace lambent {
namespace {

FileVersion version_in(const struct stat& status) {
  return {.size_bytes = status.st_size,
          .modified_ns = status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
}

}  // namespace

Result<FileToRead> open_to_read(const std::string& path) {
  OwnedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!fd.valid() || fstat(fd.get(), &status) != 0) return error_from_errno("open " + path, errno);
  if (S_ISDIR(status.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, path + " is a folder: name one of its files"};
  }
  return FileToRead{std::move(fd), version_in(status), S_ISREG(status.st_mode)};
}

Result<FileVersion> version_of(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return error_from_errno("fstat", errno);
  return version_in(status);
}

}  // namespace lambent
