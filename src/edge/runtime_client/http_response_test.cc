#include "edge/runtime_client/http_response.h"

#include <gtest/gtest.h>

namespace lambent::runtime_client {
namespace {

TEST(HttpResponseTest, AResponseIsIncompleteUntilItsLastByte) {
  const std::string text =
      "HTTP/1.1 200 OK\r\nLambda-Runtime-Aws-Request-Id: 8f\r\nContent-Length: 5\r\n\r\nhello";
  HttpResponse response;
  for (size_t size = 0; size < text.size(); ++size) {
    const auto parsed = parse_response(text.substr(0, size), response);
    ASSERT_TRUE(parsed.ok()) << size;
    EXPECT_FALSE(*parsed) << size;
  }
  const std::string more = text + "HTTP/1.1 202";
  ASSERT_TRUE(*parse_response(more, response));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.content(), "hello");
  EXPECT_EQ(response.header("lambda-runtime-aws-request-id"), "8f");
  EXPECT_EQ(response.consumed, text.size());
  EXPECT_TRUE(response.keep_alive);
}

TEST(HttpResponseTest, ChunksAreJoined) {
  const std::string text =
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: Close\r\n\r\n"
      "3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n";
  HttpResponse response;
  for (size_t size = 0; size < text.size(); ++size) {
    ASSERT_FALSE(*parse_response(text.substr(0, size), response)) << size;
  }
  ASSERT_TRUE(*parse_response(text, response));
  EXPECT_EQ(response.content(), "abc0123456789");
  EXPECT_EQ(response.consumed, text.size());
  EXPECT_FALSE(response.keep_alive);
}

TEST(HttpResponseTest, WhatIsNoResponseIsRefused) {
  const std::string head = "HTTP/1.1 200 OK\r\n";
  for (const std::string& text :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("HTTP/2 200 OK\r\n\r\n"),
        std::string("HTTP/1.1 2x0 OK\r\n\r\n"), head + "\r\n", head + "no colon\r\n\r\n",
        head + "Content-Length: -1\r\n\r\n", head + "Content-Length: 1e3\r\n\r\n",
        head + "Content-Length: 99999999999\r\n\r\n", head + "Bad Name: 1\r\n\r\n",
        head + "Transfer-Encoding: gzip\r\n\r\n",
        head + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
        head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", std::string(70000, 'x')}) {
    HttpResponse response;
    EXPECT_FALSE(parse_response(text, response).ok()) << text.substr(0, 80);
  }
}

}  // namespace
}  // namespace lambent::runtime_client
