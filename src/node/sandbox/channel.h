// Channel: one end of a SOCK_SEQPACKET socket pair that carries messages and file descriptors.
// A resource; each process uses its own end from one thread.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "node/sandbox/message.h"

namespace lambent::sandbox {

struct Envelope {
  Message message;
  // At most limits::kSandboxSources + 4: what a plan shows, and what it is started with. None if
  // this process could not open all of them: the message counts without.
  std::vector<OwnedFd> fds;
};

class Channel {
 public:
  Channel() = default;
  explicit Channel(OwnedFd fd) : fd_(std::move(fd)) {}
  // Both ends close on exec and block; the buffers hold a whole plan.
  static Result<std::pair<Channel, Channel>> make_pair();

  int fd() const { return fd_.get(); }
  OwnedFd release() { return std::move(fd_); }
  bool valid() const { return fd_.valid(); }
  void set_blocking(bool blocking);
  void close() { fd_.reset(); }

  // RESOURCE_EXHAUSTED if a non-blocking end has no room; UNAVAILABLE if the other end is gone.
  Result<void> send(const Message& message, const std::vector<int>& fds = {});

  // None: nothing there yet (non-blocking). UNAVAILABLE: the other end is gone. INVALID_ARGUMENT:
  // what came is no message.
  Result<std::optional<Envelope>> receive();

 private:
  OwnedFd fd_;
};

}  // namespace lambent::sandbox
