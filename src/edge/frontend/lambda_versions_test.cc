// Versions and aliases in Lambda's API.
#include <gmock/gmock.h>

#include "core/domain/function_limits.h"
#include "edge/frontend/testing/lambda_testing.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class LambdaVersions : public LambdaTest {
 protected:
  LambdaVersions() { call_json("POST", kFunctions, create_body("f")); }

  json body_of(const http::Response& response) { return json::parse(response.body); }
  std::string publish(const json& request = json::object()) {
    const auto response = call_json("POST", kFunctions + "/f/versions", request);
    EXPECT_EQ(response.status, 201) << response.body;
    return body_of(response).value("Version", "?");
  }
  http::Response make_alias(const json& request) {
    return call_json("POST", kFunctions + "/f/aliases", request);
  }
};

TEST_F(LambdaVersions, APublishedVersionIsShownUnderItsNumber) {
  EXPECT_EQ(publish({{"Description", "first"}}), "1");
  EXPECT_EQ(publish(), "2");
  const json version = body_of(call("GET", kFunctions + "/f/configuration?Qualifier=1"));
  EXPECT_EQ(version["FunctionName"], "f");
  EXPECT_EQ(version["Version"], "1");
  EXPECT_EQ(version["Description"], "first");
  EXPECT_THAT(version["FunctionArn"].get<std::string>(), testing::EndsWith("function:f:1"));
  EXPECT_EQ(version["State"], "Active");
  const json whole = body_of(call("GET", kFunctions + "/f:2"));
  EXPECT_EQ(whole["Configuration"]["Version"], "2");
  const json list = body_of(call("GET", kFunctions + "/f/versions"));
  ASSERT_EQ(list["Versions"].size(), 3u);
  EXPECT_EQ(list["Versions"][0]["Version"], "$LATEST");
  EXPECT_EQ(list["Versions"][2]["Version"], "2");
}

TEST_F(LambdaVersions, AreListedPageByPage) {
  for (int i = 0; i < 3; ++i) publish();
  std::vector<std::string> seen;
  std::string marker;
  do {
    const json page = body_of(call("GET", kFunctions + "/f/versions?MaxItems=1" +
                                              (marker.empty() ? "" : "&Marker=" + marker)));
    ASSERT_EQ(page["Versions"].size(), 1u);
    seen.push_back(page["Versions"][0]["Version"]);
    marker = page.value("NextMarker", "");
  } while (!marker.empty() && seen.size() < 9);
  EXPECT_THAT(seen, testing::ElementsAre("$LATEST", "1", "2", "3"));
}

TEST_F(LambdaVersions, AreRemovedOneByOne) {
  publish();
  EXPECT_EQ(call("DELETE", kFunctions + "/f?Qualifier=1").status, 204);
  expect_fault(call("DELETE", kFunctions + "/f?Qualifier=1"), 404, "ResourceNotFoundException",
               "f:1");
  expect_fault(call("DELETE", kFunctions + "/f?Qualifier=prod"), 400,
               "InvalidParameterValueException", "DeleteAlias");
  EXPECT_EQ(call("GET", kFunctions + "/f").status, 200) << "the function stays";
}

