#include "edge/cli/proxy_settings.h"

#include <gtest/gtest.h>

namespace lambent::cli {
namespace {

std::string proxy_of(const std::string& url, const std::string& except = "") {
  return proxy_for({.http = "http://plain:1", .https = "http://tls:2", .except = except},
                   host_of_url(url).value());
}

TEST(ProxySettings, AreThoseOfTheScheme) {
  EXPECT_EQ(proxy_of("http://example.com/"), "http://plain:1");
  EXPECT_EQ(proxy_of("https://example.com/"), "http://tls:2");
  EXPECT_EQ(proxy_for({.https = "tls:2"}, host_of_url("http://example.com/").value()), "");
}

TEST(ProxySettings, ExceptHostsAndWhatIsBelowThem) {
  for (const char* except :
       {"example.com", ".example.com", "a.org, EXAMPLE.com ,b.org", "*", "a.org example.com."}) {
    EXPECT_EQ(proxy_of("http://example.com/", except), "") << except;
    EXPECT_EQ(proxy_of("http://eu.Example.com:8080/", except), "") << except;
  }
  for (const char* except : {"", ",", "ample.com", "www.example.com", "example.com.org", "com,"}) {
    const bool is_above = std::string(except) == "com,";
    EXPECT_EQ(proxy_of("http://example.com/", except), is_above ? "" : "http://plain:1") << except;
  }
}

TEST(ProxySettings, ExceptAddressesAndTheirRanges) {
  for (const char* except : {"10.0.0.1", "10.0.0.0/8", "*"}) {
    EXPECT_EQ(proxy_of("http://10.0.0.1/", except), "") << except;
  }
  EXPECT_EQ(proxy_of("http://[fd00::1]/", "[fd00::1]"), "");
  EXPECT_EQ(proxy_of("http://[fd00::1]/", "fd00::/8"), "");
  for (const char* except : {"10.0.0.2", "0.0.1", "11.0.0.0/8", "10.0.0.1/99"}) {
    EXPECT_EQ(proxy_of("http://10.0.0.1/", except), "http://plain:1") << except;
  }
}

TEST(ProxySettings, SomeProxiesAreGivenAddressesAndNoNames) {
  for (const char* proxy : {"http://p:1", "https://p:1", "p:1", "socks5h://p:1", "socks4a://p:1"}) {
    EXPECT_TRUE(resolves_names(proxy)) << proxy;
  }
  for (const char* proxy : {"socks5://p:1", "SOCKS4://p:1"}) {
    EXPECT_FALSE(resolves_names(proxy)) << proxy;
  }
}

}  // namespace
}  // namespace lambent::cli
