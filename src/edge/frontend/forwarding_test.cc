#include "edge/frontend/forwarding.h"

#include <gtest/gtest.h>

#include "edge/frontend/cluster_frontend.h"

namespace lambent::frontend {
namespace {

using http::Destination;

std::optional<Forwarding> of(const std::string& method, const std::string& target,
                             const std::vector<std::pair<std::string, std::string>>& headers = {}) {
  http::Request request{.method = method, .target = target};
  request.headers.add("Host", "localhost");
  for (const auto& [name, value] : headers) request.headers.set(name, value);
  return forwarding_of(request, "lambent.localhost");
}

const std::string kInvoke = "/2015-03-31/functions/f/invocations";

TEST(Forwarding, WhatVolumesAreAskedForGoesToTheNodeThatKeepsThem) {
  for (const char* method : {"GET", "PUT", "DELETE"}) {
    EXPECT_EQ(of(method, "/v1/volumes/w/files/a/b"), (Forwarding{Destination::kHomeOnly, ""}));
  }
  EXPECT_EQ(of("GET", "/v1/volumes")->destination, Destination::kHomeOnly);
  EXPECT_EQ(of("GET", "/v1/volumes/w/uploads/a?size=1")->destination, Destination::kHomeOnly);
  EXPECT_FALSE(of("GET", "/v1/volumes", {{"X-Lambent-Only-Here", "true"}}));
  EXPECT_EQ(of("POST", "/2018-10-31/layers/torch/versions")->destination, Destination::kHomeOnly);
  EXPECT_EQ(of("GET", "/2018-10-31/layers")->destination, Destination::kHomeOnly);
}

TEST(ForwardingTest, InvocationsGoToAnyNode) {
  EXPECT_EQ(of("POST", kInvoke), (Forwarding{Destination::kAnyNode, "f"}));
  EXPECT_EQ(of("POST", kInvoke, {{"X-Amz-Invocation-Type", "Event"}}),
            (Forwarding{Destination::kAnyNodeAndMore, "f"}));
  EXPECT_EQ(of("GET", "/f/web/page?x=1"), (Forwarding{Destination::kAnyNode, "web"}));
  EXPECT_EQ(of("GET", "/page", {{"Host", "web.lambent.localhost"}}),
            (Forwarding{Destination::kAnyNode, "web"}));
  EXPECT_EQ(of("POST", "/v2/models/net/infer"), (Forwarding{Destination::kAnyNode, "net"}));
}

TEST(ForwardingTest, RequestsForModelsGoWhereTheirFunctionRuns) {
  EXPECT_FALSE(of("POST", "/v1/chat/completions")) << "its body names the model";
  EXPECT_EQ(of("POST", "/v1/chat/completions", {{"X-Lambent-Serving-Function", "chat"}}),
            (Forwarding{Destination::kAnyNode, "chat"}));
  EXPECT_EQ(of("GET", "/v1/realtime?model=m", {{"X-Lambent-Serving-Function", "chat"}}),
            (Forwarding{Destination::kAnyNode, "chat"}));
  EXPECT_EQ(of("GET", "/v1/models"), (Forwarding{Destination::kHomeOrHere, ""}));
  EXPECT_EQ(of("GET", "/v1/models/org/large"), (Forwarding{Destination::kHomeOrHere, ""}));
}

TEST(ForwardingTest, GraphsRunElsewhereOnlyIfNotHere) {
  const std::string digest = "0123456789abcdef" + std::string(48, '0');
  EXPECT_EQ(of("POST", "/v1/graphs/" + digest + "/invocations"),
            (Forwarding{Destination::kHereOrAnyNode, "graph@0123456789ab", true}));
  EXPECT_EQ(of("PUT", "/v1/graphs/" + digest),
            (Forwarding{Destination::kHereOrAnyNode, "graph@0123456789ab", true}));
  EXPECT_EQ(of("DELETE", "/v1/graphs/" + digest), (Forwarding{Destination::kAllWhoKnow, ""}));
  EXPECT_FALSE(of("GET", "/v1/graphs"));
  EXPECT_FALSE(of("PUT", "/v1/graphs/" + digest, {{"X-Lambent-Only-Here", "true"}}));
}

TEST(ForwardingTest, QualifiersStandInTheNameOrTheQuery) {
  EXPECT_EQ(of("POST", kInvoke + "?Qualifier=prod")->function, "f:prod");
  EXPECT_EQ(of("POST", kInvoke + "?Qualifier=$LATEST")->function, "f");
  EXPECT_EQ(of("POST", "/2015-03-31/functions/f%3A3/invocations")->function, "f:3");
}

TEST(ForwardingTest, WhatNeedsOrMakesObjectsGoesToAnyNode) {
  EXPECT_EQ(of("POST", kInvoke, {{"X-Lambent-Needs", "x.0"}})->destination, Destination::kAnyNode);
  EXPECT_EQ(of("POST", kInvoke, {{"X-Amz-Client-Context", "e30="}})->destination,
            Destination::kAnyNode);
  EXPECT_EQ(of("POST", "/v1/functions/f/invocations"), (Forwarding{Destination::kAnyNode, "f"}));
}

TEST(ForwardingTest, ObjectsAreBroughtHereDescribedByWhoHasThemAndRemovedEverywhere) {
  EXPECT_FALSE(of("GET", "/v1/objects/x.0"));
  EXPECT_FALSE(of("PUT", "/v1/objects/x.0"));
  EXPECT_FALSE(of("GET", "/v1/objects"));
  EXPECT_EQ(of("HEAD", "/v1/objects/x.0")->destination, Destination::kWhoKnows);
  EXPECT_EQ(of("DELETE", "/v1/objects/x.0")->destination, Destination::kAllWhoKnow);
  EXPECT_FALSE(of("HEAD", "/v1/objects/x.0", {{"X-Lambent-Only-Here", "true"}}));
}

TEST(ForwardingTest, StreamedInvocationsGoWhereOthersDo) {
  const std::string path = "/2021-11-15/functions/f/response-streaming-invocations";
  EXPECT_EQ(of("POST", path.c_str()), (Forwarding{Destination::kAnyNode, "f"}));
  EXPECT_EQ(of("POST", (path + "?Qualifier=3").c_str())->function, "f:3");
  EXPECT_FALSE(of("POST", path.c_str(), {{"X-Amz-Invocation-Type", "DryRun"}}));
}

TEST(ForwardingTest, ChangesOfTheCatalogGoHomeAndReadsMayStay) {
  EXPECT_EQ(of("PUT", "/v1/functions/f"), (Forwarding{Destination::kHome, "f", true}));
  EXPECT_EQ(of("POST", "/v1/functions/f/rollback")->destination, Destination::kHome);
  EXPECT_EQ(of("PUT", "/v1/functions/f/aliases/prod")->destination, Destination::kHome);
  EXPECT_EQ(of("GET", "/v1/functions/f/versions")->destination, Destination::kHomeOrHere);
  EXPECT_EQ(of("POST", "/2015-03-31/functions")->destination, Destination::kHome);
  EXPECT_EQ(of("DELETE", "/2015-03-31/functions/f")->destination, Destination::kHome);
  EXPECT_EQ(of("PUT", "/2015-03-31/functions/f/code")->destination, Destination::kHome);
  EXPECT_EQ(of("GET", "/2015-03-31/functions/f")->destination, Destination::kHomeOrHere);
}

TEST(ForwardingTest, PipelinesAreShownAndMeasuredWhereTheyAreUnlessOneNodeIsMeant) {
  EXPECT_EQ(of("GET", "/v1/functions/f/pipeline"), (Forwarding{Destination::kAnyNode, "f"}));
  EXPECT_EQ(of("POST", "/v1/functions/f/profile"), (Forwarding{Destination::kAnyNode, "f"}));
  EXPECT_FALSE(of("GET", "/v1/functions/f/pipeline", {{"X-Lambent-Only-Here", "true"}}));
}

TEST(ForwardingTest, ResultsAreSoughtAndTheRestIsTheNodesOwn) {
  EXPECT_EQ(of("GET", "/v1/invocations/x")->destination, Destination::kWhoKnows);
  EXPECT_EQ(of("POST", "/v1/invocations/x/cancel")->destination, Destination::kWhoKnows);
  for (const char* path : {"/livez", "/readyz", "/metrics", "/v1/functions", "/v1/sandboxes",
                           "/v1/devices", "/v1/functions/f/log", "/v1/cluster", "/v1/tenants"}) {
    EXPECT_FALSE(of("GET", path)) << path;
  }
}

TEST(ClusterFrontendTest, MembersAreRead) {
  const auto told = read_members(
      R"({"source": "ray", "home": "b", "lease_seconds": 2.5, "members": [
          {"node": "b", "address": "http://10.0.0.2:1", "gpus": [{"name": "T4", "memory_bytes": 5}]}]})");
  ASSERT_TRUE(told.ok());
  EXPECT_EQ(told->source, "ray");
  EXPECT_EQ(told->home, "b");
  EXPECT_EQ(told->lease, milliseconds(2500));
  EXPECT_EQ(told->members,
            (std::vector<ClusterMember>{{"b", "http://10.0.0.2:1", {{"T4", Bytes(5)}}}}));
}

TEST(ClusterFrontendTest, WhatAreNoMembersIsRefused) {
  for (const char* text :
       {"", "[]", "{}", R"({"source": 1, "members": []})", R"({"source": "x"})",
        R"({"source": "x", "members": {}})", R"({"source": "x", "members": [1]})",
        R"({"source": "x", "lease_seconds": "5", "members": []})",
        R"({"source": "x", "lease_seconds": 0.5, "members": []})",
        R"({"source": "x", "members": [{"node": 1, "address": "a"}]})",
        R"({"source": "x", "members": [{"node": "a", "gpus": [{"memory_bytes": -1}]}]})"}) {
    const auto told = read_members(text);
    ASSERT_FALSE(told.ok()) << text;
    EXPECT_EQ(told.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace lambent::frontend
