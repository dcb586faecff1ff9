#include "edge/frontend/graph_frontend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "core/http/multipart.h"
#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Headers = std::vector<std::pair<std::string, std::string>>;

const std::string kDigest(64, 'a');

// Keeps graphs as functions of the service, which run them.
class FakeGraphs final : public KernelGraphService {
 public:
  explicit FakeGraphs(FakeService& service) : service_(service) {}

  Result<KeptGraph> find_graph(TenantId tenant, const std::string& digest) override {
    const auto found = kept.find({tenant, digest});
    if (found == kept.end()) return Error{ErrorCode::kNotFound, "graph is not here"};
    return found->second;
  }
  void put_graph(TenantId tenant, std::string digest, std::string package,
                 Callback<KeptGraph> done) override {
    ++puts;
    if (refusal) return done(*refusal);
    const FunctionName name{tenant, std::string(kKeptGraphPrefix) + digest.substr(0, 12)};
    service_.functions[name].name = name;
    kept[{tenant, digest}] = {digest, name, Bytes(package.size()), Bytes::mib(2), seconds(5)};
    done(kept[{tenant, digest}]);
  }
  std::vector<KeptGraph> list_graphs(TenantId tenant) const override {
    std::vector<KeptGraph> list;
    for (const auto& [key, graph] : kept) {
      if (key.first == tenant) list.push_back(graph);
    }
    return list;
  }
  Result<KeptGraph> remove_graph(TenantId tenant, const std::string& digest) override {
    auto found = find_graph(tenant, digest);
    kept.erase({tenant, digest});
    return found;
  }

  std::map<std::pair<TenantId, std::string>, KeptGraph> kept;
  std::optional<Error> refusal;
  int puts = 0;

 private:
  FakeService& service_;
};

class GraphFrontendTest : public testing::Test {
 protected:
  http::Response send(const std::string& method, const std::string& path, std::string body = "",
                      const Headers& headers = {}) {
    auto seen = std::make_shared<Exchanged>();
    frontend_.handle(caller_, request_of(method, "/v1/graphs" + path, std::move(body), headers),
                     responder_to(seen));
    EXPECT_TRUE(seen->response.has_value()) << method << " " << path;
    return seen->response.value_or(http::Response{.status = 0});
  }
  http::Response run(std::string body, const Headers& headers = {}) {
    return send("POST", "/" + kDigest + "/invocations", std::move(body), headers);
  }
  http::Response run_with(const std::vector<http::Part>& parts) {
    auto form = http::make_multipart(parts, "boundary");
    return run(std::move(form.body), {{"Content-Type", form.content_type}});
  }
  static std::string message_of(const http::Response& response) {
    return json::parse(response.body)["error"]["message"];
  }

  Caller caller_;
  FakeService service_;
  FakeGraphs graphs_{service_};
  SeededRandom random_{1};
  GraphFrontend frontend_{&graphs_, service_, random_};
};

TEST_F(GraphFrontendTest, ARequestForAGraphThatIsNotKeptSaysSoInAWayThatClientsCanTell) {
  const auto response = run("{}");
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.headers.get("x-lambent-error-type"), "Graph.NotFound");
  EXPECT_TRUE(service_.submitted.empty());
}

TEST_F(GraphFrontendTest, ARequestBringsItsGraphAndTheNextOneOnlyNamesIt) {
  const auto first = run_with({{"package", "PK"}, {"request", "{\"inputs\":[]}"}});
  EXPECT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(first.body, "{\"inputs\":[]}");
  EXPECT_EQ(first.headers.get("Content-Type"), "application/json");
  const auto second = run("raw", {{"Content-Type", "application/octet-stream"}});
  EXPECT_EQ(second.status, 200) << second.body;
  EXPECT_EQ(second.headers.get("Content-Type"), "application/octet-stream");
  EXPECT_EQ(graphs_.puts, 1);
  ASSERT_EQ(service_.submitted.size(), 2u);
  EXPECT_EQ(service_.submitted[1].function.name, "graph@aaaaaaaaaaaa");
  EXPECT_NE(service_.submitted[0].id, service_.submitted[1].id);
}

