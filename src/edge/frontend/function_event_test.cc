#include "edge/frontend/function_event.h"
#include "edge/frontend/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lambent::frontend {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::Pair;

EventRequest request_of(std::string method, std::string target,
                        std::vector<std::pair<std::string, std::string>> headers = {},
                        std::string body = "") {
  EventRequest from;
  from.request.method = std::move(method);
  from.request.target = std::move(target);
  from.request.headers.add("Host", "web.lambent.localhost:8980");
  for (auto& [name, value] : headers) from.request.headers.add(name, value);
  from.request.body = std::move(body);
  from.request.peer.address = "[2001:db8::1]:4711";
  from.function = "web";
  from.id = {0x0123456789abcdef, 0x8123456789abcdef};
  from.time = seconds(1'583'348'638) + milliseconds(390);
  return from;
}

json event(const EventRequest& from) { return json::parse(event_of(from)); }

TEST(FunctionEvent, IsWhatAFunctionUrlSends) {
  const json made = event(request_of("GET", "/a%20b?x=1&x=2&y=%26+z",
                                     {{"User-Agent", "curl"},
                                      {"Accept", "a"},
                                      {"accept", "b"},
                                      {"Cookie", "one=1; two=2"},
                                      {"Cookie", "three=3"}}));
  EXPECT_EQ(made, json::parse(R"({
    "version": "2.0", "routeKey": "$default", "rawPath": "/a%20b",
    "rawQueryString": "x=1&x=2&y=%26+z", "cookies": ["one=1", "two=2", "three=3"],
    "headers": {"host": "web.lambent.localhost:8980", "user-agent": "curl", "accept": "a,b"},
    "queryStringParameters": {"x": "1,2", "y": "& z"},
    "requestContext": {
      "accountId": "anonymous", "apiId": "web", "domainName": "web.lambent.localhost",
      "domainPrefix": "web",
      "http": {"method": "GET", "path": "/a%20b", "protocol": "HTTP/1.1",
               "sourceIp": "2001:db8::1", "userAgent": "curl"},
      "requestId": "01234567-89ab-cdef-8123-456789abcdef", "routeKey": "$default",
      "stage": "$default", "time": "04/Mar/2020:19:03:58 +0000", "timeEpoch": 1583348638390},
    "isBase64Encoded": false})"));
}

TEST(FunctionEvent, HasABodyAsTextOnlyIfItIsText) {
  const auto body_of = [](const std::string& type, const std::string& body) {
    const json made = event(request_of("POST", "/", {{"Content-Type", type}}, body));
    return std::pair(made["body"].get<std::string>(), made["isBase64Encoded"].get<bool>());
  };
  EXPECT_THAT(body_of("application/json; charset=utf-8", "{\"a\":\"\xc3\xbc\n\"}"),
              Pair("{\"a\":\"\xc3\xbc\n\"}", false));
  EXPECT_THAT(body_of("application/problem+json", "{}"), Pair("{}", false));
  EXPECT_THAT(body_of("text/plain", "\xff"), Pair("/w==", true));
  EXPECT_THAT(body_of("text/plain", "\xed\xa0\x80"), Pair("7aCA", true)) << "half of a character";
  EXPECT_THAT(body_of("application/octet-stream", "abc"), Pair("YWJj", true));
  EXPECT_THAT(body_of("", "abc"), Pair("YWJj", true));
  const json zipped = event(request_of(
      "POST", "/", {{"Content-Type", "text/plain"}, {"Content-Encoding", "gzip"}}, "abc"));
  EXPECT_EQ(zipped["isBase64Encoded"], true);
}

TEST(FunctionEvent, SurvivesHeadersAndQueriesThatAreNoText) {
  const json made = event(request_of("GET", "/%?%zz=%&=&&a", {{"X", "\xff"}}));
  EXPECT_EQ(made["queryStringParameters"]["%zz"], "%");
  EXPECT_EQ(made["queryStringParameters"]["a"], "");
  EXPECT_EQ(made["headers"]["x"], "\xef\xbf\xbd");
}

http::Response response(std::string_view payload) {
  auto made = response_of_result(payload);
  EXPECT_TRUE(made.ok()) << payload << ": " << made.error().message;
  return made.ok() ? *std::move(made) : http::Response{.status = 0};
}

TEST(FunctionResult, SaysStatusHeadersCookiesAndBody) {
  const http::Response made = response(
      R"({"statusCode": 201, "headers": {"X-A": "1", "X-N": 2, "Connection": "close"},
          "cookies": ["a=1; Path=/", "b=2"], "body": "hello"})");
  EXPECT_EQ(made.status, 201);
  EXPECT_EQ(made.body, "hello");
  EXPECT_THAT(made.headers.fields(),
              ElementsAre(Pair("X-A", "1"), Pair("X-N", "2"), Pair("Set-Cookie", "a=1; Path=/"),
                          Pair("Set-Cookie", "b=2"), Pair("Content-Type", "application/json")));
  const http::Response binary = response(
      R"({"statusCode": "200", "headers": {"content-type": "image/png"}, "body": "AAE=",
          "isBase64Encoded": true})");
  EXPECT_EQ(binary.body, std::string("\0\1", 2));
  EXPECT_EQ(binary.headers.get("Content-Type"), "image/png");
  EXPECT_FALSE(response(R"({"statusCode": 204})").headers.contains("Content-Type"));
}

