#include "edge/frontend/version_frontend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/http/multipart.h"
#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class VersionsOfNative : public testing::Test {
 protected:
  static json settings() {
    return {{"Runtime", "python3.11"}, {"Role", "any"}, {"Handler", "app.handler"}};
  }
  http::Response send(const std::string& method, const std::string& target,
                      const std::string& body = "", const std::string& type = "") {
    http::Request request{.method = method, .target = target};
    request.body = body;
    if (!type.empty()) request.headers.add("Content-Type", type);
    auto seen = std::make_shared<Exchanged>();
    EXPECT_TRUE(is_version_path(method, http::path_of(target))) << target;
    frontend_.handle(Caller(), std::move(request), responder_to(seen));
    EXPECT_TRUE(seen->response.has_value());
    return seen->response.value_or(http::Response{.status = 0});
  }
  http::Response deploy_parts(const std::vector<http::Part>& parts, const std::string& query = "") {
    const http::MultipartBody made = http::make_multipart(parts, "XX");
    return send("PUT", "/v1/functions/f" + query, made.body, made.content_type);
  }
  http::Response deploy(const json& settings, const std::string& query = "",
                        const std::string& code = "PK zip") {
    const std::string text = settings.dump();
    std::vector<http::Part> parts = {{"settings", text}};
    if (!code.empty()) parts.push_back({"code", code});
    return deploy_parts(parts, query);
  }

  FakeService service_;
  FakeVersions versions_{service_};
  VersionFrontend frontend_{service_, versions_};
};

TEST_F(VersionsOfNative, OneCallDeploysCodeAndSettings) {
  const auto created = deploy(settings());
  ASSERT_EQ(created.status, 201) << created.body;
  EXPECT_EQ(json::parse(created.body)["action"], "created");
  ASSERT_EQ(service_.changes.size(), 1u);
  EXPECT_EQ(service_.changes[0].zip, "PK zip");

  json other = settings();
  other["MemorySize"] = 1024;
  other["Environment"] = {{"Variables", {{"KEY", "secret"}}}};
  const auto updated = deploy(other);
  ASSERT_EQ(updated.status, 200) << updated.body;
  ASSERT_EQ(service_.changes.size(), 2u) << "one change";
  const json body = json::parse(updated.body);
  EXPECT_EQ(body["action"], "updated");
  EXPECT_EQ(body["revision"], 2);
  EXPECT_EQ(body["changes"].size(), 2u) << body;
  EXPECT_EQ(body["changes"][0],
            json({{"field", "environment.KEY"}, {"from", nullptr}, {"to", "***"}}));
  EXPECT_EQ(body["changes"][1]["field"], "memory_bytes");
  EXPECT_THAT(updated.body, testing::Not(HasSubstr("\"to\":\"secret\"")));
}

TEST_F(VersionsOfNative, AFunctionThatBecomesOneOfAnotherKindIsToldAsSuch) {
  const json handler = settings();
  json web = settings();
  web["Tags"]["lambent:kind"] = "http";
  web["Handler"] = "python3 server.py";
  json model = web;
  model["Handler"] = "lambent-model-server model.onnx";
  const auto change = [this](const json& to, const std::string& query = "") {
    const json body = json::parse(deploy(to, query).body);
    if (!body.contains("kind_change")) return std::string("none");
    return body["kind_change"]["from"].get<std::string>() + " -> " +
           body["kind_change"]["to"].get<std::string>();
  };
  EXPECT_EQ(change(handler), "none") << "it is new";
  EXPECT_EQ(change(model, "?dry_run=1"), "handler -> model");
  EXPECT_EQ(change(model), "handler -> model");
  EXPECT_EQ(change(model), "none");
  EXPECT_EQ(change(web), "model -> http");
  EXPECT_EQ(change(handler), "http -> handler");
}

TEST_F(VersionsOfNative, ADryRunSaysWhatWouldChange) {
  deploy(settings());
  json other = settings();
  other["Timeout"] = 60;
  const json body = json::parse(deploy(other, "?dry_run=1").body);
  EXPECT_EQ(body["dry_run"], true);
  EXPECT_THAT(body["changes"].dump(), HasSubstr("\"field\":\"timeout_ns\""));
  EXPECT_TRUE(service_.changes.back().dry_run);
}

TEST_F(VersionsOfNative, CodeThatTheWorkerHasNeedNotBeSent) {
  deploy(settings());
  FunctionSpec kept;
  kept.code_sha256 = "abc=";
  kept.code_size = Bytes(77);
  versions_.revisions = {{kept, true}};
  EXPECT_EQ(deploy(settings(), "?code_sha256=abc%3D", "").status, 200);
  EXPECT_EQ(service_.changes.back().spec.code_sha256, "abc=");
  EXPECT_EQ(service_.changes.back().spec.code_size, Bytes(77));
  const auto unknown = deploy(settings(), "?code_sha256=other", "");
  EXPECT_EQ(unknown.status, 412);
  EXPECT_THAT(unknown.body, HasSubstr("the worker does not have this code"));
}

