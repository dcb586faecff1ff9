#include "edge/frontend/trusted_proxies.h"

#include <gmock/gmock.h>

namespace lambent::frontend {
namespace {

http::Request from(const std::string& peer,
                   const std::vector<std::pair<std::string, std::string>>& fields) {
  http::Request request;
  request.headers.add("Host", "worker:8980");
  for (const auto& [name, value] : fields) request.headers.add(name, value);
  request.peer.address = peer;
  return request;
}

TrustedProxies proxies(const std::vector<std::string>& texts) {
  return *TrustedProxies::parse(texts);
}

TEST(TrustedProxies, AreAddressesRangesAndTheUnixSocket) {
  const TrustedProxies some = proxies({"10.0.0.0/8", "::1", "192.0.2.7"});
  for (const char* address : {"10.1.2.3:9", "[::1]:9", "192.0.2.7:1"}) {
    EXPECT_TRUE(some.trusts(from(address, {}).peer)) << address;
  }
  for (const char* address : {"11.0.0.1:9", "[::2]:9", "192.0.2.8:1", ""}) {
    EXPECT_FALSE(some.trusts(from(address, {}).peer)) << address;
  }
  http::Peer socket{
      .transport = http::Transport::kUnix, .user = 0, .address = "", .certificate = {}};
  EXPECT_FALSE(some.trusts(socket));
  EXPECT_TRUE(proxies({"unix"}).trusts(socket));
  EXPECT_FALSE(proxies({"unix"}).trusts(from("127.0.0.1:1", {}).peer));
  for (const char* text : {"", "proxy", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0:80"}) {
    EXPECT_EQ(TrustedProxies::parse({text}).error().code, ErrorCode::kInvalidArgument) << text;
  }
}

TEST(TrustedProxies, WhoIsNotTrustedIsNotBelieved) {
  const ClientView view = client_view(from("192.0.2.1:9", {{"X-Forwarded-For", "198.51.100.1"},
                                                           {"X-Forwarded-Proto", "https"},
                                                           {"X-Forwarded-Host", "evil.example"},
                                                           {"X-Forwarded-Prefix", "/x"}}),
                                      "/f/web", proxies({"10.0.0.0/8"}));
  EXPECT_EQ(view.address, "192.0.2.1:9");
  EXPECT_EQ(view.protocol, "http");
  EXPECT_EQ(view.host, "worker:8980");
  EXPECT_EQ(view.prefix, "/f/web");
}

TEST(TrustedProxies, ATrustedOneSaysHowTheClientSeesTheFunction) {
  const ClientView view = client_view(from("10.0.0.1:9", {{"X-Forwarded-For", "198.51.100.1"},
                                                          {"X-Forwarded-Proto", "HTTPS"},
                                                          {"X-Forwarded-Host", "app.example"},
                                                          {"X-Forwarded-Prefix", "/shop/"}}),
                                      "/f/web", proxies({"10.0.0.0/8"}));
  EXPECT_EQ(view.address, "198.51.100.1:0");
  EXPECT_EQ(view.protocol, "https");
  EXPECT_EQ(view.host, "app.example");
  EXPECT_EQ(view.prefix, "/shop");
  EXPECT_EQ(client_view(from("10.0.0.1:9", {{"X-Forwarded-Prefix", "/"}}), "/f/web",
                        proxies({"10.0.0.1"}))
                .prefix,
            "");
}

TEST(TrustedProxies, TheClientIsTheLastAddressThatIsNoProxy) {
  const auto address = [](const std::vector<std::pair<std::string, std::string>>& fields) {
    return client_view(from("10.0.0.1:9", fields), "", proxies({"10.0.0.0/8"})).address;
  };
  // What the client made up stands first.
  EXPECT_EQ(address({{"X-Forwarded-For", "1.1.1.1, 198.51.100.1, 10.0.0.7"}}), "198.51.100.1:0");
  EXPECT_EQ(address({{"X-Forwarded-For", "1.1.1.1"}, {"X-Forwarded-For", "198.51.100.1"}}),
            "198.51.100.1:0");
  EXPECT_EQ(address({{"X-Forwarded-For", "[2001:db8::1]:4711"}}), "[2001:db8::1]:0");
  EXPECT_EQ(address({{"X-Forwarded-For", "2001:db8::1"}}), "[2001:db8::1]:0");
  EXPECT_EQ(address({{"X-Forwarded-For", "198.51.100.1:80"}}), "198.51.100.1:0");
  EXPECT_EQ(address({{"X-Forwarded-For", "10.0.0.8, 10.0.0.7"}}), "10.0.0.8:0");
  // Nothing beyond what is no address is believed.
  EXPECT_EQ(address({{"X-Forwarded-For", "198.51.100.1, unknown"}}), "10.0.0.1:9");
  EXPECT_EQ(address({{"X-Forwarded-For", "198.51.100.1,"}}), "10.0.0.1:9");
  EXPECT_EQ(address({}), "10.0.0.1:9");
}

TEST(TrustedProxies, WhatMakesNoSenseIsLeftOut) {
  for (const char* text : {"", "ftp", "https, gopher", "javascript:"}) {
    EXPECT_EQ(
        client_view(from("10.0.0.1:9", {{"X-Forwarded-Proto", text}}), "", proxies({"10.0.0.1"}))
            .protocol,
        "http")
        << text;
  }
  for (const char* text : {"", "a b", "user@host", "a/b"}) {
    EXPECT_EQ(
        client_view(from("10.0.0.1:9", {{"X-Forwarded-Host", text}}), "", proxies({"10.0.0.1"}))
            .host,
        "worker:8980")
        << text;
  }
  for (const char* text : {"", "shop", "/a b", "/<script>"}) {
    EXPECT_EQ(client_view(from("10.0.0.1:9", {{"X-Forwarded-Prefix", text}}), "/f/web",
                          proxies({"10.0.0.1"}))
                  .prefix,
              "/f/web")
        << text;
  }
}

}  // namespace
}  // namespace lambent::frontend
