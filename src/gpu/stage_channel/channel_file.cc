#include "gpu/stage_channel/channel_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "gpu/forward_ring/waiting.h"

namespace lambent::stage_channel {
namespace {

Status system_error(const char* what, const char* path, ErrorText& error) {
  error.set("cannot %s %s: %s", what, path, strerror(errno));
  return Status::kSystem;
}

struct flock lock_of(Role role, short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = role == Role::kSender ? 0 : 1;
  lock.l_len = 1;
  return lock;
}

const char* word_of(Role role) { return role == Role::kSender ? "sender" : "receiver"; }

}  // namespace

Status create_channel(const char* path, uint32_t slots, uint64_t slot_bytes, mode_t mode,
                      ErrorText& error) {
  if (const char* why = refusal_of(slots, slot_bytes)) {
    error.set("cannot make channel %s: %s", path, why);
    return Status::kInvalid;
  }
  const int fd = ::open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return system_error("make channel", path, error);
  const Geometry geometry{slots, slot_bytes};
  struct {
    uint64_t magic;
    uint32_t version, slots;
    uint64_t slot_bytes;
  } const numbers = {kMagic, kLayoutVersion, slots, slot_bytes};
  static_assert(offsetof(Header, slot_bytes) == 16);
  const bool made =
      fchmod(fd, mode) == 0 && ftruncate(fd, static_cast<off_t>(geometry.file_bytes())) == 0 &&
      pwrite(fd, &numbers, sizeof(numbers), 0) == static_cast<ssize_t>(sizeof(numbers));
  Status status = Status::kDone;
  if (!made) {
    status = system_error("make channel", path, error);
    unlink(path);
  }
  ::close(fd);
  return status;
}

Status end_channel(const char* path, ErrorText& error) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return system_error("open channel", path, error);
  const uint32_t ended = 1;
  Status status = Status::kDone;
  if (pwrite(fd, &ended, sizeof(ended), offsetof(Header, ended)) != sizeof(ended)) {
    status = system_error("end channel", path, error);
  }
  ::close(fd);
  return status;
}

Status ChannelFile::open(const char* path, Role role, ErrorText& error) {
  fd_ = ::open(path, O_RDWR | O_CLOEXEC);
  if (fd_ < 0) return system_error("open channel", path, error);
  struct stat status = {};
  if (fstat(fd_, &status) != 0) return system_error("look at channel", path, error);
  if (!S_ISREG(status.st_mode) || status.st_size < static_cast<off_t>(sizeof(Header))) {
    error.set("%s is not a stage channel", path);
    return Status::kMalformed;
  }
  Header header;
  if (pread(fd_, static_cast<void*>(&header), sizeof(header), 0) != sizeof(header)) {
    return system_error("read channel", path, error);
  }
  const auto file_bytes = static_cast<uint64_t>(status.st_size);
  if (const char* why = read_geometry(header, file_bytes, geometry_)) {
    error.set("cannot use channel %s: %s", path, why);
    return Status::kMalformed;
  }
  struct flock lock = lock_of(role, F_WRLCK);
  if (fcntl(fd_, F_OFD_SETLK, &lock) != 0) {
    if (errno != EAGAIN && errno != EACCES) return system_error("lock channel", path, error);
    error.set("channel %s has a %s already", path, word_of(role));
    return Status::kInvalid;
  }
  void* address = mmap(nullptr, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (address == MAP_FAILED) return system_error("map channel", path, error);
  base_ = static_cast<char*>(address);
  role_ = role;
  auto& came = role == Role::kSender ? this->header().sender_came : this->header().receiver_came;
  if (came.exchange(1) != 0) {
    error.set("channel %s had a %s, which is gone", path, word_of(role));
    munmap(base_, file_bytes);
    base_ = nullptr;
    return Status::kInvalid;
  }
  return Status::kDone;
}

void ChannelFile::close() {
  if (base_ != nullptr) {
    Header& shared = header();
    if (role_ == Role::kSender) {
      shared.sender_left.store(1, std::memory_order_release);
      forward_ring::wake(shared.receiver_sleeps);
    } else {
      shared.receiver_left.store(1, std::memory_order_release);
      forward_ring::wake(shared.sender_sleeps);
    }
    munmap(base_, geometry_.file_bytes());
    base_ = nullptr;
  }
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool ChannelFile::peer_is_gone() const {
  const Role peer = role_ == Role::kSender ? Role::kReceiver : Role::kSender;
  const Header& shared = header();
  const auto& came = peer == Role::kSender ? shared.sender_came : shared.receiver_came;
  const auto& left = peer == Role::kSender ? shared.sender_left : shared.receiver_left;
  if (left.load(std::memory_order_acquire) != 0) return true;
  if (came.load(std::memory_order_acquire) == 0) return false;
  // It took the lock before it said that it came, and loses it only with its life.
  struct flock lock = lock_of(peer, F_WRLCK);
  return fcntl(fd_, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

}  // namespace lambent::stage_channel