TEST_F(LambdaVersions, AnAliasIsCreatedChangedShownAndDeleted) {
  publish();
  publish();
  const auto created =
      make_alias({{"Name", "prod"},
                  {"FunctionVersion", "1"},
                  {"RoutingConfig", {{"AdditionalVersionWeights", {{"2", 0.1}}}}}});
  ASSERT_EQ(created.status, 201) << created.body;
  const json alias = body_of(created);
  EXPECT_EQ(alias["FunctionVersion"], "1");
  EXPECT_EQ(alias["RoutingConfig"]["AdditionalVersionWeights"]["2"], 0.1);
  EXPECT_THAT(alias["AliasArn"].get<std::string>(), testing::EndsWith("function:f:prod"));
  expect_fault(make_alias({{"Name", "prod"}, {"FunctionVersion", "1"}}), 409,
               "ResourceConflictException", "alias");

  const std::string target = kFunctions + "/f/aliases/prod";
  EXPECT_EQ(body_of(call("GET", target)), alias);
  expect_fault(call_json("PUT", target, {{"FunctionVersion", "2"}, {"RevisionId", "stale"}}), 412,
               "PreconditionFailedException", "does not match");
  const json changed = body_of(call_json("PUT", target,
                                         {{"FunctionVersion", "2"},
                                          {"RoutingConfig", json::object()},
                                          {"RevisionId", alias["RevisionId"]}}));
  EXPECT_EQ(changed["FunctionVersion"], "2");
  EXPECT_FALSE(changed.contains("RoutingConfig"));
  EXPECT_NE(changed["RevisionId"], alias["RevisionId"]);
  EXPECT_EQ(body_of(call("GET", kFunctions + "/f/aliases"))["Aliases"].size(), 1u);
  EXPECT_EQ(body_of(call("GET", kFunctions + "/f/aliases?FunctionVersion=1"))["Aliases"].size(),
            0u);
  EXPECT_EQ(call("DELETE", target).status, 204);
  expect_fault(call("GET", target), 404, "ResourceNotFoundException", "prod");
}

TEST_F(LambdaVersions, BadAliasesAreRefused) {
  publish();
  publish();
  for (const json& bad : std::vector<json>{
           {{"Name", "a"}},
           {{"Name", "1"}, {"FunctionVersion", "1"}},
           {{"Name", "a b"}, {"FunctionVersion", "1"}},
           {{"Name", "a"}, {"FunctionVersion", "x"}},
           {{"Name", "a"}, {"FunctionVersion", 1}},
           {{"Name", "a"}, {"FunctionVersion", "1"}, {"RoutingConfig", 3}},
           {{"Name", "a"},
            {"FunctionVersion", "1"},
            {"RoutingConfig", {{"AdditionalVersionWeights", {{"2", 1.5}}}}}},
           {{"Name", "a"},
            {"FunctionVersion", "1"},
            {"RoutingConfig", {{"AdditionalVersionWeights", {{"2", "much"}}}}}},
           {{"Name", "a"},
            {"FunctionVersion", "1"},
            {"RoutingConfig", {{"AdditionalVersionWeights", {{"2", 0.1}, {"3", 0.1}}}}}}}) {
    expect_fault(make_alias(bad), 400, "InvalidParameterValueException", "");
  }
  expect_fault(
      call_json("POST", kFunctions + "/g/aliases", {{"Name", "a"}, {"FunctionVersion", "1"}}), 404,
      "ResourceNotFoundException", "function:g");
}

TEST_F(LambdaVersions, AnInvocationNamesTheVersionOrTheAlias) {
  publish();
  EXPECT_EQ(invoke("{}", {}, "f:1").headers.get("X-Amz-Executed-Version"), "1");
  EXPECT_EQ(call("POST", kFunctions + "/f/invocations?Qualifier=1", "{}").status, 200);
  EXPECT_EQ(service_.submitted.back().function.name, "f:1");
  call("POST", kFunctions + "/f/invocations?Qualifier=$LATEST", "{}");
  EXPECT_EQ(service_.submitted.back().function.name, "f");
}

TEST_F(LambdaVersions, ACallOnTheFunctionTakesNoQualifier) {
  publish();
  expect_fault(call_json("PUT", kFunctions + "/f:1/configuration", {{"Timeout", 5}}), 400,
               "InvalidParameterValueException", "versions never change");
}

TEST_F(LambdaVersions, ARevisionIdOfBeforeIsAFailedPrecondition) {
  expect_fault(call_json("POST", kFunctions + "/f/versions", {{"RevisionId", "stale"}}), 412,
               "PreconditionFailedException", "does not match");
}

