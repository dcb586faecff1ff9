#include "core/telemetry/invocation_spans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lambent::telemetry {
namespace {

using testing::Contains;

InvocationRequest request() {
  InvocationRequest request;
  request.id = {0x0e6c9d1e4f2c4c33, 0x9a526f1b1b3f0f7a};
  request.function = {TenantId{3}, "hello"};
  request.trace_id = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
  return request;
}

InvocationResult result() {
  InvocationResult result;
  result.start = StartClass::kCold;
  result.phases = {.queue = milliseconds(4),
                   .sandbox = milliseconds(2),
                   .init = milliseconds(80),
                   .run = milliseconds(226)};
  return result;
}

TEST(InvocationSpans, EachPhaseThatTookTimeIsASpanBelowTheInvocations) {
  const std::vector<Span> spans = spans_of(request(), result(), seconds(100));
  ASSERT_EQ(spans.size(), 5u);  // no memory
  EXPECT_EQ(spans[0].name, "hello");
  EXPECT_EQ(spans[0].parent, "53995c3f42cd8ad8");
  EXPECT_EQ(spans[0].end - spans[0].begin, milliseconds(312));
  Duration begin = spans[0].begin;
  const char* names[] = {"queue", "sandbox", "init", "run"};
  for (size_t i = 1; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].name, names[i - 1]);
    EXPECT_EQ(spans[i].trace, "5759e988bd862e3fe1be46a994272793");
    EXPECT_EQ(spans[i].parent, spans[0].id);
    EXPECT_NE(spans[i].id, spans[i - 1].id);
    EXPECT_EQ(spans[i].begin, begin);
    begin = spans[i].end;
  }
  EXPECT_EQ(begin, seconds(100));
  EXPECT_THAT(spans[0].attributes, Contains(Attribute("faas.coldstart", true)));
}

TEST(InvocationSpans, NameAllGpusOfARun) {
  InvocationResult pair = result();
  pair.device = DeviceId(1);
  pair.beside = {DeviceId(2), DeviceId(4)};
  EXPECT_THAT(spans_of(request(), pair, seconds(1))[0].attributes,
              Contains(Attribute("lambent.gpu", std::string("0,1,3"))));
}

TEST(InvocationSpans, AFailureSaysWhatFailed) {
  InvocationResult failed = result();
  failed.outcome = Outcome::kRejected;
  failed.error = Error{ErrorCode::kCancelled, "it was cancelled"};
  const Span span = spans_of(request(), failed, seconds(1))[0];
  EXPECT_TRUE(span.failed);
  EXPECT_EQ(span.message, "it was cancelled");
  EXPECT_THAT(span.attributes, Contains(Attribute("error.type", std::string("CANCELLED"))));
}

TEST(InvocationSpans, WhatTheCallerDoesNotSampleHasNone) {
  InvocationRequest quiet = request();
  quiet.trace_id.back() = '0';
  EXPECT_TRUE(spans_of(quiet, result(), seconds(1)).empty());
}

// As protoc would write it, by hand: a request with one span of two fields.
TEST(Otlp, FieldsHaveTheNumbersOfOpenTelemetrysMessages) {
  const Span span{.trace = "0102030405060708090a0b0c0d0e0f10",
                  .id = "1112131415161718",
                  .name = std::string("a\xFF"),
                  .begin = nanoseconds(1),
                  .end = nanoseconds(2)};
  const std::string bytes = traces_request({}, {span});
  std::string wanted("\x0a\x10\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10",
                     18);
  wanted += std::string("\x12\x08\x11\x12\x13\x14\x15\x16\x17\x18", 10);
  wanted += std::string(
      "\x2a\x02"
      "a?\x30\x01",
      6);  // what is no UTF-8 is '?'
  wanted += std::string("\x39\x01\0\0\0\0\0\0\0\x41\x02\0\0\0\0\0\0\0", 18);
  EXPECT_NE(bytes.find(wanted), std::string::npos);
}

}  // namespace
}  // namespace lambent::telemetry
