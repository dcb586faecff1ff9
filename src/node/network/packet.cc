#include "node/network/packet.h"

#include <algorithm>
#include <cstring>

namespace lambent::network {
namespace {

constexpr uint8_t kIcmp = 1;
constexpr uint8_t kTcp = 6;
constexpr uint8_t kUdp = 17;
constexpr uint8_t kIcmpV6 = 58;
constexpr uint8_t kHops = 64;
constexpr size_t kV4Header = 20;
constexpr size_t kV6Header = 40;
constexpr size_t kTcpHeader = 20;
constexpr size_t kUdpHeader = 8;
constexpr uint8_t kFin = 1, kSyn = 2, kReset = 4, kAck = 16;
// Of the packet that is answered: as much as fits the smallest packet that all hosts take.
constexpr size_t kQuoted = 512;

uint8_t byte_at(std::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

uint16_t get16(std::string_view bytes, size_t at) {
  return static_cast<uint16_t>(byte_at(bytes, at) << 8 | byte_at(bytes, at + 1));
}

uint32_t get32(std::string_view bytes, size_t at) {
  return static_cast<uint32_t>(get16(bytes, at)) << 16 | get16(bytes, at + 2);
}

void set16(char* to, uint16_t number) {
  to[0] = static_cast<char>(number >> 8);
  to[1] = static_cast<char>(number & 0xff);
}

void set32(char* to, uint32_t number) {
  set16(to, static_cast<uint16_t>(number >> 16));
  set16(to + 2, static_cast<uint16_t>(number & 0xffff));
}

// The checksum of the internet (RFC 1071), before it is folded.
uint64_t sum_of(std::string_view bytes, uint64_t sum = 0) {
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) sum += get16(bytes, i);
  if (bytes.size() % 2 != 0) sum += static_cast<uint64_t>(byte_at(bytes, bytes.size() - 1)) << 8;
  return sum;
}

uint16_t folded(uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

std::string_view bytes_of(const IpAddress& address, bool four) {
  const auto* bytes = reinterpret_cast<const char*>(address.bytes.data());
  return four ? std::string_view(bytes + 12, 4) : std::string_view(bytes, 16);
}

// The checksum of a transport's segment between two ends, with its own field zero.
uint16_t transport_sum(const End& from, const End& to, bool four, uint8_t protocol,
                       std::string_view segment) {
  uint64_t sum = sum_of(bytes_of(from.address, four));
  sum = sum_of(bytes_of(to.address, four), sum);
  sum = sum_of(segment, sum + protocol + segment.size());
  return static_cast<uint16_t>(~folded(sum));
}

std::string with_ip_header(const IpAddress& from, const IpAddress& to, uint8_t protocol,
                           const std::string& payload) {
  const bool four = from.is_v4();
  std::string packet(four ? kV4Header : kV6Header, '\0');
  char* const header = packet.data();
  if (four) {
    header[0] = 0x45;
    set16(header + 2, static_cast<uint16_t>(kV4Header + payload.size()));
    header[6] = 0x40;  // not to be cut
    header[8] = kHops;
    header[9] = static_cast<char>(protocol);
    std::ranges::copy(bytes_of(from, true), header + 12);
    std::ranges::copy(bytes_of(to, true), header + 16);
    set16(header + 10, static_cast<uint16_t>(~folded(sum_of(packet))));
  } else {
    header[0] = 0x60;
    set16(header + 4, static_cast<uint16_t>(payload.size()));
    header[6] = static_cast<char>(protocol);
    header[7] = kHops;
    std::ranges::copy(bytes_of(from, false), header + 8);
    std::ranges::copy(bytes_of(to, false), header + 24);
  }
  return packet + payload;
}

bool read_ip_v4(std::string_view packet, PacketHead& head, uint8_t& protocol, size_t& end) {
  if (packet.size() < kV4Header) return false;
  const size_t header = (byte_at(packet, 0) & 0xfU) * 4;
  end = get16(packet, 2);
  const bool is_fragment = (get16(packet, 6) & 0x3fff) != 0;
  if (header < kV4Header || end < header || end > packet.size() || is_fragment) return false;
  protocol = byte_at(packet, 9);
  head.from.address = IpAddress::v4(get32(packet, 12));
  head.to.address = IpAddress::v4(get32(packet, 16));
  head.transport_at = header;
  return true;
}

bool read_ip_v6(std::string_view packet, PacketHead& head, uint8_t& protocol, size_t& end) {
  if (packet.size() < kV6Header) return false;
  end = kV6Header + get16(packet, 4);
  if (end > packet.size()) return false;
  protocol = byte_at(packet, 6);  // one with extension headers is of no transport that we know
  head.from.address = IpAddress::v6(packet.data() + 8);
  head.to.address = IpAddress::v6(packet.data() + 24);
  head.transport_at = kV6Header;
  return !head.from.address.is_v4() && !head.to.address.is_v4();
}

bool read_tcp(std::string_view packet, size_t end, PacketHead& head) {
  const size_t at = head.transport_at;
  if (end - at < kTcpHeader) return false;
  const size_t header = (byte_at(packet, at + 12) >> 4) * 4U;
  if (header < kTcpHeader || header > end - at) return false;
  const uint8_t flags = byte_at(packet, at + 13);
  head.transport = Transport::kTcp;
  head.payload_at = at + header;
  head.sequence = get32(packet, at + 4);
  head.acknowledged = get32(packet, at + 8);
  head.is_ack = (flags & kAck) != 0;
  head.is_reset = (flags & kReset) != 0;
  head.is_syn = (flags & (kSyn | kAck | kReset)) == kSyn;
  head.occupies = static_cast<uint32_t>(end - head.payload_at) + ((flags & kSyn) != 0 ? 1 : 0) +
                  ((flags & kFin) != 0 ? 1 : 0);
  return true;
}

}  // namespace

std::string to_string(const End& end) {
  const std::string port = ":" + std::to_string(end.port);
  if (end.address.is_v4()) return lambent::to_string(end.address) + port;
  return "[" + lambent::to_string(end.address) + "]" + port;
}

std::optional<PacketHead> read_packet(std::string_view packet) {
  if (packet.empty()) return std::nullopt;
  PacketHead head;
  uint8_t protocol = 0;
  size_t end = 0;
  const unsigned version = byte_at(packet, 0) >> 4;
  head.is_v4 = version == 4;
  const bool read = version == 4   ? read_ip_v4(packet, head, protocol, end)
                    : version == 6 ? read_ip_v6(packet, head, protocol, end)
                                   : false;
  if (!read) return std::nullopt;
  head.payload_at = head.transport_at;
  if (protocol != kTcp && protocol != kUdp) return head;
  if (end - head.transport_at < kUdpHeader) return std::nullopt;
  head.from.port = get16(packet, head.transport_at);
  head.to.port = get16(packet, head.transport_at + 2);
  if (protocol == kTcp) {
    if (!read_tcp(packet, end, head)) return std::nullopt;
    return head;
  }
  head.transport = Transport::kUdp;
  head.payload_at = head.transport_at + kUdpHeader;
  return head;
}

void rewrite_ends(std::span<char> packet, const PacketHead& head, const End& from, const End& to) {
  const bool four = head.is_v4;
  char* const ip = packet.data();
  char* const tcp = ip + head.transport_at;
  // RFC 1624: the checksum changes by what its words change by.
  uint64_t change = 0;
  const auto replace = [&change](char* place, std::string_view with) {
    for (size_t i = 0; i < with.size(); i += 2) {
      change += static_cast<uint16_t>(~get16({place, with.size()}, i));
      change += get16(with, i);
    }
    std::ranges::copy(with, place);
  };
  replace(ip + (four ? 12 : 8), bytes_of(from.address, four));
  replace(ip + (four ? 16 : 24), bytes_of(to.address, four));
  const auto apply = [&change](char* place) {
    const auto old = static_cast<uint16_t>(~get16({place, 2}, 0));
    set16(place, static_cast<uint16_t>(~folded(old + change)));
  };
  if (four) apply(ip + 10);
  char ports[4];
  set16(ports, from.port);
  set16(ports + 2, to.port);
  replace(tcp, {ports, sizeof(ports)});
  apply(tcp + 16);
}

std::string write_reset(const PacketHead& head) {
  if (head.is_reset || head.transport != Transport::kTcp) return {};
  std::string segment(kTcpHeader, '\0');
  char* const tcp = segment.data();
  set16(tcp, head.to.port);
  set16(tcp + 2, head.from.port);
  // RFC 9293, 3.10.7.1.
  if (head.is_ack) {
    set32(tcp + 4, head.acknowledged);
    tcp[13] = kReset;
  } else {
    set32(tcp + 8, head.sequence + head.occupies);
    tcp[13] = kReset | kAck;
  }
  tcp[12] = static_cast<char>((kTcpHeader / 4) << 4);
  set16(tcp + 16, transport_sum(head.to, head.from, head.is_v4, kTcp, segment));
  return with_ip_header(head.to.address, head.from.address, kTcp, segment);
}

std::string write_unreachable(std::string_view packet, const PacketHead& head, bool closed,
                              const IpAddress& router) {
  std::string message(8, '\0');
  if (head.is_v4) {
    message[0] = 3;
    message[1] = closed ? 3 : 1;
  } else {
    message[0] = 1;
    message[1] = closed ? 4 : 3;
  }
  message += packet.substr(0, kQuoted);
  const End from{router, 0}, to{head.from.address, 0};
  const uint16_t sum = head.is_v4 ? static_cast<uint16_t>(~folded(sum_of(message)))
                                  : transport_sum(from, to, false, kIcmpV6, message);
  set16(message.data() + 2, sum);
  return with_ip_header(from.address, to.address, head.is_v4 ? kIcmp : kIcmpV6, message);
}

std::string write_udp(const End& from, const End& to, std::string_view payload) {
  std::string segment(kUdpHeader, '\0');
  set16(segment.data(), from.port);
  set16(segment.data() + 2, to.port);
  set16(segment.data() + 4, static_cast<uint16_t>(kUdpHeader + payload.size()));
  segment += payload;
  const uint16_t sum = transport_sum(from, to, from.address.is_v4(), kUdp, segment);
  set16(segment.data() + 6, sum == 0 ? 0xffff : sum);
  return with_ip_header(from.address, to.address, kUdp, segment);
}

}  // namespace lambent::network