TEST_F(GraphFrontendTest, BytesOfAllInputsComeBesideTheGraphAsWell) {
  EXPECT_EQ(run_with({{"package", "PK"}, {"raw", std::string_view("\0\1", 2)}}).status, 200);
  EXPECT_EQ(service_.submitted[0].content_type, "application/octet-stream");
  EXPECT_EQ(service_.submitted[0].payload, std::string("\0\1", 2));
}

TEST_F(GraphFrontendTest, WhatIsWrongWithTheGraphIsTheAnswerAndNothingRuns) {
  graphs_.refusal = Error{ErrorCode::kInvalidArgument, "graph.json: steps[0].kernel"};
  const auto response = run_with({{"package", "PK"}});
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(message_of(response), HasSubstr("steps[0].kernel"));
  EXPECT_TRUE(service_.submitted.empty());
}

TEST_F(GraphFrontendTest, PartsThatDoNotFitAreRefusedByName) {
  EXPECT_THAT(message_of(run_with({{"request", "{}"}})), HasSubstr("'package' is missing"));
  EXPECT_THAT(message_of(run_with({{"package", "a"}, {"package", "b"}})), HasSubstr("twice"));
  EXPECT_THAT(message_of(run_with({{"package", "a"}, {"raw", ""}, {"request", ""}})),
              HasSubstr("exclude each other"));
  EXPECT_THAT(message_of(run_with({{"package", "a"}, {"inputs", ""}})),
              HasSubstr("no part 'inputs'"));
  EXPECT_EQ(graphs_.puts, 0);
}

TEST_F(GraphFrontendTest, WhoMayOnlyInvokeRunsWhatIsKeptAndBringsNothing) {
  send("PUT", "/" + kDigest, "PK");
  caller_.scopes = {Scope::kInvoke};
  EXPECT_EQ(run("{}").status, 200);
  const auto refused = run_with({{"package", "PK"}});
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(message_of(refused), HasSubstr("scope deploy"));
}

TEST_F(GraphFrontendTest, AFailedRunIsAnErrorWithItsCodeAndItsType) {
  send("PUT", "/" + kDigest, "PK");
  service_.behaviour = [](const InvocationRequest& request) {
    InvocationResult result;
    result.id = request.id;
    result.outcome = Outcome::kFunctionError;
    result.error_type = "Request.Invalid";
    result.error = Error{ErrorCode::kInvalidArgument, "inputs[0].data[2]: no number"};
    return result;
  };
  const auto response = run("{}");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.headers.get("x-lambent-error-type"), "Request.Invalid");
  EXPECT_THAT(message_of(response), HasSubstr("inputs[0].data[2]"));
}

TEST_F(GraphFrontendTest, OutputsThatStayAreNamedAtOnce) {
  send("PUT", "/" + kDigest, "PK");
  service_.hold = true;
  const auto response = run("{}", {{"X-Lambent-Outputs", "2"}});
  EXPECT_EQ(response.status, 202);
  EXPECT_EQ(json::parse(response.body)["objects"].size(), 2u);
  EXPECT_EQ(service_.submitted[0].outputs, 2u);
}

TEST_F(GraphFrontendTest, KeptGraphsAreListedAndRemoved) {
  send("PUT", "/" + kDigest, "PK");
  const auto listed = json::parse(send("GET", "").body);
  ASSERT_EQ(listed["graphs"].size(), 1u);
  EXPECT_EQ(listed["graphs"][0]["digest"], kDigest);
  EXPECT_EQ(listed["graphs"][0]["package_bytes"], 2);
  EXPECT_EQ(send("DELETE", "/" + kDigest).status, 200);
  EXPECT_EQ(send("DELETE", "/" + kDigest).status, 404);
}

TEST_F(GraphFrontendTest, PathsAndMethodsThatThereAreNotAreRefused) {
  EXPECT_EQ(send("GET", "/" + kDigest).status, 405);
  EXPECT_EQ(send("POST", "").status, 405);
  EXPECT_EQ(send("PUT", "/" + std::string(64, 'A'), "PK").status, 400);
  EXPECT_EQ(send("PUT", "/abc", "PK").status, 400);
  EXPECT_EQ(send("PUT", "/" + kDigest, "").status, 400);
  EXPECT_EQ(send("POST", "/" + kDigest + "/other", "").status, 404);
  EXPECT_EQ(run("{}", {{"X-Lambent-Outputs", "0"}}).status, 400);
}

}  // namespace
}  // namespace lambent::frontend