TEST_F(VersionsOfNative, WhatDiffersFromTheCodeThatItHasIsEnough) {
  deploy(settings());
  versions_.parts = CodeParts{"abc=", {{"p1=", Bytes(10)}, {"p2=", Bytes(5)}}};
  const auto parts = send("GET", "/v1/functions/f/code/parts");
  EXPECT_EQ(parts.status, 200);
  EXPECT_EQ(
      json::parse(parts.body),
      json({{"code_sha256", "abc="},
            {"parts", {{{"sha256", "p1="}, {"bytes", 10}}, {{"sha256", "p2="}, {"bytes", 5}}}}}));
  EXPECT_EQ(send("POST", "/v1/functions/f/code/parts").status, 405);
  EXPECT_EQ(send("GET", "/v1/functions/f/code/others").status, 404);
  versions_.parts.reset();
  EXPECT_EQ(send("GET", "/v1/functions/f/code/parts").status, 404);

  const std::string text = settings().dump();
  const std::vector<http::Part> changed = {{"settings", text}, {"delta", "steps"}};
  EXPECT_EQ(deploy_parts(changed, "?code_sha256=new%3D&base_sha256=abc%3D").status, 200);
  const FunctionChange& change = service_.changes.back();
  EXPECT_EQ(change.delta, "steps");
  EXPECT_EQ(change.delta_base, "abc=");
  EXPECT_EQ(change.spec.code_sha256, "new=");
  EXPECT_TRUE(change.zip.empty());
  const size_t made = service_.changes.size();
  for (const char* query : {"", "?code_sha256=new%3D", "?base_sha256=abc%3D"}) {
    const auto refused = deploy_parts(changed, query);
    EXPECT_EQ(refused.status, 400) << query;
    EXPECT_THAT(refused.body, HasSubstr("base_sha256")) << query;
  }
  const std::vector<http::Part> both = {{"settings", text}, {"delta", "steps"}, {"code", "PK"}};
  EXPECT_EQ(deploy_parts(both, "?code_sha256=new%3D&base_sha256=abc%3D").status, 400);
  EXPECT_EQ(
      deploy_parts({{"settings", text}, {"delta", ""}}, "?code_sha256=n&base_sha256=b").status,
      400);
  EXPECT_EQ(service_.changes.size(), made);
}

TEST_F(VersionsOfNative, ADeploymentOfAnotherRevisionIsAFailedPrecondition) {
  EXPECT_EQ(deploy(settings(), "?revision=1").status, 412) << "there is none yet";
  deploy(settings());
  EXPECT_EQ(deploy(settings(), "?revision=1").status, 200);
  const auto stale = deploy(settings(), "?revision=1");
  EXPECT_EQ(stale.status, 412);
  EXPECT_THAT(stale.body, HasSubstr("is at revision 2, not at 1"));
}

TEST_F(VersionsOfNative, WhatIsNoDeploymentIsRefused) {
  EXPECT_EQ(send("PUT", "/v1/functions/f", "{}", "application/json").status, 400);
  EXPECT_EQ(deploy(json::array()).status, 400);
  EXPECT_EQ(deploy(json::object()).status, 400);
  EXPECT_EQ(deploy_parts({{"code", "PK"}}).status, 400);
  EXPECT_EQ(deploy_parts({{"settings", "{}"}, {"more", "x"}}).status, 400);
  const std::string text = settings().dump();
  EXPECT_EQ(deploy_parts({{"settings", text}, {"code", ""}}).status, 400);
  EXPECT_EQ(deploy(settings(), "?revision=x").status, 400);
  EXPECT_TRUE(service_.changes.empty());
}

TEST_F(VersionsOfNative, VersionsAliasesAndRevisionsHavePathsBelowTheFunction) {
  deploy(settings());
  const auto published = send("POST", "/v1/functions/f/versions", R"({"description": "one"})");
  ASSERT_EQ(published.status, 201) << published.body;
  EXPECT_EQ(json::parse(published.body)["version"], "1");
  for (const char* number : {"0", "-1", "1.5", "\"2\"", "1000000000000000000",
                             "9223372036854775807", "18446744073709551615"}) {
    const std::string body = std::string(R"({"version": )") + number + "}";
    EXPECT_EQ(send("POST", "/v1/functions/f/versions", body).status, 400) << number;
  }
  EXPECT_EQ(json::parse(send("GET", "/v1/functions/f/versions").body)["versions"].size(), 1u);
  const auto alias = send("PUT", "/v1/functions/f/aliases/prod", R"({"version": "1"})");
  EXPECT_EQ(alias.status, 201) << alias.body;
  EXPECT_EQ(send("PUT", "/v1/functions/f/aliases/prod", R"({"version": "$LATEST"})").status, 200);
  EXPECT_EQ(send("PUT", "/v1/functions/f/aliases/7", R"({"version": "1"})").status, 400);
  EXPECT_EQ(send("PUT", "/v1/functions/f/aliases/prod", "[]").status, 400);
  EXPECT_EQ(json::parse(send("GET", "/v1/functions/f/aliases").body)["aliases"][0]["version"],
            "$LATEST");
  EXPECT_EQ(send("DELETE", "/v1/functions/f/aliases/prod").status, 200);
  EXPECT_EQ(send("DELETE", "/v1/functions/f/aliases/prod").status, 404);
  EXPECT_EQ(send("DELETE", "/v1/functions/f/versions/1").status, 200);
  EXPECT_EQ(send("DELETE", "/v1/functions/f/versions/one").status, 400);
  EXPECT_EQ(send("GET", "/v1/functions/f/revisions").status, 200);
  const auto back = send("POST", "/v1/functions/f/rollback?revision=1");
  EXPECT_EQ(back.status, 200) << back.body;
  EXPECT_EQ(versions_.rollbacks.back(), 1u);
  EXPECT_EQ(send("POST", "/v1/functions/f/rollback?revision=-").status, 400);
  EXPECT_EQ(send("GET", "/v1/functions/f/rollback").status, 405);
  EXPECT_EQ(send("PUT", "/v1/functions/f/versions/1/more").status, 404);
}

}  // namespace
}  // namespace lambent::frontend
