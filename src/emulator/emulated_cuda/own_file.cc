#include "emulator/emulated_cuda/own_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace lambent::emulated_cuda {

bool is_own(const struct stat& status) {
  return status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::optional<std::string> read_own_file(const std::string& path, uint64_t most_bytes,
                                         Reach reach) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  struct stat status {};
  const bool is_good = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
                       status.st_uid == geteuid() && (reach == Reach::kOwner || is_own(status)) &&
                       static_cast<uint64_t>(status.st_size) <= most_bytes;
  std::string bytes(is_good ? static_cast<size_t>(status.st_size) : 0, '\0');
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t got = read(fd, bytes.data() + at, bytes.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    at += static_cast<size_t>(got);
  }
  if (is_good) futimens(fd, nullptr);
  close(fd);
  if (!is_good || at != bytes.size()) return std::nullopt;
  return bytes;
}

}  // namespace lambent::emulated_cuda
