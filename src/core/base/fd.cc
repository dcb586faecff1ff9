#include "core/base/fd.h"

#include <fcntl.h>
#include <libgen.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace lambent {
namespace {

Result<void> sync_folder_of(const std::string& path) {
  std::string copy = path;
  const char* folder = dirname(copy.data());
  OwnedFd fd(open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return error_from_errno(std::string("open ") + folder, errno);
  if (fsync(fd.get()) != 0) return error_from_errno(std::string("fsync ") + folder, errno);
  return {};
}

}  // namespace

void OwnedFd::reset() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

Result<void> write_all(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t written = write(fd, data.data(), data.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return error_from_errno("write", errno);
    }
    data.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Result<std::string> read_file(const std::string& path, size_t limit) {
  OwnedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return error_from_errno("open " + path, errno);
  std::string content;
  char buffer[65536];
  while (true) {
    const ssize_t got = read(fd.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error_from_errno("read " + path, errno);
    if (got == 0) return content;
    if (content.size() + static_cast<size_t>(got) > limit) {
      return Error{ErrorCode::kResourceExhausted,
                   path + " is larger than " + std::to_string(limit) + " bytes"};
    }
    content.append(buffer, static_cast<size_t>(got));
  }
}

Result<void> write_file_atomically(const std::string& path, std::string_view data, bool sync) {
  struct stat there {};
  if (stat(path.c_str(), &there) == 0 && (S_ISFIFO(there.st_mode) || S_ISCHR(there.st_mode))) {
    OwnedFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!fd.valid()) return error_from_errno("open " + path, errno);
    const auto written = write_all(fd.get(), data);
    if (!written.ok()) return written.error().with_context(path);
    return {};
  }
  const std::string temporary = path + ".new";
  OwnedFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return error_from_errno("create " + temporary, errno);
  auto written = write_all(fd.get(), data);
  if (!written.ok()) written = written.error().with_context(temporary);
  if (written.ok() && sync && fsync(fd.get()) != 0) {
    written = error_from_errno("fsync " + temporary, errno);
  }
  if (written.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    written = error_from_errno("rename to " + path, errno);
  }
  if (!written.ok()) {
    unlink(temporary.c_str());
    return written;
  }
  return sync ? sync_folder_of(path) : Result<void>{};
}

}  // namespace lambent
