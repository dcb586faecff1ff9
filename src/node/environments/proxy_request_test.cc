#include "node/environments/proxy_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lambent::environments {
namespace {

using testing::ElementsAre;

TEST(ProxyRequest, ATunnelNamesItsHostAndPort) {
  const auto request =
      parse_proxy_request("CONNECT PyPI.org:443 HTTP/1.1\r\nHost: pypi.org:443\r\n\r\n");
  ASSERT_TRUE(request.ok());
  EXPECT_TRUE(request->tunnel);
  EXPECT_EQ(request->place(), "pypi.org:443");
  const auto six = parse_proxy_request("CONNECT [fd00::5]:8443 HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(six.ok());
  EXPECT_EQ(six->host, "fd00::5");
  EXPECT_EQ(six->place(), "[fd00::5]:8443");
}

TEST(ProxyRequest, AUrlBecomesARequestToItsServer) {
  const auto request = parse_proxy_request(
      "GET http://index.example:3141/simple/pear/?x=1 HTTP/1.1\r\nHost: elsewhere\r\n"
      "Proxy-Authorization: Basic x\r\nAccept: text/html\r\nConnection: keep-alive\r\n\r\n");
  ASSERT_TRUE(request.ok());
  EXPECT_FALSE(request->tunnel);
  EXPECT_EQ(request->place(), "index.example:3141");
  EXPECT_EQ(request->head,
            "GET /simple/pear/?x=1 HTTP/1.1\r\nHost: index.example:3141\r\n"
            "Accept: text/html\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(parse_proxy_request("GET http://a HTTP/1.1\r\n\r\n")->head,
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
}

TEST(ProxyRequest, WhatIsNoneIsRefused) {
  for (const char* head : {"", "\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET http://a/ HTTP/1.1\r\n",
                           "POST http://a/ HTTP/1.1\r\n\r\n", "GET https://a/ HTTP/1.1\r\n\r\n",
                           "CONNECT a HTTP/1.1\r\n\r\n", "CONNECT a:0 HTTP/1.1\r\n\r\n",
                           "CONNECT a:99999 HTTP/1.1\r\n\r\n", "CONNECT a:4x HTTP/1.1\r\n\r\n",
                           "CONNECT a@b:443 HTTP/1.1\r\n\r\n", "CONNECT [::1:443 HTTP/1.1\r\n\r\n",
                           "CONNECT a:443 SPDY/3\r\n\r\n", "GET http://u:p@a/ HTTP/1.1\r\n\r\n",
                           "GET http://a/ HTTP/1.1\r\nContent-Length: 3\r\n\r\n",
                           "GET http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
                           "GET http://a/ HTTP/1.1\r\nno field\r\n\r\n",
                           "GET http://a/ HTTP/1.1\r\nA: b\nEvil: c\r\n\r\n"}) {
    EXPECT_FALSE(parse_proxy_request(head).ok()) << head;
  }
  const std::string long_head =
      "GET http://a/ HTTP/1.1\r\nA: " + std::string(kMostProxyHead, 'x') + "\r\n\r\n";
  EXPECT_FALSE(parse_proxy_request(long_head).ok());
}

TEST(ProxyRequest, AnIndexOpensItsOwnPlaceAndThoseThatAreNamed) {
  EXPECT_THAT(*index_places("", {}), ElementsAre("pypi.org:443", "files.pythonhosted.org:443"));
  EXPECT_THAT(*index_places("https://pypi.org/simple", {}),
              ElementsAre("pypi.org:443", "files.pythonhosted.org:443"));
  EXPECT_THAT(*index_places("http://me:p@ss@index.example:3141/root", {"https://files.example"}),
              ElementsAre("index.example:3141", "files.example:443"));
  EXPECT_FALSE(index_places("ftp://index.example", {}).ok());
  EXPECT_FALSE(index_places("http://", {}).ok());
  EXPECT_FALSE(index_places("", {"files.example"}).ok());
}

}  // namespace
}  // namespace lambent::environments
