// publish, versions, alias, revisions and rollback: what they send and say.
#include "edge/cli/versions.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "edge/cli/testing/verbs_testing.h"

namespace lambent::cli {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

class VersionVerbs : public Verbs {};

TEST_F(VersionVerbs, PublishSaysUnderWhichNumber) {
  transport.answer(response(201, R"({"version":"3"})"));
  EXPECT_EQ(run_publish(transport, console,
                        {.function = "hello", .description = "the third", .version = {}}),
            0)
      << err.str();
  EXPECT_EQ(out.str(), "published hello:3\n");
  EXPECT_EQ(transport.requests[0].method, "POST");
  EXPECT_EQ(transport.requests[0].target, "/v1/functions/hello/versions");
  EXPECT_EQ(Json::parse(transport.requests[0].body), Json({{"description", "the third"}}));
}

TEST_F(VersionVerbs, AnAliasIsSetWithASecondVersion) {
  transport.answer(
      response(201, R"({"name":"prod","version":"1","second":"2","second_share":0.1})"));
  EXPECT_EQ(run_alias_set(transport, console,
                          {.function = "hello",
                           .alias = "prod",
                           .version = "1",
                           .second = "2=0.1",
                           .description = ""}),
            0)
      << err.str();
  EXPECT_EQ(out.str(), "hello:prod -> 1 (90%), 2 (10%)\n");
  EXPECT_EQ(transport.requests[0].method, "PUT");
  EXPECT_EQ(transport.requests[0].target, "/v1/functions/hello/aliases/prod");
  EXPECT_EQ(Json::parse(transport.requests[0].body),
            Json({{"version", "1"}, {"second", "2"}, {"second_share", 0.1}}));
  for (const char* bad : {"2", "=0.1", "2=", "2=much", "2=0.1x"}) {
    EXPECT_EQ(run_alias_set(transport, console,
                            {.function = "hello",
                             .alias = "prod",
                             .version = "1",
                             .second = bad,
                             .description = ""}),
              exit_code_of(ErrorCode::kInvalidArgument))
        << bad;
  }
  EXPECT_EQ(transport.requests.size(), 1u);
}

TEST_F(VersionVerbs, ListsAreTables) {
  transport.answer(response(200, R"({"versions":[{"version":"1","description":"first",
      "code_sha256":"abcdefghijklmnop","code_bytes":2048,"published_at":1795839720}]})"));
  EXPECT_EQ(run_versions_ls(transport, console, "hello"), 0);
  EXPECT_THAT(out.str(),
              testing::AllOf(HasSubstr("VERSION"), HasSubstr("abcdefghijkl "), HasSubstr("first")));
  transport.answer(response(200, R"({"aliases":[{"name":"prod","version":"1"}]})"));
  EXPECT_EQ(run_alias_ls(transport, console, "hello"), 0);
  EXPECT_THAT(out.str(), HasSubstr("prod"));
  transport.answer(response(200, R"({"revisions":[{"revision":7,"current":true},
      {"revision":6}]})"));
  EXPECT_EQ(run_revisions(transport, console, "hello"), 0);
  EXPECT_THAT(out.str(), HasSubstr("serves"));
}

TEST_F(VersionVerbs, RollbackNamesTheRevisionIfThereIsOne) {
  transport.answer(response(200, R"({"action":"updated","revision":8})"));
  EXPECT_EQ(run_rollback(transport, console, "hello", {}), 0);
  EXPECT_EQ(out.str(), "updated hello, now at revision 8\n");
  EXPECT_EQ(transport.requests[0].target, "/v1/functions/hello/rollback");
  out.str("");
  transport.answer(response(
      200, R"({"action":"updated","revision":9,"kind_change":{"from":"model","to":"handler"}})"));
  EXPECT_EQ(run_rollback(transport, console, "hello", {}), 0);
  EXPECT_EQ(out.str(), "updated hello, now at revision 9 and of kind handler\n");
  transport.answer(response(404, R"({"error":{"code":"NOT_FOUND","message":"kept are 7"}})"));
  EXPECT_EQ(run_rollback(transport, console, "hello", 3), exit_code_of(ErrorCode::kNotFound));
  EXPECT_EQ(transport.requests[2].target, "/v1/functions/hello/rollback?revision=3");
  EXPECT_THAT(err.str(), HasSubstr("kept are 7"));
}

TEST_F(VersionVerbs, RemovalGoesOnAfterAFailure) {
  transport.answer(response(412, R"({"error":{"code":"FAILED_PRECONDITION","message":"prod"}})"));
  transport.answer(response(200, R"({"version":"2"})"));
  EXPECT_EQ(run_versions_rm(transport, console, "hello", {"1", "2"}),
            exit_code_of(ErrorCode::kFailedPrecondition));
  EXPECT_EQ(out.str(), "removed hello:2\n");
  transport.answer(response(200, R"({"name":"prod"})"));
  EXPECT_EQ(run_alias_rm(transport, console, "hello", "prod"), 0);
  EXPECT_EQ(transport.requests.back().method, "DELETE");
}

}  // namespace
}  // namespace lambent::cli
