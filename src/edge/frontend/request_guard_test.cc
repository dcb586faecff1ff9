#include "edge/frontend/request_guard.h"

#include <gtest/gtest.h>

#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

std::optional<http::Authority> authority(const char* text) {
  const auto parsed = http::parse_authority(text);
  EXPECT_TRUE(parsed.has_value()) << text;
  return parsed;
}

bool allows(const HostPolicy& policy, const HeaderList& headers,
            http::Transport transport = http::Transport::kTcp) {
  http::Request request{.method = "GET", .target = "/v1/functions"};
  for (const auto& [name, value] : headers) request.headers.add(name, value);
  request.peer.transport = transport;
  const auto result = RequestGuard(policy).check(request);
  if (!result.ok()) {
    EXPECT_EQ(result.error().code, ErrorCode::kPermissionDenied);
    EXPECT_FALSE(result.error().message.empty());
  }
  return result.ok();
}

TEST(RequestGuard, AnswersToLoopbackNames) {
  const HostPolicy policy{.listener = authority("127.0.0.1:8980")};
  for (const char* host : {"localhost", "localhost:8980", "LOCALHOST:9000", "127.0.0.1:8980",
                           "127.0.0.2", "[::1]:8980"}) {
    EXPECT_TRUE(allows(policy, {{"Host", host}})) << host;
  }
  for (const char* host : {"", "rebind.evil.test", "rebind.evil.test:8980", "localhost.evil.test",
                           "127.0.0.1.evil.test", "10.0.0.1:8980", "0.0.0.0:8980", "2130706433",
                           "user@localhost", "localhost evil.test", "[::]:8980"}) {
    EXPECT_FALSE(allows(policy, {{"Host", host}})) << host;
  }
  EXPECT_FALSE(allows(policy, {}));
}

TEST(RequestGuard, AnswersToTheAddressThatItListensOn) {
  const HostPolicy one{.listener = authority("10.0.0.1:8980")};
  EXPECT_TRUE(allows(one, {{"Host", "10.0.0.1:8980"}}));
  EXPECT_TRUE(allows(one, {{"Host", "localhost:8980"}}));
  EXPECT_FALSE(allows(one, {{"Host", "10.0.0.2:8980"}}));
  EXPECT_FALSE(allows(one, {{"Host", "gpu-1:8980"}}));
  for (const char* wildcard : {"0.0.0.0:8980", "[::]:8980"}) {
    const HostPolicy all{.listener = authority(wildcard)};
    EXPECT_TRUE(allows(all, {{"Host", "10.0.0.2:8980"}}));
    EXPECT_TRUE(allows(all, {{"Host", "[fd00::1]:8980"}}));
    EXPECT_FALSE(allows(all, {{"Host", "rebind.evil.test:8980"}}));
  }
}

TEST(RequestGuard, AnswersToConfiguredNames) {
  const HostPolicy policy{.listener = authority("127.0.0.1:8980"),
                          .names = {*authority("gpu-1.example"), *authority("lambent.test:443")}};
  EXPECT_TRUE(allows(policy, {{"Host", "GPU-1.example.:1234"}}));
  EXPECT_TRUE(allows(policy, {{"Host", "lambent.test:443"}}));
  EXPECT_FALSE(allows(policy, {{"Host", "lambent.test:444"}}));
  EXPECT_FALSE(allows(policy, {{"Host", "lambent.test"}}));
  EXPECT_FALSE(allows(policy, {{"Host", "x.gpu-1.example"}}));
}

TEST(RequestGuard, RefusesPagesOfOtherOrigins) {
  const HostPolicy policy{.listener = authority("127.0.0.1:8980")};
  const auto with_origin = [&](const char* host, const char* origin) {
    return allows(policy, {{"Host", host}, {"Origin", origin}});
  };
  EXPECT_TRUE(with_origin("localhost:8980", "http://localhost:8980"));
  EXPECT_TRUE(with_origin("localhost", "http://LOCALHOST:80"));
  EXPECT_TRUE(with_origin("localhost:443", "https://localhost"));
  for (const char* origin : {"null", "", "http://localhost", "http://localhost:3000",
                             "http://127.0.0.1:8980", "https://localhost:8981", "http://evil.test",
                             "http://evil.test:8980", "http://localhost:8980/", "localhost:8980",
                             "file://localhost:8980", "http://localhost:8980@evil.test"}) {
    EXPECT_FALSE(with_origin("localhost:8980", origin)) << origin;
  }
  // Every field counts, not only the first.
  EXPECT_FALSE(allows(
      policy,
      {{"Host", "localhost"}, {"Origin", "http://localhost"}, {"origin", "http://evil.test"}}));
}