TEST(FunctionResult, WithoutAStatusIsTheBodyOfA200) {
  for (const auto& [payload, body] : std::vector<std::pair<std::string, std::string>>{
           {R"({"a":1})", R"({"a":1})"}, {R"("text")", "text"}, {"[1]", "[1]"}, {"null", "null"}}) {
    const http::Response made = response(payload);
    EXPECT_EQ(made.status, 200);
    EXPECT_EQ(made.body, body);
    EXPECT_EQ(made.headers.get("Content-Type"), "application/json");
  }
}

TEST(FunctionResult, ThatIsNoResponseIsAnError) {
  for (const char* payload :
       {"", "no json", R"({"statusCode": 99})", R"({"statusCode": 101})", R"({"statusCode": 600})",
        R"({"statusCode": null})", R"({"statusCode": "2000"})", R"({"statusCode": "abc"})",
        R"({"statusCode": 200.5})", R"({"statusCode": 200, "headers": []})",
        R"({"statusCode": 200, "headers": {"a b": "1"}})",
        R"({"statusCode": 200, "headers": {"a": "1\r\nb: 2"}})",
        R"({"statusCode": 200, "headers": {"a": ["1"]}})", R"({"statusCode": 200, "cookies": "a"})",
        R"({"statusCode": 200, "cookies": ["a\nb"]})", R"({"statusCode": 200, "body": {}})",
        R"({"statusCode": 200, "body": "%", "isBase64Encoded": true})",
        R"({"statusCode": 200, "body": "", "isBase64Encoded": 1})"}) {
    EXPECT_FALSE(response_of_result(payload).ok()) << payload;
  }
}

TEST(StreamedHead, IsKnownAtOnceUnlessAPreludeIsAnnounced) {
  StreamedHead plain("text/event-stream");
  std::string_view bytes = "abc";
  EXPECT_TRUE(*plain.feed(bytes));
  EXPECT_EQ(bytes, "abc");
  EXPECT_EQ(plain.response().headers.get("Content-Type"), "text/event-stream");
  StreamedHead untold("");
  EXPECT_EQ(untold.response().headers.get("Content-Type"), "application/octet-stream");
}

TEST(StreamedHead, IsReadHoweverItsBytesAreCut) {
  const std::string head = R"({"statusCode": 418, "headers": {"X": "1"}, "cookies": ["c=1"]})";
  const std::string all = head + std::string(8, '\0') + "body";
  for (size_t step = 1; step <= all.size(); ++step) {
    StreamedHead read(kIntegrationResponse);
    std::string body;
    bool known = false;
    for (size_t at = 0; at < all.size(); at += step) {
      std::string_view bytes = std::string_view(all).substr(at, step);
      const auto fed = read.feed(bytes);
      ASSERT_TRUE(fed.ok());
      known = *fed;
      if (known) body += bytes;
    }
    ASSERT_TRUE(known) << step;
    EXPECT_EQ(body, "body") << step;
    EXPECT_EQ(read.response().status, 418);
    EXPECT_EQ(read.response().headers.get("Set-Cookie"), "c=1");
  }
}

TEST(StreamedHead, ThatIsNoneIsAnError) {
  for (const std::string& text :
       {std::string("nothing") + std::string(8, '\0'), std::string("[]") + std::string(8, '\0'),
        std::string(R"({"statusCode": 1})") + std::string(8, '\0'),
        std::string(limits::kStreamPrelude.count + 8, 'x')}) {
    StreamedHead read(kIntegrationResponse);
    std::string_view bytes = text;
    EXPECT_FALSE(read.feed(bytes).ok()) << text.substr(0, 20);
  }
}

}  // namespace
}  // namespace lambent::frontend
