// The gate: what a list opens, what it never opens, and for how long a name does.
#include "node/network/gate.h"
#include "node/network/limits.h"

#include <gmock/gmock.h>

namespace lambent::network {
namespace {

constexpr Instant kStart{};

Gate gate(const char* access, const char* bounds) {
  return {*parse_network_access(access), *parse_network_bounds(bounds)};
}

std::string refusal(const Gate& gate, const char* address, uint16_t port, Route route = Route::kOut,
                    Instant now = kStart) {
  return gate.refuse(*parse_ip_address(address), port, route, now).value_or("");
}

TEST(Gate, OutboundIsEveryPublicAddressAndNoOpenedOne) {
  const Gate all = gate("outbound", "public,10.1.2.0/24");
  EXPECT_EQ(refusal(all, "1.1.1.1", 1), "");
  EXPECT_EQ(refusal(all, "2606:2800::1", 65535), "");
  EXPECT_EQ(refusal(all, "10.1.2.3", 1), "not in the function's network list");
  EXPECT_EQ(refusal(all, "10.1.3.3", 1), "a private range, which is closed");
}

TEST(Gate, AHostIsOpenByItsAddressAndPort) {
  const Gate one = gate("10.1.2.3:5432,1.1.1.0/24:80-90", "public,10.1.2.0/24");
  EXPECT_EQ(refusal(one, "10.1.2.3", 5432), "");
  EXPECT_EQ(refusal(one, "::ffff:10.1.2.3", 5432), "");
  EXPECT_EQ(refusal(one, "1.1.1.9", 90), "");
  EXPECT_NE(refusal(one, "1.1.1.9", 91), "");
  EXPECT_NE(refusal(one, "10.1.2.4", 5432), "");
  EXPECT_NE(refusal(one, "10.1.2.3", 5433), "");
}

TEST(Gate, WhatTheOperatorClosedStaysClosedWhateverAListSays) {
  const Gate closed = gate("10.1.2.3:80,1.1.1.1:80,outbound", "10.9.0.0/16");
  EXPECT_NE(refusal(closed, "10.1.2.3", 80), "");
  EXPECT_EQ(refusal(closed, "1.1.1.1", 80), "outside of what the worker opens");
}

TEST(Gate, TheHostItselfIsOpenOnlyIfItsAddressIsNamedAlone) {
  EXPECT_EQ(refusal(gate("outbound", "public"), "1.1.1.1", 80, Route::kOwn),
            "an address of the host itself");
  EXPECT_NE(refusal(gate("10.1.2.1:80", "10.1.2.0/24"), "10.1.2.1", 80, Route::kOwn), "");
  EXPECT_EQ(refusal(gate("10.1.2.1:80", "10.1.2.1"), "10.1.2.1", 80, Route::kOwn), "");
  EXPECT_NE(refusal(gate("outbound", "public"), "1.1.1.255", 80, Route::kBroadcast), "");
}

TEST(Gate, ANameOpensItsAddressesOnItsPortsForAWhile) {
  Gate named = gate("api.example.org:443,*.example.net:80", "public,10.1.2.0/24");
  EXPECT_TRUE(named.may_ask("api.example.org"));
  EXPECT_TRUE(named.may_ask("a.example.net"));
  EXPECT_FALSE(named.may_ask("example.net"));
  const IpAddress address = *parse_ip_address("1.1.1.1");
  EXPECT_NE(refusal(named, "1.1.1.1", 443), "");
  EXPECT_EQ(named.learn("api.example.org", address, seconds(100), kStart), seconds(100));
  EXPECT_EQ(refusal(named, "1.1.1.1", 443), "");
  EXPECT_NE(refusal(named, "1.1.1.1", 80), "");  // of the other name
  EXPECT_EQ(refusal(named, "1.1.1.1", 443, Route::kOut, kStart + seconds(99)), "");
  EXPECT_NE(refusal(named, "1.1.1.1", 443, Route::kOut, kStart + seconds(100)), "");
  named.learn("a.example.net", address, seconds(0), kStart);
  EXPECT_EQ(refusal(named, "1.1.1.1", 80, Route::kOut, kStart + seconds(29)), "");
}

TEST(Gate, AnAnswerLeadsToNoClosedAddress) {
  const Gate named = gate("api.example.org:443", "public,10.1.2.0/24");
  const auto answer = [&named](const char* address, Route route = Route::kOut) {
    return named.refuse_answer(*parse_ip_address(address), route).value_or("");
  };
  EXPECT_EQ(answer("1.1.1.1"), "");
  EXPECT_EQ(answer("10.1.2.3"), "");
  EXPECT_NE(answer("10.1.3.3"), "");
  EXPECT_NE(answer("127.0.0.1"), "");
  EXPECT_NE(answer("1.1.1.1", Route::kOwn), "");
}

TEST(Gate, RemembersABoundedNumberOfAddresses) {
  Gate named = gate("*.example.org:443", "public");
  for (uint32_t i = 0; i < limits::kNetworkNames + 100; ++i) {
    named.learn("a.example.org", IpAddress::v4(0x01010000 + i), seconds(60 + i), kStart);
  }
  EXPECT_EQ(named.known_names(), limits::kNetworkNames);
  EXPECT_NE(refusal(named, "1.1.0.0", 443), "");  // the one that would have ended first
}

}  // namespace
}  // namespace lambent::network
