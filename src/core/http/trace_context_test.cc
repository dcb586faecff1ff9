#include "core/http/trace_context.h"

#include <gtest/gtest.h>

namespace lambent::http {
namespace {

std::string trace_of(const char* name, const std::string& value) {
  Headers headers;
  headers.add(name, value);
  return trace_id_of(headers);
}

TEST(TraceContext, ATraceparentBecomesAnXRayIdWithoutLoss) {
  EXPECT_EQ(trace_of("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            "Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=b7ad6b7169203331;Sampled=1");
  EXPECT_EQ(trace_of("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"),
            "Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=b7ad6b7169203331;Sampled=0");
  EXPECT_EQ(trace_of("X-Amzn-Trace-Id", "Root=1-a-b"), "Root=1-a-b");
}

TEST(TraceContext, MalformedOnesAreIgnored) {
  for (const char* text : {"", "00-", "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                           "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                           "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                           "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x"}) {
    EXPECT_EQ(trace_of("traceparent", text), "") << text;
  }
  EXPECT_EQ(trace_of("X-Amzn-Trace-Id", std::string(1000, 'x')), "");
  EXPECT_EQ(trace_of("X-Amzn-Trace-Id", "a\tb"), "");
}

constexpr InvocationId kInvocation{0x0e6c9d1e4f2c4c33, 0x9a526f1b1b3f0f7a};
constexpr const char* kTheirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(TraceContext, AProgramIsBelowTheSpanOfItsInvocation) {
  Headers headers;
  headers.add("traceparent", kTheirs);
  headers.add("TraceState", "vendor=1");
  const std::string trace = trace_id_of(headers);
  for (int times = 0; times < 2; ++times) {  // the second time changes nothing
    set_trace_context(headers, trace, kInvocation);
    EXPECT_EQ(headers.get("traceparent"),
              "00-0af7651916cd43dd8448eb211c80319c-9a526f1b1b3f0f7a-01");
    EXPECT_EQ(headers.get("tracestate"), "vendor=1");
    EXPECT_FALSE(headers.contains("X-Amzn-Trace-Id"));
  }
}

TEST(TraceContext, WithoutACallersTraceTheInvocationsOwnIsWritten) {
  Headers headers;
  headers.add("tracestate", "vendor=1");  // of no trace
  set_trace_context(headers, "", kInvocation);
  EXPECT_EQ(headers.get("traceparent"), "00-0e6c9d1e4f2c4c339a526f1b1b3f0f7a-9a526f1b1b3f0f7a-01");
  EXPECT_FALSE(headers.contains("tracestate"));
}

TEST(TraceContext, AnXRayIdIsReplacedAndTheTracestateOfAnotherTraceGoes) {
  Headers headers;
  headers.add("X-Amzn-Trace-Id",
              "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=0");
  headers.add("traceparent", kTheirs);
  headers.add("tracestate", "vendor=1");
  set_trace_context(headers, trace_id_of(headers), kInvocation);
  EXPECT_EQ(headers.get("X-Amzn-Trace-Id"),
            "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=9a526f1b1b3f0f7a;Sampled=0");
  EXPECT_EQ(headers.get("traceparent"), "00-5759e988bd862e3fe1be46a994272793-9a526f1b1b3f0f7a-00");
  EXPECT_FALSE(headers.contains("tracestate"));
}

}  // namespace
}  // namespace lambent::http
