// MemorySocket: one of the connections on which a process is told to move its device memory
// (core/protocol/memory_message.h). Used by one thread at a time.
#pragma once

#include <sys/types.h>

#include "core/protocol/memory_message.h"

namespace lambent::shim {

enum class Received { kMessage, kNothingYet, kClosed };

class MemorySocket {
 public:
  MemorySocket() = default;
  MemorySocket(const MemorySocket&) = delete;
  MemorySocket& operator=(const MemorySocket&) = delete;
  ~MemorySocket() { shut(); }

  // Connects. Zero, or the error: EAGAIN if it took too long, for the listener takes no peer in.
  int open(const char* path);
  // The same connection once more, to send on; false if that cannot be.
  bool copy(const MemorySocket& other);
  void shut();
  bool is_open() const { return fd_ >= 0 && is_still_ours(); }
  // Whether the last connection ended because the program closed its descriptor.
  bool was_taken_away() const { return was_taken_away_; }
  // False if the other side is gone; the socket is then shut.
  bool send(const protocol::MemoryMessage& message);
  // Waits at most so long, or for ever if it is negative. A descriptor that came along is the
  // caller's; -1 if none did. What is no message of the protocol is passed over.
  Received receive(int64_t timeout_ns, protocol::MemoryMessage* message, int* descriptor);

 private:
  bool make();
  // The descriptor, and one of the file that it stands for, or will.
  void take(int fd, int like);
  // A program may close descriptors that it knows nothing of, and then open its own.
  bool is_still_ours() const;

  int fd_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  bool was_taken_away_ = false;
};

}  // namespace lambent::shim
