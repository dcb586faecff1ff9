// OwnedFd: a file descriptor that closes itself. A resource; used by every module that opens one.
#pragma once

#include <string_view>
#include <utility>

#include "core/base/result.h"

namespace lambent {

class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~OwnedFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset();

 private:
  int fd_ = -1;
};

// Writes all of `data`, going on after short writes and EINTR.
Result<void> write_all(int fd, std::string_view data);
// Reads a whole file, at most `limit` bytes; RESOURCE_EXHAUSTED above that.
Result<std::string> read_file(const std::string& path, size_t limit);
// Writes a new file, renamed into place (pipes and devices: as they are); `sync`: durable by then.
Result<void> write_file_atomically(const std::string& path, std::string_view data, bool sync);

}  // namespace lambent
