// Packets: read, given other ends with right checksums, and answered.
#include "node/network/packet.h"

#include <gmock/gmock.h>

namespace lambent::network {
namespace {

End end(const char* address, uint16_t port) { return {*parse_ip_address(address), port}; }

// Of the header of IPv4 and of UDP or TCP: 0 if they are right.
uint16_t sum(std::string_view bytes, uint64_t start = 0) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    start += static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (i % 2 == 0 ? 8 : 0);
  }
  while (start >> 16 != 0) start = (start & 0xffff) + (start >> 16);
  return static_cast<uint16_t>(~start);
}

void expect_right_sums(const std::string& packet) {
  const bool four = (packet[0] & 0xf0) == 0x40;
  const size_t header = four ? 20 : 40;
  const uint8_t protocol = static_cast<uint8_t>(packet[four ? 9 : 6]);
  if (four) {
    EXPECT_EQ(sum(packet.substr(0, header)), 0);
  }
  const std::string ends = packet.substr(four ? 12 : 8, four ? 8 : 32);
  const std::string segment = packet.substr(header);
  if (four && protocol == 1) {
    EXPECT_EQ(sum(segment), 0);
  } else {
    EXPECT_EQ(sum(ends + segment, protocol + segment.size()), 0);
  }
}

// A packet of TCP, made of a reset's, whose checksums are right.
std::string tcp(const End& from, const End& to) {
  PacketHead head;
  head.is_v4 = from.address.is_v4();
  head.transport = Transport::kTcp;
  head.from = to;
  head.to = from;
  head.sequence = 99;
  return write_reset(head);
}

TEST(Packet, UdpIsWrittenAndRead) {
  for (const auto& [from, to] : {std::pair(end("1.2.3.4", 5), end("5.6.7.8", 53)),
                                 std::pair(end("2001:2::2", 5), end("2606::8", 53))}) {
    const std::string packet = write_udp(from, to, "odd");
    expect_right_sums(packet);
    const auto head = read_packet(packet);
    ASSERT_TRUE(head);
    EXPECT_EQ(head->transport, Transport::kUdp);
    EXPECT_EQ(head->from, from);
    EXPECT_EQ(head->to, to);
    EXPECT_EQ(packet.substr(head->payload_at), "odd");
    for (size_t size = 0; size < packet.size(); ++size) {
      EXPECT_FALSE(read_packet(packet.substr(0, size))) << size;
    }
  }
}

TEST(Packet, OtherEndsKeepItsSumsRight) {
  for (const auto& [from, to, other] :
       {std::tuple(end("198.18.0.2", 40000), end("1.1.1.1", 443), end("255.254.253.252", 65535)),
        std::tuple(end("2001:2::2", 40000), end("2606::1", 443), end("ffff:fffe::", 1))}) {
    std::string packet = tcp(from, to);
    expect_right_sums(packet);
    rewrite_ends(packet, *read_packet(packet), other, from);
    expect_right_sums(packet);
    EXPECT_EQ(read_packet(packet)->from, other);
    EXPECT_EQ(read_packet(packet)->to, from);
  }
}

TEST(Packet, AFirstPacketIsRefusedByAResetThatAnswersIt) {
  PacketHead head = *read_packet(tcp(end("198.18.0.2", 40000), end("1.1.1.1", 443)));
  EXPECT_TRUE(head.is_reset);
  EXPECT_EQ(write_reset(head), "");  // a reset is not answered
  head.is_reset = false;
  head.is_ack = false;
  head.sequence = 0xffffffff;
  head.occupies = 1;
  const std::string reset = write_reset(head);
  expect_right_sums(reset);
  const auto answer = read_packet(reset);
  EXPECT_TRUE(answer->is_reset);
  EXPECT_TRUE(answer->is_ack);
  EXPECT_EQ(answer->acknowledged, 0U);
  EXPECT_EQ(answer->from, end("1.1.1.1", 443));
}

TEST(Packet, AnUnreachableHostIsToldByIcmp) {
  for (const auto& [from, to, router] :
       {std::tuple(end("198.18.0.2", 5), end("1.1.1.1", 9), "198.18.0.1"),
        std::tuple(end("2001:2::2", 5), end("2606::1", 9), "2001:2::1")}) {
    const std::string packet = write_udp(from, to, "x");
    const std::string answer =
        write_unreachable(packet, *read_packet(packet), true, *parse_ip_address(router));
    expect_right_sums(answer);
    EXPECT_THAT(answer, testing::EndsWith(packet));
  }
}

TEST(Packet, FragmentsAndMappedAddressesAreNoPackets) {
  std::string packet = write_udp(end("1.2.3.4", 5), end("5.6.7.8", 53), "payload");
  packet[6] = 0x20;
  EXPECT_FALSE(read_packet(packet));
  std::string six = write_udp(end("2001:2::2", 5), end("2606::8", 53), "payload");
  const IpAddress mapped = *parse_ip_address("10.0.0.1");
  std::copy(mapped.bytes.begin(), mapped.bytes.end(), six.begin() + 24);
  EXPECT_FALSE(read_packet(six));
}

}  // namespace
}  // namespace lambent::network
