// Functions in Lambda's JSON: every field that has a name there is written and read.
#include "edge/frontend/function_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/domain/testing/every_field.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

TEST(FunctionJson, IsWrittenAsItAlwaysWas) {
  FunctionSpec spec = with_every_field_set();
  spec.last_modified = seconds(1'700'000'000) + milliseconds(120);
  EXPECT_EQ(to_json(spec).dump(),
            R"({"Architectures":["x86_64"],"CodeSha256":"code_sha256","CodeSize":314572800,)"
            R"("Description":"description","Environment":{"Variables":{"environment":"1"}},)"
            R"("EphemeralStorage":{"Size":300},)"
            R"("FunctionArn":"arn:aws:lambda:us-east-1:000000000000:function:name",)"
            R"("FunctionName":"name","Handler":"handler",)"
            R"("LastModified":"2023-11-14T22:13:20.120+0000","LastUpdateStatus":"Successful",)"
            R"("MemorySize":300,"PackageType":"Zip",)"
            R"("RevisionId":"00000000-0000-0005-0000-000000000028","Role":"role",)"
            R"("Runtime":"python3.11","SnapStart":{"ApplyOn":"None","OptimizationStatus":"Off"},)"
            R"("State":"Active","Timeout":7,"TracingConfig":{"Mode":"PassThrough"},)"
            R"("Version":"$LATEST"})");
}

TEST(FunctionJson, AChangeThatGoesOnOrFailedShowsAsLambdasStates) {
  const FunctionSpec spec = with_every_field_set();
  EXPECT_EQ(to_json(spec, std::nullopt), to_json(spec));
  const json warned = to_json(spec, std::nullopt, "no CUDA here");
  EXPECT_EQ(warned["State"], "Active");
  EXPECT_EQ(warned["StateReason"], "no CUDA here");
  DeploymentStatus status{.spec = spec, .creates = true, .progress = "compiling", .failure = {}};
  json shown = to_json(spec, status);
  EXPECT_EQ(shown["State"], "Pending");
  EXPECT_EQ(shown["StateReason"], "compiling");
  EXPECT_EQ(shown["LastUpdateStatus"], "Successful");
  status.failure = Error{ErrorCode::kInvalidArgument, "there is no numpy 99"};
  shown = to_json(spec, status);
  EXPECT_EQ(shown["State"], "Failed");
  EXPECT_EQ(shown["StateReason"], "there is no numpy 99");
  EXPECT_EQ(shown["StateReasonCode"], "INVALID_ARGUMENT");
  status = {.spec = spec, .creates = false, .progress = "", .failure = {}};
  shown = to_json(spec, status);
  EXPECT_EQ(shown["State"], "Active");
  EXPECT_EQ(shown["LastUpdateStatus"], "InProgress");
  EXPECT_EQ(shown["LastUpdateStatusReason"], "installing the function's Python packages");
}

TEST(FunctionJson, HasNoEnvironmentWithoutVariables) {
  EXPECT_FALSE(to_json(FunctionSpec()).contains("Environment"));
  EXPECT_EQ(to_json(FunctionSpec())["LastModified"], "1970-01-01T00:00:00.000+0000");
}

// Expects what a patch may change to be that of one function, and the rest that of another.
struct ExpectPatched {
  template <typename Value>
  void operator()(const FunctionField& field, const Value& spec, const Value& patch,
                  const Value& before) {
    const bool changes = field.role == FieldRole::kSetting && !field.lambda.empty();
    EXPECT_EQ(spec, changes || field.column == "runtime" ? patch : before) << field.column;
  }
};

TEST(FunctionJson, APatchChangesEverySettingOfLambdasAndNothingElse) {
  FunctionSpec wanted = with_every_field_set();
  wanted.handler = "app.handler";
  FunctionSpec before;
  before.name.name = "before";
  json object = to_json(wanted);
  object.erase("SnapStart");  // what we report of it is no request
  const auto patch = read_patch(object);
  ASSERT_TRUE(patch.ok()) << to_string(patch.error());
  const auto patched = apply_patch(before, *patch);
  ASSERT_TRUE(patched.ok()) << to_string(patched.error());
  ExpectPatched expect;
  visit_fields(expect, *patched, std::as_const(wanted), std::as_const(before));
}

TEST(FunctionJson, AnEmptyPatchChangesNothing) {
  FunctionSpec before;
  before.name.name = "before";
  before.environment = {{"A", "b"}};
  before.timeout = seconds(9);
  const auto patch = read_patch({{"Timeout", nullptr}, {"Environment", nullptr}});
  ASSERT_TRUE(patch.ok());
  EXPECT_EQ(*apply_patch(before, *patch), before);
}

TEST(FunctionJson, AnEnvironmentWithoutVariablesTakesThemAway) {
  FunctionSpec before;
  before.name.name = "before";
  before.environment = {{"A", "b"}};
  const auto patch = read_patch({{"Environment", json::object()}});
  ASSERT_TRUE(patch.ok());
  EXPECT_TRUE(apply_patch(before, *patch)->environment.empty());
}

TEST(FunctionJson, AWrongValueIsNamed) {
  const std::pair<json, const char*> cases[] = {
      {{{"Description", 1}}, "Description must be a string"},
      {{{"Handler", 1}}, "Handler must be a string"},
      {{{"Role", 1}}, "Role must be a string"},
      {{{"Runtime", 1}}, "Runtime must be a string"},
      {{{"Timeout", "1"}}, "Timeout must be a whole number"},
      {{{"Timeout", -1}}, "Timeout is out of range"},
      {{{"MemorySize", 1.5}}, "MemorySize must be a whole number"},
      {{{"MemorySize", 1'000'001}}, "MemorySize is out of range"},
      {{{"Environment", 1}}, "Environment must be an object"},
      {{{"Environment", {{"Variables", 1}}}}, "Variables must be an object of strings"},
      {{{"Environment", {{"Variables", {{"A", 1}}}}}}, "Variables.A must be a string"},
      {{{"Description", std::string(257, 'd')}}, "Description has at most 256 bytes"},
      {{{"Layers", {"l"}}},
       "Layers are named by the ARN of a version, such as "
       "arn:aws:lambda:us-east-1:000000000000:layer:torch:3"},
  };
  for (const auto& [object, message] : cases) {
    const auto patch = read_patch(object);
    ASSERT_FALSE(patch.ok()) << object;
    EXPECT_EQ(patch.error().message, message);
  }
}

}  // namespace
}  // namespace lambent::frontend