TEST(RequestGuard, AnswersToTheNamesOfFunctionsAndLetsTheirPagesUseThemAlone) {
  const HostPolicy policy{.listener = authority("127.0.0.1:8980"),
                          .function_domain = "lambent.localhost"};
  const auto with_origin = [&](const char* host, const char* origin) {
    return allows(policy, {{"Host", host}, {"Origin", origin}});
  };
  EXPECT_TRUE(allows(policy, {{"Host", "web.lambent.localhost:8980"}}));
  EXPECT_TRUE(with_origin("web.lambent.localhost:8980", "http://web.lambent.localhost:8980"));
  EXPECT_FALSE(with_origin("other.lambent.localhost:8980", "http://web.lambent.localhost:8980"));
  EXPECT_FALSE(with_origin("localhost:8980", "http://web.lambent.localhost:8980"));
  EXPECT_FALSE(with_origin("web.lambent.localhost:8980", "http://localhost:8980"));
  EXPECT_FALSE(allows(policy, {{"Host", "a.b.lambent.localhost"}}));
  EXPECT_FALSE(allows(policy, {{"Host", "web.lambent.localhost.evil.test"}}));
  EXPECT_FALSE(
      allows({.listener = authority("127.0.0.1:8980")}, {{"Host", "web.lambent.localhost"}}));
}

TEST(RequestGuard, RefusesPagesOfOtherSites) {
  const HostPolicy policy{.listener = authority("127.0.0.1:8980")};
  for (const char* site : {"same-origin", "none"}) {
    EXPECT_TRUE(allows(policy, {{"Host", "localhost"}, {"Sec-Fetch-Site", site}})) << site;
  }
  for (const char* site : {"cross-site", "same-site", "", "Same-Origin", "same-origin, none"}) {
    EXPECT_FALSE(allows(policy, {{"Host", "localhost"}, {"sec-fetch-site", site}})) << site;
  }
}

TEST(RequestGuard, LinksToPagesOfFunctionsMayStandAnywhere) {
  HostPolicy policy;
  policy.function_domain = "lambent.localhost";
  const HeaderList link = {{"Host", "web.lambent.localhost"},
                           {"Sec-Fetch-Site", "cross-site"},
                           {"Sec-Fetch-Mode", "navigate"},
                           {"Sec-Fetch-Dest", "document"}};
  EXPECT_TRUE(allows(policy, link));
  for (const size_t changed : {size_t{0}, size_t{2}, size_t{3}}) {
    HeaderList other = link;
    other[changed].second = changed == 0 ? "localhost" : "empty";
    EXPECT_FALSE(allows(policy, other)) << other[changed].first;
  }
  HeaderList with_origin = link;
  with_origin.push_back({"Origin", "https://evil.example"});
  EXPECT_FALSE(allows(policy, with_origin));
  http::Request form = request_of("POST", "/", "", link);
  EXPECT_FALSE(RequestGuard(policy).check(form).ok());
}

TEST(RequestGuard, AWholeTargetNamesTheSameHostAsHost) {
  const auto check = [](const std::string& target, const std::string& host) {
    return RequestGuard(HostPolicy()).check(request_of("GET", target, "", {{"Host", host}})).ok();
  };
  EXPECT_TRUE(check("http://localhost:8980/v1/version", "localhost:8980"));
  EXPECT_TRUE(check("HTTP://localhost/", "localhost:80"));
  EXPECT_FALSE(check("http://evil.example/f/web/", "localhost:8980"));
  EXPECT_FALSE(check("http://localhost:81/", "localhost"));
  EXPECT_FALSE(check("http:///", "localhost"));
}

TEST(RequestGuard, LooksAtHostOverTlsWhereItsUsualPortIs443) {
  const HostPolicy policy{.listener = authority("10.0.0.1:443"),
                          .names = {*authority("gpu.example:443")}};
  const auto over_tls = [&](const HeaderList& headers) {
    return allows(policy, headers, http::Transport::kTls);
  };
  EXPECT_TRUE(over_tls({{"Host", "gpu.example"}}));
  EXPECT_TRUE(over_tls({{"Host", "gpu.example:443"}}));
  EXPECT_FALSE(over_tls({{"Host", "gpu.example:80"}}));
  EXPECT_FALSE(allows(policy, {{"Host", "gpu.example"}}, http::Transport::kTcp));
  EXPECT_FALSE(over_tls({{"Host", "rebind.evil.test"}}));
  EXPECT_TRUE(over_tls({{"Host", "gpu.example"}, {"Origin", "https://gpu.example"}}));
  EXPECT_FALSE(over_tls({{"Host", "gpu.example"}, {"Origin", "https://evil.test"}}));
}

TEST(RequestGuard, LooksAtPagesButNotAtHostOverUnixSockets) {
  const HostPolicy policy;
  const auto over_unix = [&](const HeaderList& headers) {
    return allows(policy, headers, http::Transport::kUnix);
  };
  EXPECT_TRUE(over_unix({}));
  EXPECT_TRUE(over_unix({{"Host", "any.name"}}));
  EXPECT_FALSE(over_unix({{"Host", "localhost"}, {"Origin", "http://evil.test"}}));
  EXPECT_FALSE(over_unix({{"Host", "localhost"}, {"Sec-Fetch-Site", "cross-site"}}));
}

TEST(RequestGuard, ShowsOnlyTheBeginningOfWhatItRefuses) {
  const http::Request request = request_of("GET", "/", "", {{"Host", std::string(60'000, 'x')}});
  const auto result = RequestGuard(HostPolicy{}).check(request);
  ASSERT_FALSE(result.ok());
  EXPECT_LT(result.error().message.size(), 300u);
}

}  // namespace
}  // namespace lambent::frontend
