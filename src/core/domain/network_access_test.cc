// Where functions may connect to: entries, what is closed, and what an operator opens.
#include "core/domain/network_access.h"

#include <gmock/gmock.h>

#include "core/domain/limits.h"

namespace lambent {
namespace {

using testing::HasSubstr;

std::string why(const std::string& address) {
  const auto parsed = parse_ip_address(address);
  if (!parsed) return "no address";
  return std::string(why_closed(*parsed).value_or("open"));
}

TEST(NetworkAccess, EntriesAreReadAndWrittenAsTheyWere) {
  for (const char* text :
       {"", "outbound", "api.example.org:443", "*.s3.amazonaws.com:443", "10.1.2.3:5432",
        "10.1.2.0/24:8000-8100", "[fd00::5]:443", "[fd00::/8]:1-65534", "*:443", "db:*",
        "outbound,10.1.2.3:5432", "a_b.example.org:1"}) {
    const auto access = parse_network_access(text);
    ASSERT_TRUE(access.ok()) << text << ": " << access.error().message;
    EXPECT_EQ(text_of(*access), text);
  }
  EXPECT_EQ(text_of(*parse_network_access("none")), "");
  EXPECT_EQ(text_of(*parse_network_access("API.Example.Org:443")), "api.example.org:443");
  EXPECT_EQ(text_of(*parse_network_access("*:*")), "outbound");
  EXPECT_EQ(text_of(*parse_network_access("[2001:0db8:0::1]:80")), "[2001:db8::1]:80");
}

TEST(NetworkAccess, AMistakeNamesItsEntryAndTheForm) {
  for (const char* text : {"api.example.org",
                           ":443",
                           "example.org:0",
                           "example.org:65536",
                           "example.org:9-8",
                           "example.org:",
                           "example.org:443x",
                           "*.org:443",
                           "*.*.org:443",
                           "a..b:1",
                           "-a.b:1",
                           "1.2.3:80",
                           "1.2.3.4.5:80",
                           "10.1.2.3/24:80",
                           "10.0.0.0/33:80",
                           "[::1:80",
                           "::1:80",
                           "[10.0.0.1]:80",
                           "fd00::/8:80",
                           "http://example.org:80",
                           "outbound:80",
                           "a b:1",
                           "a:1,",
                           ",a:1",
                           "[::1]80",
                           "public:*,",
                           "ex\xc3\xa4mple.org:80"}) {
    const auto access = parse_network_access(text);
    const bool is_word = std::string(text).starts_with("outbound:");  // a name like any other
    EXPECT_EQ(access.ok(), is_word) << text;
    if (!access.ok()) {
      EXPECT_EQ(access.error().code, ErrorCode::kInvalidArgument);
      EXPECT_THAT(access.error().message, HasSubstr("an entry is HOST:PORT")) << text;
    }
  }
  std::string many = "a:1";
  for (size_t i = 0; i < limits::kNetworkRules; ++i) many += ",a:1";
  EXPECT_THAT(parse_network_access(many).error().message, HasSubstr("at most 32 entries"));
}

TEST(NetworkAccess, WildcardsAreOfWholeLabelsBelowTheirName) {
  const auto rule = *parse_network_rule("*.example.org:443");
  EXPECT_TRUE(matches_name(rule, "a.example.org"));
  EXPECT_TRUE(matches_name(rule, "b.a.example.org"));
  for (const char* name : {"example.org", "xexample.org", "example.org.evil.net", ".example.org"}) {
    EXPECT_FALSE(matches_name(rule, name)) << name;
  }
  EXPECT_FALSE(matches_name(*parse_network_rule("example.org:443"), "a.example.org"));
  EXPECT_FALSE(matches_name(*parse_network_rule("10.0.0.1:443"), "10.0.0.1"));
}

TEST(NetworkAccess, WhatIsNoHostOfTheInternetIsClosed) {
  for (const char* address : {"0.0.0.0",
                              "0.1.2.3",
                              "10.0.0.1",
                              "100.64.0.1",
                              "127.0.0.1",
                              "169.254.169.254",
                              "172.16.0.1",
                              "172.31.255.255",
                              "192.0.0.1",
                              "192.0.2.1",
                              "192.88.99.1",
                              "192.168.0.1",
                              "198.18.0.1",
                              "198.51.100.1",
                              "203.0.113.1",
                              "224.0.0.1",
                              "240.0.0.1",
                              "255.255.255.255",
                              "168.63.129.16",
                              "::",
                              "::1",
                              "::7f00:1",
                              "::10.0.0.1",
                              "::ffff:10.0.0.1",
                              "::ffff:169.254.169.254",
                              "64:ff9b::10.0.0.1",
                              "64:ff9b::169.254.169.254",
                              "64:ff9b:1::8.8.8.8",
                              "100::1",
                              "fc00::1",
                              "fd00:ec2::254",
                              "fe80::1",
                              "fec0::1",
                              "ff02::1",
                              "2001::1",
                              "2001:2::1",
                              "2001:db8::1",
                              "2002:a00:1::1",
                              "3fff::1",
                              "4000::1"}) {
    EXPECT_NE(why(address), "open") << address;
  }
  for (const char* address : {"1.1.1.1", "172.15.0.1", "172.32.0.1", "100.128.0.1", "11.0.0.1",
                              "::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2606:2800::1", "2003::1"}) {
    EXPECT_EQ(why(address), "open") << address;
  }
  EXPECT_EQ(why("169.254.169.254"), "the metadata service of a cloud");
  EXPECT_EQ(why("::ffff:10.0.0.1"), "a private range");
}

TEST(NetworkBounds, AreReadAndWritten) {
  for (const char* text : {"none", "public", "10.1.2.0/24", "public,10.1.2.3,fd00::/8"}) {
    EXPECT_EQ(text_of(*parse_network_bounds(text)), text);
  }
  for (const char* text : {"", "all", "public,", "10.1.2.3/24", "none,public", "example.org"}) {
    EXPECT_FALSE(parse_network_bounds(text).ok()) << text;
  }
}

TEST(NetworkBounds, AFunctionAsksForWhatTheOperatorOpened) {
  const auto verdict = [](const char* access, const char* bounds) {
    const auto checked = check_within(*parse_network_access(access), *parse_network_bounds(bounds));
    return checked.ok() ? std::string("open") : checked.error().message;
  };
  EXPECT_EQ(verdict("", "none"), "open");
  EXPECT_EQ(verdict("outbound", "public"), "open");
  EXPECT_EQ(verdict("a.example.org:1,1.1.1.1:1", "public"), "open");
  EXPECT_EQ(verdict("10.1.2.3:5432,db.internal:1", "10.1.2.0/24"), "open");
  EXPECT_THAT(verdict("a:1", "none"), HasSubstr("lambent serve --network public"));
  EXPECT_THAT(verdict("outbound", "10.1.2.0/24"), HasSubstr("asks for public addresses"));
  EXPECT_THAT(verdict("10.1.2.3:1", "public"), HasSubstr("--network public,10.1.2.3"));
  EXPECT_THAT(verdict("10.0.0.0/8:1", "public,10.1.2.0/24"), HasSubstr("closed (a private range)"));
  EXPECT_THAT(verdict("0.0.0.0/0:1", "public"), HasSubstr("closed"));
  EXPECT_THAT(verdict("[2000::/3]:1", "public"), HasSubstr("closed"));
  EXPECT_THAT(verdict("1.1.1.1:1", "10.0.0.0/8"), HasSubstr("outside of what this worker opens"));
}

}  // namespace
}  // namespace lambent
