#include "edge/cli/curl_hops.h"

#include <gtest/gtest.h>

#include <map>

namespace lambent::cli {
namespace {

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

TEST(Redirects, KeepTheUserOfTheirOwnHostAlone) {
  const auto to = [&](const char* location) {
    return redirected_url("http://me:p@ss@example.com:80/a/b", location).value();
  };
  EXPECT_EQ(to("c"), "http://me:p@ss@example.com:80/a/c");
  EXPECT_EQ(to("/c"), "http://me:p@ss@example.com:80/c");
  EXPECT_EQ(to("?c"), "http://me:p@ss@example.com:80/a/b?c");
  EXPECT_EQ(to("http://example.com/c"), "http://me:p@ss@example.com/c");
  EXPECT_EQ(to("http://example.com:81/c"), "http://example.com:81/c");
  EXPECT_EQ(to("https://example.com/c"), "https://example.com/c");
  EXPECT_EQ(to("//example.org/c"), "http://example.org/c");
  for (const char* location : {"http://you:p@example.com/", "//you@example.org/"}) {
    const auto next = redirected_url("http://me:p@example.com/", location);
    ASSERT_FALSE(next.ok()) << location;
    EXPECT_EQ(next.error().message, "it redirects to a URL with a password");
  }
}

// A net of hosts with addresses, each of which answers once with what a test says.
class HopsTest : public testing::Test {
 protected:
  struct Answer {
    int status = 200;
    std::string location = {};
    std::string body = {};
  };

  Result<CurlHead> run(CurlRequest request) {
    const HopSteps steps{
        .look_up = [this](const std::string& host) -> Result<std::vector<IpAddress>> {
          looked_up_.push_back(host);
          const auto found = hosts_.find(host);
          if (found == hosts_.end()) return Error{ErrorCode::kNotFound, "no host " + host};
          return std::vector<IpAddress>{*parse_ip_address(found->second)};
        },
        .fetch = [this](const CurlRequest& hop, const CurlSink& sink) -> Result<CurlHead> {
          fetched_.push_back(hop);
          const Answer answer = answers_.at(hop.url);
          CurlHead head{.status = answer.status};
          if (!answer.location.empty()) head.headers.add("Location", answer.location);
          if (!answer.body.empty()) RETURN_IF_ERROR(sink(head, answer.body));
          return head;
        }};
    return run_curl_hops(
        request,
        [this](const CurlHead&, std::string_view piece) {
          received_ += piece;
          return Result<void>();
        },
        steps);
  }