TEST_F(LambdaVersions, ReservedConcurrencyIsTheSettingOfThatMeaning) {
  const std::string target = "/2017-10-31/functions/f/concurrency";
  EXPECT_EQ(call("GET", "/2019-09-30/functions/f/concurrency").body, "{}");
  EXPECT_EQ(call_json("PUT", target, {{"ReservedConcurrentExecutions", 7}}).status, 200);
  EXPECT_EQ(spec("f").max_concurrency, 7u);
  EXPECT_EQ(body_of(call("GET", "/2019-09-30/functions/f/concurrency")),
            json({{"ReservedConcurrentExecutions", 7}}));
  EXPECT_EQ(call("DELETE", target).status, 204);
  EXPECT_EQ(spec("f").max_concurrency, limits::kDefaultConcurrency);
  for (const json& bad : {json(0), json(-1), json("7"), json(1'000'000), json()}) {
    expect_fault(call_json("PUT", target, {{"ReservedConcurrentExecutions", bad}}), 400,
                 "InvalidParameterValueException", "ReservedConcurrentExecutions");
  }
}

TEST_F(LambdaVersions, CodeIsCheckedWithoutAChangeOrPublishedAtOnce) {
  const auto update = [&](const json& more) {
    json body = {{"ZipFile", base64_encode("PK other")}};
    body.update(more);
    return call_json("PUT", kFunctions + "/f/code", body);
  };
  EXPECT_EQ(update({{"DryRun", true}}).status, 200);
  EXPECT_TRUE(service_.changes.back().dry_run);
  EXPECT_EQ(update({{"Publish", true}}).status, 200);
  EXPECT_TRUE(service_.changes.back().publish);
}

TEST_F(LambdaVersions, ProvisionedConcurrencyIsOfAVersionOrAnAlias) {
  const std::string target = "/2019-09-30/functions/f/provisioned-concurrency";
  publish();
  make_alias({{"Name", "prod"}, {"FunctionVersion", "1"}});
  expect_fault(call("GET", target + "?Qualifier=1"), 404,
               "ProvisionedConcurrencyConfigNotFoundException", "f:1");
  const auto put = [&](const std::string& qualifier, const json& count) {
    return call_json("PUT", target + "?Qualifier=" + qualifier,
                     {{"ProvisionedConcurrentExecutions", count}});
  };
  versions_.ready[{kDefaultTenant, "f:1"}] = {.wanted = 2, .ready = 1};
  const auto made = put("1", 2);
  EXPECT_EQ(made.status, 202);
  json config = body_of(made);
  EXPECT_EQ(config["RequestedProvisionedConcurrentExecutions"], 2);
  EXPECT_EQ(config["AvailableProvisionedConcurrentExecutions"], 1);
  EXPECT_EQ(config["Status"], "IN_PROGRESS");
  versions_.ready[{kDefaultTenant, "f:1"}].failures = 3;
  EXPECT_EQ(body_of(call("GET", target + "?Qualifier=1"))["Status"], "FAILED");
  versions_.ready[{kDefaultTenant, "f:1"}] = {.wanted = 2, .ready = 2};
  EXPECT_EQ(body_of(call("GET", target + "?Qualifier=1"))["Status"], "READY");
  EXPECT_EQ(call("DELETE", target + "?Qualifier=1").status, 204);
  EXPECT_EQ(put("prod", 1).status, 202);
  const json list = body_of(call("GET", target + "?List=ALL"))["ProvisionedConcurrencyConfigs"];
  ASSERT_EQ(list.size(), 1u);
  EXPECT_THAT(list[0]["FunctionArn"].get<std::string>(), testing::EndsWith(":f:prod"));
  for (const json& bad : {json(0), json(-1), json("7"), json(1'000'000), json()}) {
    expect_fault(put("prod", bad), 400, "InvalidParameterValueException",
                 "ProvisionedConcurrentExecutions");
  }
  expect_fault(put("$LATEST", 1), 400, "InvalidParameterValueException", "min_instances");
  expect_fault(put("absent", 1), 404, "ResourceNotFoundException", "absent");
}

}  // namespace
}  // namespace lambent::frontend
