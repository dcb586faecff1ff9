// DeviceLink: this process's connection to lambent-device, which shares the link to the device out
// in turns and gives leases of host memory. Without one, or without an answer, moves go on as they
// can. Used only by the agent's thread.
#pragma once

#include <stdint.h>

#include "gpu/shim/abi.h"
#include "gpu/shim/memory_socket.h"

namespace lambent::shim {

enum class Turn {
  kNotYet,
  kGranted,  // done() follows
  kFree,     // the link is not shared out: go on, and say nothing
};

class DeviceLink {
 public:
  // `path` outlives this; null: there is no lambent-device, turns are free and leases refused.
  DeviceLink(const char* path, protocol::MemoryMode mode) : path_(path), mode_(mode) {}
  // A connection beside the process's own, for turns only: what the process has is that one's.
  struct TurnsOnly {};
  DeviceLink(const DeviceLink& own, TurnsOnly)
      : path_(own.path_), mode_(own.mode_), is_turns_only_(true) {}
  DeviceLink(const DeviceLink&) = delete;
  DeviceLink& operator=(const DeviceLink&) = delete;

  bool is_configured() const { return path_ != nullptr; }

  // A row of turns in one direction on one device's link begins: connects again if the daemon was
  // gone.
  void begin(Device device);
  // Connects again where this process has memory of the daemon, which another one does not know of.
  void tell_what_is_held();
  // Asks for the next turn; await_turn() follows until that says that it is there.
  void want(protocol::LinkDirection direction, uint64_t bytes);
  // Waits at most so long. After the longest wait that a turn is worth it is free.
  Turn await_turn(int64_t timeout_ns);
  // A turn that was granted has been used.
  void done(protocol::LinkDirection direction, uint64_t bytes);

  // A descriptor of at most `bytes` of host memory, which is the caller's; -1: none is to be had.
  int lease(uint64_t bytes, uint64_t* got);
  // The caller has released all leases.
  void return_leases();
  // Host memory that is not leased, but counts as if it were; always to be had where there is no
  // lambent-device.
  bool want_offloaded(uint64_t bytes);
  void return_offloaded(uint64_t bytes);

 private:
  bool connect();
  void begin_again();
  protocol::MemoryMessage of_link(protocol::MemoryMessageKind kind,
                                  protocol::LinkDirection direction, uint64_t bytes) const;
  bool await_lease(protocol::MemoryMessageKind wanted, uint64_t bytes, uint64_t* got,
                   int* descriptor);
  // Reads one message; turns that are not waited for any more are handed back.
  Received take(int64_t timeout_ns, protocol::MemoryMessage* message, int* descriptor);

  const char* path_;
  protocol::MemoryMode mode_;
  const bool is_turns_only_ = false;
  MemorySocket socket_;
  uint32_t device_ = 0;      // whose link the row of turns is on
  bool is_silent_ = false;   // it did not answer in this row of turns
  bool is_wanted_ = false;   // a turn was asked for and has not come
  int64_t waited_ns_ = 0;    // for that turn
  uint64_t unanswered_ = 0;  // turns that were taken without an answer, which may still come
  // What this process has, of whichever connection.
  uint64_t leased_bytes_ = 0;
  uint64_t offloaded_bytes_ = 0;
};

}  // namespace lambent::shim
