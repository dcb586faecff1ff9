// Packets as the sandbox's network device hands them over: IP with TCP, UDP and little else. Read,
// given other ends, and answered. Pure; any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/domain/ip_address.h"

namespace lambent::network {

struct End {
  IpAddress address;
  uint16_t port = 0;

  auto operator<=>(const End&) const = default;
};

std::string to_string(const End& end);  // 10.1.2.3:80, [fd00::5]:80

enum class Transport { kTcp, kUdp, kOther };

struct PacketHead {
  bool is_v4 = true;
  Transport transport = Transport::kOther;
  End from;
  End to;
  size_t transport_at = 0;  // where the header of TCP or UDP begins
  size_t payload_at = 0;
  // Of TCP.
  bool is_syn = false;  // the first of a connection: SYN without ACK
  bool is_ack = false;
  bool is_reset = false;
  uint32_t sequence = 0;
  uint32_t acknowledged = 0;
  uint32_t occupies = 0;  // sequence numbers: its payload, SYN and FIN
};

// None: not a whole packet of IP, or one of a form that nothing in a sandbox has reason to send
// (fragments, addresses of IPv4 in IPv6).
std::optional<PacketHead> read_packet(std::string_view packet);

// Gives a TCP packet other ends, its checksums as well. `head` is that of the packet as it is.
void rewrite_ends(std::span<char> packet, const PacketHead& head, const End& from, const End& to);

// What a closed port answers to a TCP packet: a reset. None to a reset.
std::string write_reset(const PacketHead& head);

// What a router answers that cannot deliver a packet: ICMP. `closed`: the port is; otherwise the
// host cannot be reached. From `router`, of the packet's family.
std::string write_unreachable(std::string_view packet, const PacketHead& head, bool closed,
                              const IpAddress& router);

// A UDP packet.
std::string write_udp(const End& from, const End& to, std::string_view payload);

}  // namespace lambent::network
