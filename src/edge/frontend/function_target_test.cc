#include "edge/frontend/function_target.h"

#include <gtest/gtest.h>

#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

constexpr std::string_view kDomain = "lambent.localhost";

std::optional<FunctionTarget> target_of(const std::string& target,
                                        const std::string& host = "localhost:8980") {
  return function_target(request_of("GET", target, "", {{"Host", host}}), kDomain);
}

TEST(FunctionTarget, APathNamesTheFunctionAndTheRestIsTheProgramsPath) {
  EXPECT_EQ(target_of("/f/web/a/b?c=d%2F"), (FunctionTarget{"web", "/a/b?c=d%2F", "/f/web"}));
  EXPECT_EQ(target_of("/f/web"), (FunctionTarget{"web", "/", "/f/web"}));
  EXPECT_EQ(target_of("/f/web?x"), (FunctionTarget{"web", "/?x", "/f/web"}));
  EXPECT_EQ(target_of("/f/web//f/other"), (FunctionTarget{"web", "//f/other", "/f/web"}));
}

TEST(FunctionTarget, TheWorkersOwnPathsAreNoFunctions) {
  for (const char* path : {"/", "/f", "/v1/functions", "/livez", "/2015-03-31/functions/f/web"}) {
    EXPECT_EQ(target_of(path), std::nullopt) << path;
  }
}

TEST(FunctionTarget, AHostBelowTheDomainIsTheFunctionsForEveryPath) {
  EXPECT_EQ(target_of("/v1/functions?a", "web.lambent.localhost:8980"),
            (FunctionTarget{"web", "/v1/functions?a", ""}));
  EXPECT_EQ(target_of("/f/other/", "WEB.Lambent.localhost"),
            (FunctionTarget{"web", "/f/other/", ""}));
  EXPECT_EQ(target_of("*", "web.lambent.localhost"), (FunctionTarget{"web", "/*", ""}));
}

TEST(FunctionTarget, OtherHostsNameNoFunction) {
  for (const char* host : {"lambent.localhost", ".lambent.localhost", "a.b.lambent.localhost",
                           "weblambent.localhost", "web.lambent.localhost.evil.example"}) {
    EXPECT_EQ(target_of("/v1/functions", host), std::nullopt) << host;
  }
  EXPECT_EQ(function_target(request_of("GET", "/", "", {{"Host", "web.lambent.localhost"}}), ""),
            std::nullopt);
}

TEST(FunctionTarget, APathOfTheInferenceProtocolNamesTheModelAndStaysWhole) {
  for (const char* path :
       {"/v2/models/resnet", "/v2/models/resnet/a/ready", "/v2/models/resnet/config?x"}) {
    EXPECT_EQ(target_of(path), (FunctionTarget{"resnet", path, "", Protocol::kInference})) << path;
  }
  for (const char* path : {"/v2/models/resnet/versions/12", "/v2/models/resnet/versions/12/infer",
                           "/v2/models/resnet/versions/12?x"}) {
    EXPECT_EQ(target_of(path), (FunctionTarget{"resnet", path, "", Protocol::kInference, "12"}))
        << path;
  }
  EXPECT_EQ(target_of("/v2/models/resnet/versions/")->model_version, "");
  FunctionTarget load{"resnet", "/v2/repository/models/resnet/load", "", Protocol::kInference};
  load.loads_model = true;
  EXPECT_EQ(target_of("/v2/repository/models/resnet/load"), load);
  for (const char* path :
       {"/v2", "/v2/models", "/v2/health/ready", "/v2/repository/index",
        "/v2/repository/models/resnet/unload", "/v2/repository/models/a/b/load"}) {
    EXPECT_EQ(target_of(path), std::nullopt) << path;
  }
}

TEST(FunctionTarget, OfAModelItIsToldWhetherItsReadinessIsAskedFor) {
  for (const char* path : {"/v2/models/m/ready", "/v2/models/m/ready?x",
                           "/v2/models/m/versions/2/ready", "/v2/models/ready/ready"}) {
    EXPECT_TRUE(target_of(path)->asks_readiness) << path;
  }
  for (const char* path :
       {"/v2/models/ready", "/v2/models/m/versions/ready", "/v2/models/m/stats",
        "/v2/models/m/versions/2/infer", "/f/m/ready", "/v2/repository/models/ready/load"}) {
    EXPECT_FALSE(target_of(path)->asks_readiness) << path;
  }
}

TEST(FunctionTarget, APathMayNameTheTenantToo) {
  FunctionTarget target{"web", "/a?b", "/t/team/f/web"};
  target.tenant = "team";
  EXPECT_EQ(target_of("/t/team/f/web/a?b"), target);
  for (const char* path : {"/t", "/t/", "/t/team", "/t/team/web", "/t//f/web", "/t/team/f"}) {
    EXPECT_EQ(target_of(path), std::nullopt) << path;
  }
}

// Clients of the Open Inference Protocol encode the ':' before an alias.
TEST(FunctionTarget, NamesMayBeEncodedAndTheProgramsPathStaysAsItIs) {
  EXPECT_EQ(target_of("/f/w%65b%3Aprod/a%2Fb"),
            (FunctionTarget{"web:prod", "/a%2Fb", "/f/w%65b%3Aprod"}));
  EXPECT_EQ(target_of("/f/w%6"), (FunctionTarget{"w%6", "/", "/f/w%6"}));
  EXPECT_EQ(target_of("/f/a%2Fb/c"), (FunctionTarget{"a/b", "/c", "/f/a%2Fb"}));
  FunctionTarget of_team{"web", "/", "/t/te%61m/f/web"};
  of_team.tenant = "team";
  EXPECT_EQ(target_of("/t/te%61m/f/web/"), of_team);
  for (const std::string path : {"/v2/models/m%3Aprod", "/v2/models/m%3Aprod/infer",
                                 "/v2/repository/models/m%3Aprod/load"}) {
    EXPECT_EQ(target_of(path)->name, "m:prod") << path;
    EXPECT_EQ(target_of(path)->target, path);
  }
  EXPECT_EQ(target_of("/v2/models/m%3Aprod/versions/2/ready")->model_version, "2");
}

TEST(FunctionTarget, AFunctionWithoutANameIsNotTheApiEither) {
  EXPECT_EQ(target_of("/f/"), (FunctionTarget{"", "/", "/f/"}));
}

}  // namespace
}  // namespace lambent::frontend
