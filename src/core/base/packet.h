// Packets: messages of SOCK_SEQPACKET Unix sockets and the descriptors that travel with them.
// Functions over descriptors; used by every module whose processes talk to each other.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"

namespace lambent {

constexpr size_t kMostPacketFds = 160;

// Sends one message. RESOURCE_EXHAUSTED if a non-blocking socket has no room; UNAVAILABLE if the
// other end is gone.
Result<void> send_packet(int socket, std::string_view bytes, std::span<const int> fds = {});

struct Packet {
  size_t size = 0;         // bytes written into the buffer
  bool truncated = false;  // the message or its descriptors were longer than there was room for
  bool lost_fds = false;   // only descriptors: the process has no room for more, or too many came
  std::vector<OwnedFd> fds;
};

// None: nothing there yet (non-blocking). UNAVAILABLE: the other end is gone.
Result<std::optional<Packet>> receive_packet(int socket, std::span<char> buffer);

// A listening, non-blocking socket at `path`, which may be of any length; what lay there is
// replaced. `mode` is who may connect.
Result<OwnedFd> listen_packets(const std::string& path, unsigned mode);

}  // namespace lambent