  std::map<std::string, std::string> hosts_ = {{"example.com", "93.184.215.14"},
                                               {"inner.example.com", "10.0.0.1"}};
  std::map<std::string, Answer> answers_;
  std::vector<std::string> looked_up_;
  std::vector<CurlRequest> fetched_;
  std::string received_;
};

TEST_F(HopsTest, GoWhereWasLookedAt) {
  answers_ = {{"http://example.com/", {.status = 302, .location = "/b", .body = "moved"}},
              {"http://example.com/b", {.body = "model"}}};
  ASSERT_TRUE(run({.url = "http://example.com/"}).ok());
  EXPECT_EQ(received_, "model");
  EXPECT_EQ(fetched_[1].resolve, "example.com:80:93.184.215.14");
}

TEST_F(HopsTest, ToMetadataServicesAreRefusedFromTheFirst) {
  const auto got = run({.url = "http://169.254.169.254/latest/"});
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, ErrorCode::kPermissionDenied);
  EXPECT_NE(got.error().message.find("the metadata service of a cloud"), std::string::npos);
  // As inet_aton and curl read them, but no one writes them.
  for (const char* url : {"http://169%2e254%2e169%2e254/", "http://①69.254.169.254/"}) {
    EXPECT_EQ(run({.url = url}).error().code, ErrorCode::kInvalidArgument) << url;
  }
  EXPECT_TRUE(fetched_.empty());
}

// Else curl would look itself, and the next answer need not be the same.
TEST_F(HopsTest, ToAHostThatCannotBeLookedUpDoNotGo) {
  EXPECT_EQ(run({.url = "http://gone.example.com/"}).error().code, ErrorCode::kNotFound);
  answers_ = {{"http://example.com/", {.status = 302, .location = "http://gone.example.com/"}}};
  EXPECT_EQ(run({.url = "http://example.com/"}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(fetched_.size(), 1u);
}

TEST_F(HopsTest, FromTheInternetIntoAPrivateNetworkAreRefused) {
  answers_ = {{"http://example.com/", {.status = 302, .location = "http://inner.example.com/"}},
              {"http://inner.example.com/", {.body = "model"}}};
  EXPECT_EQ(run({.url = "http://example.com/"}).error().code, ErrorCode::kPermissionDenied);
  EXPECT_TRUE(run({.url = "http://inner.example.com/"}).ok());
  EXPECT_TRUE(run({.url = "http://example.com/", .allows_private = true}).ok());
}

TEST_F(HopsTest, ByAProxyLeaveNamesToItAlone) {
  answers_ = {{"http://example.com/", {.status = 302, .location = "https://inner.example.com/"}},
              {"https://inner.example.com/", {.body = "model"}}};
  const ProxySettings both{.http = "http://proxy:1", .https = "http://proxy:1"};
  EXPECT_TRUE(run({.url = "http://example.com/", .proxies = both}).ok());
  EXPECT_TRUE(looked_up_.empty());
  EXPECT_EQ(fetched_[0].proxy, "http://proxy:1");

  // Each hop by its own scheme and host.
  for (const ProxySettings& one :
       {ProxySettings{.http = "http://proxy:1"},
        ProxySettings{.http = "p:1", .https = "p:1", .except = "inner.example.com"},
        ProxySettings{.http = "p:1", .https = "socks5://proxy:1"}}) {
    EXPECT_EQ(run({.url = "http://example.com/", .proxies = one}).error().code,
              ErrorCode::kPermissionDenied)
        << one.except;
    EXPECT_EQ(looked_up_.back(), "inner.example.com");
  }
  // Addresses are looked at wherever they go by.
  answers_["http://example.com/"].location = "https://10.0.0.1/";
  EXPECT_EQ(run({.url = "http://example.com/", .proxies = both}).error().code,
            ErrorCode::kPermissionDenied);
}

TEST_F(HopsTest, ThatAreNotFollowedGiveTheirBody) {
  answers_ = {{"http://example.com/", {.status = 301, .location = "/b", .body = "elsewhere"}}};
  const auto head = run({.url = "http://example.com/", .redirects = 0});
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(head->status, 301);
  EXPECT_EQ(received_, "elsewhere");
}

TEST_F(HopsTest, ToAnotherHostLeaveBehindWhoAsks) {
  answers_ = {{"http://me:p@example.com/", {.status = 302, .location = "b"}},
              {"http://me:p@example.com/b", {.status = 302, .location = "//inner.example.com/"}},
              {"http://inner.example.com/", {.body = "model"}}};
  ASSERT_TRUE(run({.url = "http://me:p@example.com/",
                   .headers = {"Authorization: secret", "Accept: all"},
                   .user = "key:secret",
                   .signature = "aws",
                   .allows_private = true})
                  .ok());
  EXPECT_EQ(fetched_[1].user, "key:secret");
  EXPECT_EQ(fetched_[2].user, "");
  EXPECT_TRUE(fetched_[1].reads_netrc);
  EXPECT_FALSE(fetched_[2].reads_netrc) << "curl reads it by the host, whatever the port";
  EXPECT_EQ(fetched_[2].signature, "");
  EXPECT_EQ(fetched_[2].headers, std::vector<std::string>{"Accept: all"});
}

TEST(HopLookup, TellsOfAHostThatIsNone) {
  const auto got = hop_steps().look_up("no-such-host.invalid");
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().message, "Could not resolve host: no-such-host.invalid");
  EXPECT_TRUE(hop_steps().look_up("127.0.0.1").ok());
}

}  // namespace
}  // namespace lambent::cli
