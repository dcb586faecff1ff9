#include "decide/pipeline/pipeline_json.h"

#include <gtest/gtest.h>

#include "decide/pipeline/limits.h"

namespace lambent::pipeline {
namespace {

constexpr const char* kImages = R"({"pipeline": 1, "handler": "shop.app.App", "inputs": ["image"],
  "components": [
    {"name": "deblur", "inputs": ["$image"]},
    {"name": "super_resolution", "inputs": ["deblur"], "optional": true},
    {"name": "classify", "inputs": ["super_resolution", "$image"]}],
  "outputs": ["classify", "deblur"], "slo": {"ms": 200.5}, "batch": 4, "rank": "throughput", "isolation": "auto"})";

void expect_refused(const std::string& text, const std::string& message) {
  const auto definition = parse_pipeline(text);
  ASSERT_FALSE(definition.ok()) << text;
  EXPECT_EQ(definition.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(definition.error().message, message);
}
// The example with one thing changed.
void expect_refused_with(const std::string& from, const std::string& to,
                         const std::string& message) {
  std::string text = kImages;
  ASSERT_NE(text.find(from), text.npos) << from;
  expect_refused(text.replace(text.find(from), from.size(), to), message);
}
std::string chain_of(size_t count) {
  std::string components;
  for (size_t i = 0; i < count; ++i) {
    components += (i ? ", " : "") + std::string(R"({"name": "c)") + std::to_string(i) +
                  R"(", "inputs": [")" + (i ? "c" + std::to_string(i - 1) : "$x") + "\"]}";
  }
  return R"({"pipeline": 1, "handler": "a.B", "inputs": ["x"], "components": [)" + components +
         R"(], "outputs": ["c)" + std::to_string(count - 1) + "\"]}";
}

TEST(PipelineJson, SaysWhatTheAuthorWrote) {
  const auto definition = parse_pipeline(kImages);
  ASSERT_TRUE(definition.ok()) << definition.error().message;
  EXPECT_EQ(definition->handler, "shop.app.App");
  const Dag& dag = definition->dag;
  EXPECT_EQ(dag.inputs, std::vector<std::string>{"image"});
  ASSERT_EQ(dag.components.size(), 3u);
  EXPECT_EQ(dag.components[0].inputs, (std::vector<Source>{{Source::Kind::kInput, 0}}));
  EXPECT_FALSE(dag.components[0].optional);
  EXPECT_TRUE(dag.components[1].optional);
  EXPECT_EQ(dag.components[2].inputs,
            (std::vector<Source>{{Source::Kind::kComponent, 1}, {Source::Kind::kInput, 0}}));
  EXPECT_EQ(dag.outputs, (std::vector<size_t>{2, 0}));
  EXPECT_EQ(std::get<Duration>(definition->slo), microseconds(200'500));
  EXPECT_EQ(definition->most_batch, 4u);
  EXPECT_EQ(definition->rank, RankRule::kThroughput);
  EXPECT_EQ(definition->isolation, IsolationRule::kAuto);
}

TEST(PipelineJson, WhatIsNotSaidHasItsDefault) {
  const auto definition = parse_pipeline(chain_of(1));
  ASSERT_TRUE(definition.ok()) << definition.error().message;
  EXPECT_TRUE(std::holds_alternative<NoSlo>(definition->slo));
  EXPECT_EQ(definition->most_batch, 1u);
  EXPECT_EQ(definition->rank, std::nullopt);
  EXPECT_EQ(definition->isolation, IsolationRule::kSlices);
}

TEST(PipelineJson, ComesBackFromItsOwnText) {
  for (const std::string& text : {std::string(kImages), chain_of(5)}) {
    const auto definition = parse_pipeline(text);
    ASSERT_TRUE(definition.ok());
    const auto again = parse_pipeline(to_json(*definition));
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(*again, *definition);
  }
  auto scaled = parse_pipeline(chain_of(2));
  scaled->slo = SloScale{1.5};
  EXPECT_EQ(parse_pipeline(to_json(*scaled)).value(), *scaled);
}

TEST(PipelineJson, UnknownWordsAreRefusedWithTheirPlace) {
  expect_refused("{", "the pipeline is no JSON, at byte 2");
  expect_refused("[]", "the pipeline: an object is expected");
  expect_refused("{}", "the pipeline: 'pipeline' is missing");
  expect_refused_with("\"pipeline\": 1", "\"pipeline\": 2",
                      "pipeline: 1 is expected: the only form that is known");
  expect_refused_with("\"batch\"", "\"batchs\"",
                      "the pipeline: there is no 'batchs' here; did you mean 'batch'?");
  expect_refused_with("\"optional\"", "\"option\"",
                      "components[1] 'super_resolution': there is no 'option' here; did you mean "
                      "'optional'?");
  expect_refused_with("true", "1",
                      "components[1] 'super_resolution'.optional: true or false is expected");
  expect_refused_with("\"batch\": 4", "\"batch\": 4, \"batch\": 5",
                      "the pipeline: an object has 'batch' twice");
}

TEST(PipelineJson, AComponentStandsBeforeThoseThatNeedIt) {
  expect_refused_with("\"inputs\": [\"deblur\"]", "\"inputs\": [\"classify\"]",
                      "components[1] 'super_resolution'.inputs[0]: 'classify' stands behind it; a "
                      "component stands before those that need it, and none can wait for itself");
  expect_refused_with("\"inputs\": [\"deblur\"]", "\"inputs\": [\"super_resolution\"]",
                      "components[1] 'super_resolution'.inputs[0]: the component needs itself");
  expect_refused_with("\"inputs\": [\"deblur\"]", "\"inputs\": [\"deblurr\"]",
                      "components[1] 'super_resolution'.inputs[0]: there is no component "
                      "'deblurr'; did you mean 'deblur'?");
  expect_refused_with("\"inputs\": [\"deblur\"]", "\"inputs\": [\"image\"]",
                      "components[1] 'super_resolution'.inputs[0]: there is no component 'image'; "
                      "the input is written '$image'");
  expect_refused_with("[\"$image\"]}", "[\"$images\"]}",
                      "components[0] 'deblur'.inputs[0]: the function has no input '$images'; did "
                      "you mean 'image'?");
  expect_refused_with("[\"deblur\"]", "[]",
                      "components[1] 'super_resolution'.inputs: a list of at least one is "
                      "expected");
}

TEST(PipelineJson, NothingStandsThereTwiceOrForNothing) {
  expect_refused_with("\"super_resolution\", \"inputs\"", "\"deblur\", \"inputs\"",
                      "components[1].name: there are two components 'deblur'");
  expect_refused_with("[\"image\"]", "[\"image\", \"image\"]",
                      "inputs[1]: there are two inputs 'image'");
  expect_refused_with("[\"classify\", \"deblur\"]", "[\"classify\", \"classify\"]",
                      "outputs[1]: 'classify' stands there twice");
  expect_refused_with("[\"classify\", \"deblur\"]", "[\"deblur\"]",
                      "components[2] 'classify': nothing needs it, and it is no output of the "
                      "function");
}

TEST(PipelineJson, ValuesHaveTheirRange) {
  expect_refused_with("shop.app.App", "App",
                      "handler: a module and a class such as 'app.App' are expected");
  expect_refused_with("shop.app.App", "shop..App",
                      "handler: a module and a class such as 'app.App' are expected");
  expect_refused_with("{\"ms\": 200.5}", "{\"ms\": 0}", "slo.ms: more than 0 is expected");
  expect_refused_with("{\"ms\": 200.5}", "{\"ms\": 1e300}",
                      "slo.ms: a number from 0.0 to 86400000.0 is expected");
  expect_refused_with("{\"ms\": 200.5}", "{\"ms\": 1e999}", "the pipeline is no JSON, at byte 327");
  expect_refused_with("{\"ms\": 200.5}", "{\"scale\": -1}",
                      "slo.scale: a number from 0.0 to 1000.0 is expected");
  expect_refused_with("{\"ms\": 200.5}", "{\"ms\": 1, \"scale\": 1}",
                      "slo: either 'ms' or 'scale' is expected");
  expect_refused_with("{\"ms\": 200.5}", "{}", "slo: either 'ms' or 'scale' is expected");
  expect_refused_with("\"batch\": 4", "\"batch\": 0",
                      "batch: a whole number from 1 to 1024 is expected");
  expect_refused_with("\"throughput\"", "\"speed\"", "rank: 'balance' or 'throughput' is expected");
  expect_refused_with("\"auto\"", "\"alone\"",
                      "isolation: 'slices', 'shared' or 'auto' is expected");
  expect_refused_with("\"name\": \"deblur\"", "\"name\": \"de blur\"",
                      "components[0].name: 1 to 64 letters, digits, '-' and '_' are expected");
}

TEST(PipelineJson, AsManyComponentsAsTheLimitAndNoMore) {
  EXPECT_TRUE(parse_pipeline(chain_of(limits::kComponents)).ok());
  expect_refused(chain_of(limits::kComponents + 1),
                 "components: has 65 entries; at most 64 are taken");
  expect_refused("\"" + std::string(limits::kJson.count, 'x') + "\"",
                 "the pipeline: is larger than 1 MiB");
  const std::string deep(limits::kJsonDepth, '[');
  expect_refused_with("[\"deblur\"]", deep + std::string(deep.size(), ']'),
                      "components[1].inputs[0][0][0][0]: it is nested more than 8 deep");
}

}  // namespace
}  // namespace lambent::pipeline
