#include "edge/cli/curl_hops.h"

#include <gtest/gtest.h>

namespace lambent::cli {
namespace {

TEST(UrlHost, IsWhatAllProgramsReadInOneWay) {
  EXPECT_EQ(host_of_url("https://example.com/a@b:c").value(),
            (UrlHost{"https", "example.com", "443"}));
  EXPECT_EQ(host_of_url("http://me:secret@10.0.0.1:8080?x").value(),
            (UrlHost{"http", "10.0.0.1", "8080", true}));
  EXPECT_EQ(host_of_url("http://[::1]:9/").value(), (UrlHost{"http", "::1", "9"}));
  for (const char* url : {"ftp://example.com", "http://", "http://a b/", "http://a\\@b/",
                          "http://[::1", "http://[x]/", "http://a:b/", "http://a:123456/",
                          "http://ex%61mple.com/", "HTTP://example.com"}) {
    EXPECT_FALSE(host_of_url(url).ok()) << url;
  }
}

TEST(Redirects, LeadWhereTheLocationSays) {
  const std::string from = "http://example.com/a/b?token=1";
  const auto to = [&](const char* location) { return redirected_url(from, location).value(); };
  EXPECT_EQ(to("/c?d"), "http://example.com/c?d");
  EXPECT_EQ(to("c"), "http://example.com/a/c");
  EXPECT_EQ(to("c?at=12:30"), "http://example.com/a/c?at=12:30");
  EXPECT_EQ(to("?d"), "http://example.com/a/b?d");
  EXPECT_EQ(to("//other.com/c"), "http://other.com/c");
  EXPECT_EQ(to("HTTPS://other.com"), "https://other.com");
  EXPECT_EQ(redirected_url("http://example.com", "c").value(), "http://example.com/c");
  EXPECT_EQ(redirected_url("http://example.com", "/c").value(), "http://example.com/c");
}

TEST(Redirects, ToOtherProtocolsAreRefused) {
  for (const char* location : {"file:///etc/passwd", "gopher://x/", "", "a b", "http:\\\\x/"}) {
    const auto next = redirected_url("http://example.com/a", location);
    ASSERT_FALSE(next.ok()) << location;
    EXPECT_EQ(next.error().code, ErrorCode::kFailedPrecondition);
  }
  EXPECT_FALSE(redirected_url("https://example.com/a", "http://example.com/a").ok());
  EXPECT_TRUE(redirected_url("https://example.com/a", "b").ok());
}

TEST(Hops, ToMetadataServicesAreRefusedFromTheFirst) {
  CurlRequest request{.url = "http://169.254.169.254/latest/"};
  const CurlSink sink = [](const CurlHead&, std::string_view) { return Result<void>(); };
  const auto got = run_curl_hops(request, sink);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, ErrorCode::kPermissionDenied);
  EXPECT_NE(got.error().message.find("the metadata service of a cloud"), std::string::npos);
}

}  // namespace
}  // namespace lambent::cli
