#include "core/domain/trace_id.h"

#include <gtest/gtest.h>

namespace lambent {
namespace {

constexpr InvocationId kInvocation{0x0e6c9d1e4f2c4c33, 0x9a526f1b1b3f0f7a};
constexpr const char* kXray = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;";

TEST(TraceId, XRaysFormIsReadAsOpenTelemetrysIds) {
  const TracePlace place = trace_place_of(std::string(kXray) + "Sampled=1", kInvocation);
  EXPECT_EQ(place.trace, "5759e988bd862e3fe1be46a994272793");
  EXPECT_EQ(place.parent, "53995c3f42cd8ad8");
  EXPECT_TRUE(place.sampled);
  EXPECT_FALSE(trace_place_of(std::string(kXray) + "Sampled=0", kInvocation).sampled);
}

TEST(TraceId, WithoutAGoodOneTheInvocationIsATraceOfItsOwn) {
  for (const char* bad : {"", "Root=", "Root=1-5759e988-BD862E3FE1BE46A994272793", "Root=1-2;;=;x",
                          "Root=2-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8"}) {
    const TracePlace place = trace_place_of(bad, kInvocation);
    EXPECT_EQ(place.trace, "0e6c9d1e4f2c4c339a526f1b1b3f0f7a") << bad;
    EXPECT_EQ(place.parent, "") << bad;
  }
}

TEST(TraceId, ACallStaysInTheTraceAndHasTheCallerAsItsParent) {
  EXPECT_EQ(trace_id_below(std::string(kXray) + "Sampled=0", kInvocation),
            "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=9a526f1b1b3f0f7a;Sampled=0");
  const TracePlace below = trace_place_of(trace_id_below("", kInvocation), {1, 2});
  EXPECT_EQ(below.trace, trace_place_of("", kInvocation).trace);
  EXPECT_EQ(below.parent, span_id_of(kInvocation));
  EXPECT_EQ(traceparent_below(std::string(kXray) + "Sampled=0", kInvocation),
            "00-5759e988bd862e3fe1be46a994272793-9a526f1b1b3f0f7a-00");
  EXPECT_EQ(traceparent_below("", kInvocation),
            "00-0e6c9d1e4f2c4c339a526f1b1b3f0f7a-9a526f1b1b3f0f7a-01");
}

}  // namespace
}  // namespace lambent
