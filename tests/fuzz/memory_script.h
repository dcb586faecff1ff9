// What processes of a sandbox may do to a socket for memory messages, as a script of bytes: four
// for each deed. Used by the fuzz targets of both ends that such sockets have.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "core/base/packet.h"
#include "core/protocol/memory_codec.h"

namespace lambent {

enum class Deed : uint8_t { kConnect, kClose, kMessage, kGarbage, kDescriptor, kOther, kWait };
constexpr size_t kDeeds = 7;

struct ScriptStep {
  size_t client = 0;
  Deed deed = Deed::kConnect;
  uint8_t first = 0, second = 0, third = 0;
};

inline ScriptStep step_of(std::span<const uint8_t, 4> bytes) {
  return {bytes[0] % size_t{4}, static_cast<Deed>(bytes[0] / 4 % kDeeds), bytes[1], bytes[2],
          bytes[3]};
}

inline protocol::MemoryMessage message_of(const ScriptStep& step, uint64_t sequence) {
  constexpr uint16_t kKinds[] = {1,  2,  3,  4,  5,  6,  7,  32, 33, 34,
                                 35, 36, 37, 38, 39, 40, 41, 64, 65};
  protocol::MemoryMessage message;
  message.kind = static_cast<protocol::MemoryMessageKind>(kKinds[step.first % std::size(kKinds)]);
  constexpr uint64_t kLarge[] = {~uint64_t{0}, uint64_t{1} << 63, ~uint64_t{0} << 21};
  message.bytes = step.second < 250 ? uint64_t{step.second} << 21 : kLarge[step.second % 3];
  message.left_bytes = message.offloaded_bytes = message.bytes;
  message.sequence = step.third % 4 == 0 ? step.third : sequence;
  message.status = step.third % 6;
  message.direction = step.third % 2;
  message.mode = step.third % 3;
  message.device = step.third / 64;  // of two that there are, and two that there are not
  return message;
}

// Up to four processes; none of them ever reads.
class ScriptedClients {
 public:
  explicit ScriptedClients(std::string path) : path_(std::move(path)) {}

  // kOther and kWait are the caller's.
  void act(const ScriptStep& step, uint64_t sequence) {
    OwnedFd& client = clients_[step.client];
    if (step.deed == Deed::kConnect || !client.valid()) client = connect_once();
    if (step.deed == Deed::kClose) client.reset();
    if (!client.valid()) return;
    const protocol::MemoryMessage message = message_of(step, sequence);
    const std::string garbage(step.first + size_t{1}, static_cast<char>(step.second));
    const int fds[] = {STDERR_FILENO};
    if (step.deed == Deed::kMessage) (void)send_packet(client.get(), bytes_of(message));
    if (step.deed == Deed::kGarbage) (void)send_packet(client.get(), garbage);
    if (step.deed == Deed::kDescriptor) (void)send_packet(client.get(), bytes_of(message), fds);
  }
  void close_all() {
    for (OwnedFd& client : clients_) client.reset();
  }
  OwnedFd connect_once() const {
    OwnedFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) fd.reset();
    return fd;
  }

 private:
  const std::string path_;
  std::array<OwnedFd, 4> clients_;
};

}  // namespace lambent
