#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/domain/limits.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/lambda_name.h"
#include "edge/frontend/route_scopes.h"

namespace lambent::frontend {
namespace {

TEST(JsonText, IsReadOnlySoDeep) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(parse_json(nested(limits::kJsonDepth)).ok());
  EXPECT_FALSE(parse_json(nested(limits::kJsonDepth + 1)).ok());
  EXPECT_FALSE(parse_json(std::string(1'000'000, '[')).ok());
  EXPECT_TRUE(parse_json("\"" + std::string(100, '[') + "\\\"[\"").ok());
  EXPECT_FALSE(parse_json("{\"a\":").ok());
  EXPECT_FALSE(parse_json("").ok());
  EXPECT_FALSE(parse_json("\"\xff\"").ok());
}

TEST(JsonText, ALongStringIsTakenOutBeforeParsing) {
  const std::string value(10'000, 'A');
  const std::string text = R"({"a":"\"ZipFile\":","Code": {"ZipFile" : ")" + value + R"("},"b":1})";
  const CutJson cut = cut_long_string(text, "ZipFile");
  EXPECT_EQ(cut.cut, value);
  const auto parsed = parse_json(cut.text);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ((*parsed)["Code"]["ZipFile"], kCutMark);
  EXPECT_EQ((*parsed)["b"], 1);
}

TEST(JsonText, WhatIsShortEscapedOrUnfinishedStays) {
  for (const std::string& text :
       {std::string(R"({"ZipFile":"short"})"),
        R"({"ZipFile":")" + std::string(9000, 'A') + R"(\/"})",
        R"({"ZipFile":")" + std::string(9000, 'A'), std::string("\"ZipFile\""),
        R"({"x\"ZipFile":")" + std::string(9000, 'A') + "\"}", std::string(R"({"ZipFile":)")}) {
    const CutJson cut = cut_long_string(text, "ZipFile");
    EXPECT_EQ(cut.text, text);
    EXPECT_TRUE(cut.cut.empty());
  }
}

TEST(LambdaName, EveryFormNamesTheSameFunction) {
  for (const char* text :
       {"f-1", "f-1:$LATEST", "123456789012:function:f-1", "function:f-1",
        "123456789012:function:f-1:$LATEST", "arn:aws:lambda:eu-west-1:123456789012:function:f-1",
        "arn:aws-cn:lambda:us-east-1:123456789012:function:f-1:$LATEST"}) {
    const auto name = qualified_lambda_name(text, "");
    ASSERT_TRUE(name.ok()) << text;
    EXPECT_EQ(*name, "f-1");
  }
  EXPECT_EQ(*qualified_lambda_name(arn_of("f"), "$LATEST"), "f");
}

TEST(LambdaName, AQualifierStandsInTheNameOrBesideIt) {
  EXPECT_EQ(*qualified_lambda_name("f:prod", ""), "f:prod");
  EXPECT_EQ(*qualified_lambda_name("f", "1"), "f:1");
  EXPECT_EQ(*qualified_lambda_name(arn_of("f:2"), "2"), "f:2");
  EXPECT_EQ(qualified_lambda_name("f:$LATEST", "1").error().code, ErrorCode::kInvalidArgument);
  for (const std::string& bad : {std::string("$latest"), std::string("a:b"), std::string("a b"),
                                 std::string(129, 'a'), std::string("../x")}) {
    EXPECT_EQ(qualified_lambda_name("f", bad).error().code, ErrorCode::kInvalidArgument) << bad;
  }
}

TEST(LambdaName, WhatIsNoNameIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("a b"), std::string("../x"), std::string("f:"),
        std::string("f:a:b"), std::string(65, 'x'), std::string(1000, ':'), std::string("f\n"),
        std::string("arn:aws:s3:::bucket"), std::string("arn:aws:lambda:r:12:function:f"),
        std::string("arn:aws:lambda:us-east-1:123456789012:layer:f")}) {
    const auto name = qualified_lambda_name(text, "");
    ASSERT_FALSE(name.ok()) << text;
    EXPECT_EQ(name.error().code, ErrorCode::kInvalidArgument) << text;
  }
}

TEST(LayerArn, IsReadWhateverItsRegionAndAccountAre) {
  const auto layer = parse_layer_arn("arn:aws-cn:lambda:eu-north-1:123456789012:layer:torch:3");
  ASSERT_TRUE(layer.ok()) << to_string(layer.error());
  EXPECT_EQ(*layer, (LayerReference{"torch", 3}));
  EXPECT_EQ(*parse_layer_arn(layer_arn_of(*layer)), *layer);
  for (const std::string& text :
       {std::string(), std::string("torch:3"), layer_arn_of("torch"), arn_of("torch:3"),
        layer_arn_of("torch") + ":0", layer_arn_of("torch") + ":x", layer_arn_of("a b") + ":1",
        layer_arn_of("torch") + ":3:4", layer_arn_of("a,b") + ":1", std::string(1000, ':')}) {
    EXPECT_EQ(parse_layer_arn(text).error().code, ErrorCode::kInvalidArgument) << text;
  }
}

TEST(RouteScopes, LayersAreChangedByThoseWhoDeploy) {
  const std::string layers = "/2018-10-31/layers";
  for (const char* method : {"POST", "DELETE", "PUT"}) {
    const RouteScopes needed = scopes_of(method, layers + "/torch/versions/1");
    EXPECT_TRUE(needed.any_of.has(Scope::kDeploy)) << method;
    EXPECT_FALSE(needed.any_of.has(Scope::kInvoke)) << method;
    EXPECT_FALSE(needed.any_of.has(Scope::kRead)) << method;
    EXPECT_TRUE(needed.audited) << method;
  }
  EXPECT_TRUE(scopes_of("GET", layers).any_of.has(Scope::kRead));
  EXPECT_FALSE(scopes_of("GET", layers).audited);
}

}  // namespace
}  // namespace lambent::frontend
