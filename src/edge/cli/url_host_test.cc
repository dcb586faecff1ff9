#include "edge/cli/url_host.h"

#include <gtest/gtest.h>

namespace lambent::cli {
namespace {

TEST(UrlHost, IsWhatAllProgramsReadInOneWay) {
  EXPECT_EQ(host_of_url("https://example.com/a@b:c").value(),
            (UrlHost{"https", "example.com", "443"}));
  EXPECT_EQ(host_of_url("http://me:secret@10.0.0.1:8080?x").value(),
            (UrlHost{"http", "10.0.0.1", "8080", "me:secret@"}));
  EXPECT_EQ(host_of_url("http://[::1]:9/").value(), (UrlHost{"http", "::1", "9"}));
  for (const char* url : {"ftp://example.com", "http://", "http://a b/", "http://a\\@b/",
                          "http://[::1", "http://[x]/", "http://a:b/", "http://a:123456/",
                          "http://ex%61mple.com/", "HTTP://example.com"}) {
    EXPECT_FALSE(host_of_url(url).ok()) << url;
  }
}

TEST(UrlHost, IsNoAddressInAnOddForm) {
  for (const char* host : {"2852039166", "0xa9fea9fe", "0XA9FEA9FE", "169.254.169.254.", "127.1",
                           "127.0.0.0x1", "0x"}) {
    EXPECT_FALSE(host_of_url("http://" + std::string(host) + "/").ok()) << host;
  }
  for (const char* host : {"example.com.", "7zip.org", "4ward", "0xcafe.example", "127.0.0.1"}) {
    EXPECT_TRUE(host_of_url("http://" + std::string(host) + "/").ok()) << host;
  }
}

TEST(UrlHost, IsNotToldWithItsPassword) {
  const auto host = host_of_url("http://me:secret@ex%61mple.com/");
  ASSERT_FALSE(host.ok());
  EXPECT_EQ(host.error().message.find("secret"), std::string::npos);
}

}  // namespace
}  // namespace lambent::cli
