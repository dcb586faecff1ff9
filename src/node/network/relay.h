// Relay: the way out of one sandbox. Takes the packets of its network device, and for each
// connection that its Gate lets pass makes one from this process's own network; the bytes of both
// are copied. Questions about names are answered here. Used on one loop's thread.
//
// The program's first packet waits until the connection outside is there, so that connect()
// inside says what it would say outside. Then the packets of the program's side are handed back to
// the sandbox's kernel with other ends, those of a listener of ours inside: that kernel does all of
// TCP, and we have the accepted socket.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/loop/event_loop.h"
#include "node/network/gate.h"
#include "node/network/name_message.h"
#include "node/network/packet.h"
#include "node/network/refusals.h"

namespace lambent::network {

// What lies inside the sandbox, made there. Non-blocking.
struct InnerSockets {
  OwnedFd device;  // a packet with each read and write
  OwnedFd listener_v4;
  OwnedFd listener_v6;  // invalid: the sandbox has no IPv6
};

struct RelayOptions {
  NetworkAccess access;
  NetworkBounds bounds;
  std::vector<End> name_servers;
  std::function<Route(const IpAddress&)> route_of;
  std::function<uint16_t()> random;  // for the ids of questions
};

class Relay {
 public:
  Relay(loop::EventLoop& loop, RelayOptions options, InnerSockets inner, OwnedFd refusals);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  size_t connections() const { return open_; }

 private:
  enum class Stage { kConnecting, kOpening, kOpen, kEnded };
  // From one socket to the other; `rest` is what was read and has no room there.
  struct Direction {
    std::string rest;
    bool ended = false;  // nothing more comes, and the other side was told
  };
  struct Flow {
    Stage stage = Stage::kConnecting;
    uint16_t port = 0;  // that stands for the program's end and the destination, inside
    End program;
    End destination;
    std::string first_packet;
    OwnedFd inner, outer;
    loop::Watch inner_watch, outer_watch;
    Direction out, in;
    loop::TimerId timer;
    Instant ended_at{};
  };
  struct Question {
    NameQuestion asked;
    End program;
    End server_inside;
    uint16_t id = 0;
    size_t tries = 0;
    OwnedFd socket;
    loop::Watch watch;
    loop::TimerId timer;
  };

  void read_device();
  void take(std::string_view packet);
  void take_tcp(std::span<char> packet, const PacketHead& head);
  void take_udp(std::string_view packet, const PacketHead& head);
  void write_device(std::string_view packet);
  const IpAddress& router(bool four) const { return four ? router_v4_ : router_v6_; }

  void begin(std::string_view packet, const PacketHead& head);
  Flow& add_flow(const PacketHead& head);
  void outer_ready(uint16_t port);
  void refuse_connection(Flow& flow, int error_number);
  void accept_inner(bool four);
  void pump(uint16_t port);
  // False: the connection is broken.
  bool move(int from, int to, Direction& direction);
  void watch_both(Flow& flow);
  void end(Flow& flow, bool broken);
  void forget_ended();

  void ask(const PacketHead& head, std::string_view payload);
  void try_server(uint64_t number);
  void hear_server(uint64_t number);
  void answer(uint64_t number, NameOutcome outcome, const std::vector<NamedAddress>& addresses);

  loop::EventLoop& loop_;
  RelayOptions options_;
  Gate gate_;
  InnerSockets inner_;
  Refusals refusals_;
  const IpAddress router_v4_;
  const IpAddress router_v6_;
  End listener_v4_, listener_v6_;
  std::vector<char> buffer_;
  std::map<uint16_t, std::unique_ptr<Flow>> flows_;
  std::map<std::pair<End, End>, uint16_t> by_ends_;
  uint16_t next_port_;
  size_t open_ = 0;  // flows that have not ended
  std::map<uint64_t, std::unique_ptr<Question>> questions_;
  uint64_t next_question_ = 1;
  loop::Watch device_watch_, v4_watch_, v6_watch_;
  loop::TimerId forget_timer_;
};

}  // namespace lambent::network
