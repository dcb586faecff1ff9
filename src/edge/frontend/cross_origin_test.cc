#include "edge/frontend/cross_origin.h"

#include <gtest/gtest.h>

namespace lambent::frontend {
namespace {

http::Request request_of(const char* method, const char* origin, const char* asked = nullptr) {
  http::Request request{.method = method, .target = "/t/team/f/f/"};
  if (origin != nullptr) request.headers.add("Origin", origin);
  if (asked != nullptr) request.headers.add("Access-Control-Request-Method", asked);
  return request;
}
const char* const kApp = "https://app.example.org";

TEST(CrossOrigin, OnePageThatIsNamedMayCallByTheMethodsThatAreNamed) {
  const Cors cors{.allow_origins = {kApp}, .allow_methods = {"GET", "PUT"}};
  EXPECT_TRUE(check_cross_origin(cors, request_of("PUT", kApp)).ok());
  EXPECT_TRUE(check_cross_origin(cors, request_of("HEAD", kApp)).ok());
  EXPECT_TRUE(check_cross_origin(cors, request_of("OPTIONS", kApp, "PUT")).ok());
  EXPECT_FALSE(check_cross_origin(cors, request_of("POST", kApp)).ok());
  EXPECT_FALSE(check_cross_origin(cors, request_of("OPTIONS", kApp, "DELETE")).ok());
  EXPECT_FALSE(check_cross_origin(cors, request_of("GET", "https://evil.example")).ok());
  EXPECT_FALSE(check_cross_origin(cors, request_of("GET", nullptr)).ok());
  http::Request two = request_of("GET", kApp);
  two.headers.add("Origin", "https://evil.example");
  EXPECT_FALSE(check_cross_origin(cors, two).ok());
}

TEST(CrossOrigin, WithoutMethodsThoseMayBeSentThatPagesMayAlwaysSend) {
  const Cors cors{.allow_origins = {kApp}};
  EXPECT_TRUE(check_cross_origin(cors, request_of("POST", kApp)).ok());
  EXPECT_FALSE(check_cross_origin(cors, request_of("DELETE", kApp)).ok());
}

TEST(CrossOrigin, APreflightIsToldWhatIsAllowed) {
  Cors cors{.allow_origins = {kApp},
            .allow_methods = {"*"},
            .allow_headers = {"*"},
            .allow_credentials = true,
            .max_age_s = 60};
  http::Request asks = request_of("OPTIONS", kApp, "PATCH");
  asks.headers.add("Access-Control-Request-Headers", "authorization, x-a");
  ASSERT_TRUE(is_preflight(asks));
  EXPECT_FALSE(is_preflight(request_of("OPTIONS", kApp)));
  const http::Response answer = preflight_answer(cors, asks);
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(answer.headers.get("Access-Control-Allow-Origin"), kApp);
  EXPECT_EQ(answer.headers.get("Access-Control-Allow-Methods"), "PATCH");
  EXPECT_EQ(answer.headers.get("Access-Control-Allow-Headers"), "authorization, x-a");
  EXPECT_EQ(answer.headers.get("Access-Control-Allow-Credentials"), "true");
  EXPECT_EQ(answer.headers.get("Access-Control-Max-Age"), "60");
  EXPECT_EQ(answer.headers.get("Vary"), "Origin");
  cors.allow_headers = {"x-a"};
  EXPECT_EQ(preflight_answer(cors, asks).headers.get("Access-Control-Allow-Headers"), "x-a");
  http::Request odd = request_of("OPTIONS", kApp, "PATCH");
  odd.headers.add("Access-Control-Request-Headers", "a;b");
  cors.allow_headers = {"*"};
  EXPECT_FALSE(preflight_answer(cors, odd).headers.contains("Access-Control-Allow-Headers"));
}

TEST(CrossOrigin, AnAnswerNamesThePageAndNoOther) {
  const Cors named{.allow_origins = {kApp}, .expose_headers = {"x-a", "x-b"}};
  const http::Headers headers = cross_origin_headers(named, request_of("GET", kApp));
  EXPECT_EQ(headers.get("Access-Control-Allow-Origin"), kApp);
  EXPECT_EQ(headers.get("Access-Control-Expose-Headers"), "x-a, x-b");
  EXPECT_FALSE(headers.contains("Access-Control-Allow-Credentials"));
  EXPECT_TRUE(
      cross_origin_headers(named, request_of("GET", "https://evil.example")).fields().empty());
  const Cors any{.allow_origins = {"*"}};
  EXPECT_EQ(cross_origin_headers(any, request_of("GET", "null")).get("Access-Control-Allow-Origin"),
            "*");
}

}  // namespace
}  // namespace lambent::frontend
