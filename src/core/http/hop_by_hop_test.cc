#include "core/http/hop_by_hop.h"

#include <gtest/gtest.h>

#include "core/http/forward_service.h"
#include "core/http/forward_words.h"

namespace lambent::http {
namespace {

TEST(HopByHop, WhatIsForOneConnectionIsNotPassedOn) {
  Headers headers;
  headers.add("Host", "h");
  headers.add("connection", "close, X-Own");
  headers.add("Transfer-Encoding", "chunked");
  headers.add("x-own", "1");
  headers.add("TE", "trailers");
  headers.add("X-Kept", "2");
  const Headers kept = end_to_end(headers);
  ASSERT_EQ(kept.fields().size(), 2u);
  EXPECT_EQ(kept.fields()[0].first, "Host");
  EXPECT_EQ(kept.fields()[1].first, "X-Kept");
}

TEST(HopByHop, WhatAMessageMeansIsNotTakenAwayByItsSender) {
  Headers headers;
  headers.add("Host", "h");
  headers.add("Connection", "host, cookie, Content-Length");
  headers.add("Cookie", "a=b");
  headers.add("Content-Length", "3");
  const Headers kept = end_to_end(headers);
  EXPECT_EQ(kept.fields().size(), 3u);
  EXPECT_EQ(kept.get("Host"), "h");
}

TEST(HopByHop, WhatNodesSayOfARequestNoProgramSays) {
  Headers answer;
  tell_not_begun(answer, ErrorCode::kUnavailable, "another reason");
  EXPECT_FALSE(answer.contains(kNotBegun));
  tell_not_begun(answer, ErrorCode::kUnavailable, stopping_error(true).message);
  EXPECT_FALSE(answer.contains(kNotBegun)) << "other steps of its run may have run";
  tell_not_begun(answer, ErrorCode::kUnavailable, stopping_error(false).message);
  EXPECT_TRUE(answer.contains(kNotBegun));
  EXPECT_FALSE(end_to_end(answer).contains(kNotBegun));
  answer.add(std::string(kNotHere), "true");
  EXPECT_FALSE(end_to_end(answer).contains(kNotHere)) << "or its request would run again";
}

TEST(HopByHop, ARequestAsksForAnotherProtocolInBothHeaders) {
  Headers headers;
  headers.add("Upgrade", "websocket");
  EXPECT_EQ(upgrade_of(headers), "");
  headers.add("Connection", "keep-alive, Upgrade");
  EXPECT_EQ(upgrade_of(headers), "websocket");
}

TEST(HopByHop, AnOfferOfHttp2IsPassedOver) {
  Headers headers;
  headers.add("Connection", "Upgrade, HTTP2-Settings");
  headers.add("Upgrade", "h2c");
  EXPECT_EQ(upgrade_of(headers), "");
  headers.set("Upgrade", "H2C, websocket");
  EXPECT_EQ(upgrade_of(headers), "");
}

TEST(PutOurs, OursWinAndWhatTheAnswerVariesByIsAdded) {
  Headers ours, program;
  ours.add("X-A", "ours");
  ours.add("Vary", "Origin");
  program.add("x-a", "theirs");
  program.add("Vary", "Accept-Encoding");
  put_ours(ours, program);
  EXPECT_EQ(program.get("X-A"), "ours");
  std::string varies;
  for (const auto& [name, value] : program.fields()) {
    if (same_name(name, "Vary")) varies += value + ";";
  }
  EXPECT_EQ(varies, "Accept-Encoding;Origin;");
}

}  // namespace
}  // namespace lambent::http
