#include "core/http/request_parser.h"

#include <gtest/gtest.h>

#include <string>

namespace lambent::http {
namespace {

using std::literals::operator""s;

using Status = RequestParser::Status;

constexpr RequestParser::Limits kLimits{.max_headers = 4096, .max_body = 1000};

struct Outcome {
  Status status;
  int failure;
  std::string reason;
};

// Feeds `text` in pieces of `step` bytes.
Outcome parse(std::string_view text, size_t step) {
  RequestParser parser(kLimits);
  while (!text.empty()) {
    std::string_view piece = text.substr(0, step);
    text.remove_prefix(piece.size());
    while (!piece.empty()) {
      const Status status = parser.feed(piece);
      if (status == Status::kComplete || status == Status::kFailed) {
        return {status, parser.failure().status, std::string(parser.failure().reason)};
      }
    }
  }
  return {parser.status(), 0, {}};
}

void expect_400(std::string_view text) {
  for (const size_t step : {text.size(), size_t{1}, size_t{7}}) {
    const Outcome outcome = parse(text, step);
    EXPECT_EQ(outcome.status, Status::kFailed) << text;
    EXPECT_EQ(outcome.failure, 400) << text;
    EXPECT_NE(outcome.reason, "");
  }
}

std::string with_headers(std::string_view headers) {
  return "POST / HTTP/1.1\r\nHost: h\r\n" + std::string(headers) + "\r\n";
}

TEST(RequestParser, RefusesTwoAccountsOfTheBodysLength) {
  expect_400(with_headers("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n");
  expect_400(with_headers("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n") + "0\r\n\r\n");
  expect_400(with_headers("Content-Length: 3\r\nContent-Length: 4\r\n") + "abcd");
  expect_400(with_headers("Content-Length: 3\r\nContent-Length: 3\r\n") + "abc");
  expect_400(with_headers("Content-Length: 3, 3\r\n") + "abc");
}

TEST(RequestParser, AMethodThatItDoesNotKnowIsNotImplemented) {
  for (const size_t step : {size_t{100}, size_t{1}}) {
    EXPECT_EQ(parse("QUERY /v2 HTTP/1.1\r\nHost: h\r\n\r\n", step).failure, 501);
    EXPECT_EQ(parse("BREW /pot HTTP/1.1\r\nHost: h\r\n\r\n", step).failure, 501);
  }
  for (const char* line :
       {"query / HTTP/1.1", "QUERY HTTP/1.1", "QU?RY / HTTP/1.1", " / HTTP/1.1"}) {
    expect_400(line + std::string("\r\nHost: h\r\n\r\n"));
  }
}

TEST(RequestParser, RefusesLengthsThatAreNotNumbers) {
  for (const char* length : {"", "-1", "+1", "0x10", "1 2", "1e3", "3;", "99999999999999999999999",
                             "18446744073709551617"}) {
    expect_400(with_headers("Content-Length: " + std::string(length) + "\r\n") + "abc");
  }
}

TEST(RequestParser, RefusesTransferEncodingsOtherThanChunked) {
  for (const char* encoding :
       {"identity", "gzip, chunked", "chunked, identity", "xchunked", "chunked;q=1",
        "\x0b"
        "chunked",
        ""}) {
    expect_400(with_headers("Transfer-Encoding: " + std::string(encoding) + "\r\n") + "0\r\n\r\n");
  }
  expect_400("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  expect_400(with_headers("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n") +
             "0\r\n\r\n");
}

TEST(RequestParser, RefusesLinesThatReadersMayUnderstandDifferently) {
  expect_400("GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n");
  expect_400("GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n\tb\r\n\r\n");
  expect_400("GET / HTTP/1.1\r\nHost: h\r\nX: a\nY: b\r\n\r\n");
  expect_400("GET / HTTP/1.1\r\nHost: h\r\nX: a\rY: b\r\n\r\n");
  expect_400("GET / HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n"s);
  expect_400("GET / HTTP/1.1\r\nHost: h\r\nX : a\r\n\r\n");
  expect_400("GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n");
  expect_400("GET / HTTP/1.1\r\nHost: h\r\n: empty\r\n\r\n");
  expect_400("GET / HTTP/1.1\r\n Host: h\r\n\r\n");
}

TEST(RequestParser, RefusesBadRequestLines) {
  expect_400("GET /\r\n\r\n");
  expect_400("GET / HTTP/2.0\r\nHost: h\r\n\r\n");
  expect_400("GET / HTTP/1.2\r\nHost: h\r\n\r\n");
  expect_400("G@T / HTTP/1.1\r\nHost: h\r\n\r\n");
  expect_400("GET /a b HTTP/1.1\r\nHost: h\r\n\r\n");
  expect_400("CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n");
  expect_400("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  expect_400("\x16\x03\x01\x02\r\n\r\n");
}

TEST(RequestParser, RefusesAMissingOrDoubledHost) {
  expect_400("GET / HTTP/1.1\r\n\r\n");
  expect_400("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
  EXPECT_EQ(parse("GET / HTTP/1.0\r\n\r\n", 100).status, Status::kComplete);
}

TEST(RequestParser, RefusesBadChunks) {
  const std::string head = with_headers("Transfer-Encoding: chunked\r\n");
  for (const char* body :
       {"x\r\n", "-1\r\n", "0x1\r\na\r\n", " 1\r\na\r\n", "1\r\nab\r\n", "1\nab\r\n", "\r\n",
        "fffffffffffffffff\r\n", "1 \r\na\r\n", "1;\n\r\na\r\n", "0\r\nA: b\n\r\n"}) {
    expect_400(head + body);
  }
}

TEST(RequestParser, BoundsChunkExtensionsAndTrailers) {
  const std::string head = with_headers("Transfer-Encoding: chunked\r\n");
  expect_400(head + "1;" + std::string(10'000, 'x'));
  std::string trailers = head + "0\r\n";
  for (int i = 0; i < 2000; i++) trailers += "Trailer: x\r\n";
  expect_400(trailers);
}

TEST(RequestParser, AcceptsManySmallChunks) {
  std::string text = with_headers("Transfer-Encoding: chunked\r\n");
  for (int i = 0; i < 1000; i++) text += "1\r\nx\r\n";
  text += "0\r\n\r\n";
  EXPECT_EQ(parse(text, 64).status, Status::kComplete);
}

TEST(RequestParser, StopsAtTheEndOfARequest) {
  RequestParser parser(kLimits);
  const std::string text = with_headers("Content-Length: 2\r\n") + "abGET /next HTTP/1.1\r\n";
  std::string_view data = text;
  EXPECT_EQ(parser.feed(data), Status::kComplete);
  EXPECT_EQ(parser.request().body, "ab");
  EXPECT_EQ(data, "GET /next HTTP/1.1\r\n");
  parser.next();
  EXPECT_EQ(parser.feed(data), Status::kHead);
}

TEST(RequestParser, StopsAtTheEndOfAChunkedRequest) {
  RequestParser parser(kLimits);
  const std::string text =
      with_headers("Transfer-Encoding: chunked\r\n") + "2\r\nab\r\n0\r\n\r\nGET /";
  std::string_view data = text;
  EXPECT_EQ(parser.feed(data), Status::kComplete);
  EXPECT_EQ(data, "GET /");
}

TEST(RequestParser, IgnoresEmptyLinesBeforeARequest) {
  EXPECT_EQ(parse("\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 100).status, Status::kComplete);
  EXPECT_EQ(parse("\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 1).status, Status::kComplete);
}

TEST(RequestParser, TreatsAnUpgradeAsAnOrdinaryRequest) {
  RequestParser parser(kLimits);
  const std::string text =
      with_headers("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nContent-Length: 2\r\n") +
      "ok";
  std::string_view data = text;
  EXPECT_EQ(parser.feed(data), Status::kComplete);
  EXPECT_EQ(parser.request().body, "ok");
}

TEST(RequestParser, ReadsKeepAlive) {
  const auto keep_alive = [](std::string_view text) {
    RequestParser parser(kLimits);
    EXPECT_EQ(parser.feed(text), Status::kComplete);
    return parser.keep_alive();
  };
  EXPECT_TRUE(keep_alive("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_FALSE(keep_alive("GET / HTTP/1.1\r\nHost: h\r\nConnection: te, Close\r\n\r\n"));
  EXPECT_FALSE(keep_alive("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(keep_alive("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
}

TEST(RequestParser, HeaderValuesLoseTheSpaceAroundThem) {
  RequestParser parser(kLimits);
  std::string_view text = "GET / HTTP/1.1\r\nHost:  h \t\r\nEmpty:\r\nX: a b \r\n\r\n";
  ASSERT_EQ(parser.feed(text), Status::kComplete);
  EXPECT_EQ(parser.request().headers.get("Host"), "h");
  EXPECT_EQ(parser.request().headers.get("Empty"), "");
  EXPECT_EQ(parser.request().headers.get("X"), "a b");
}

TEST(RequestParser, TheAuthorityOfAnAbsoluteTargetIsTakenOff) {
  const auto target_of = [](std::string_view line) {
    const std::string text = "GET " + std::string(line) + " HTTP/1.1\r\nHost: h\r\n\r\n";
    RequestParser parser(kLimits);
    std::string_view data = text;
    EXPECT_EQ(parser.feed(data), Status::kComplete) << line;
    return parser.request().target;
  };
  EXPECT_EQ(target_of("http://h:8980/a/b?c=d://e"), "/a/b?c=d://e");
  EXPECT_EQ(target_of("HTTP://h/"), "/");
  EXPECT_EQ(target_of("http://h"), "/");
  EXPECT_EQ(target_of("http://h?x=1"), "/?x=1");
  EXPECT_EQ(target_of("/see?http://h/a"), "/see?http://h/a");
}

TEST(RequestParser, WhoSpeaksSomethingElseIsToldAtOnce) {
  expect_400("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"s);
  expect_400("GET / HTTP/1.1\nHost: h\n\n");
  expect_400("GET / HTTP/1.1\nHost: h\n\r\n");
  expect_400("GET / HTTP/1.1\r\nHost: h\n");
}

}  // namespace
}  // namespace lambent::http
