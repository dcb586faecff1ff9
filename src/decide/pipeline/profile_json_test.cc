#include "decide/pipeline/profile_json.h"

#include <gtest/gtest.h>

#include "decide/pipeline/limits.h"

namespace lambent::pipeline {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

const Dag kDag{.inputs = {"image"},
               .components = {{"deblur", {{Source::Kind::kInput, 0}}, false},
                              {"enlarge", {{Source::Kind::kComponent, 0}}, true}},
               .outputs = {1}};
constexpr const char* kMeasured = R"({"profile": 1, "context_mb": 420, "start_ms": 300,
  "shapes": {"2g.20gb": {"multiprocessors": 28, "memory_mb": 19968},
             "1g.10gb": {"multiprocessors": 14, "memory_mb": 9728}},
  "components": {
    "deblur": {"weights_mb": 200, "memory_mb": 900.5, "output_bytes": 3145728,
               "ms": {"1g.10gb": 20.1, "2g.20gb": 10.9}},
    "enlarge": {"weights_mb": 10, "memory_mb": 10, "output_bytes": 0, "probability": 0.25,
                "ms": {}}}})";

void expect_refused_with(const std::string& from, const std::string& to,
                         const std::string& message) {
  std::string text = kMeasured;
  ASSERT_NE(text.find(from), text.npos) << from;
  const auto profile = parse_profile(text.replace(text.find(from), from.size(), to), kDag);
  ASSERT_FALSE(profile.ok()) << text;
  EXPECT_EQ(profile.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(profile.error().message, message);
}

TEST(ProfileJson, SaysWhatWasMeasured) {
  const auto measured = parse_profile(kMeasured, kDag);
  ASSERT_TRUE(measured.ok()) << measured.error().message;
  EXPECT_EQ(measured->profile.context, Bytes::mib(420));
  EXPECT_EQ(measured->profile.start, milliseconds(300));
  EXPECT_EQ(measured->shapes, (std::vector<SliceShape>{{"1g.10gb", 14, Bytes::mib(9728)},
                                                       {"2g.20gb", 28, Bytes::mib(19968)}}));
  const ComponentProfile& deblur = measured->profile.components[0];
  EXPECT_EQ(deblur.weights, Bytes::mib(200));
  EXPECT_EQ(deblur.memory, Bytes::kib(900 * 1024 + 512));
  EXPECT_EQ(deblur.output, Bytes::mib(3));
  EXPECT_EQ(deblur.probability, 1);
  EXPECT_EQ(deblur.time_by_shape.at("1g.10gb"), microseconds(20'100));
  EXPECT_EQ(measured->profile.components[1].probability, 0.25);
}

TEST(ProfileJson, ComesBackFromItsOwnText) {
  auto measured = parse_profile(kMeasured, kDag);
  measured->profile.components[0].time_by_shape["1g.10gb"] = Duration(20'100'001);
  measured->profile.components[0].memory = Bytes(943'718'401);
  const auto again = parse_profile(to_json(*measured, kDag), kDag);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*again, *measured);
}

TEST(ProfileJson, WhatWasNotMeasuredIsLeftOut) {
  const MeasuredProfile nothing{.profile = {.components = std::vector<ComponentProfile>(2)}};
  const std::string text = to_json(nothing, kDag);
  EXPECT_EQ(text.find("deblur"), text.npos);
  EXPECT_EQ(parse_profile(text, kDag).value(), nothing);
}

TEST(ProfileJson, WhatIsNotOptionalAlwaysRuns) {
  auto measured = parse_profile(kMeasured, kDag);
  measured->profile.components[0].probability = 0.5;
  measured->profile.components[1].probability = 0;
  const auto again = parse_profile(to_json(*measured, kDag), kDag);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->profile.components[0].probability, 1);
  EXPECT_EQ(again->profile.components[1].probability, 0);
}

TEST(ProfileJson, WhatIsNoProfileOfThisFunctionIsRefusedWithItsPlace) {
  expect_refused_with("\"enlarge\"", "\"enlarg\"",
                      "components: the function has no 'enlarg'; did you mean 'enlarge'?");
  expect_refused_with("\"ms\": {}", "\"ms\": {\"3g.40gb\": 1}",
                      "components 'enlarge'.ms: 'shapes' does not describe '3g.40gb'");
  expect_refused_with("20.1", "-1",
                      "components 'deblur'.ms '1g.10gb': a number from 0.0 to 86400000.0 is "
                      "expected");
  expect_refused_with("0.25", "1.5",
                      "components 'enlarge'.probability: a number from 0.0 to 1.0 is expected");
  expect_refused_with("3145728", "3145728, \"probability\": 0.5",
                      "components 'deblur'.probability: is 1 for a component that is not optional");
  expect_refused_with("900.5", "100",
                      "components 'deblur'.memory_mb: is less than the weights that it includes");
  expect_refused_with("3145728", "1.5",
                      "components 'deblur'.output_bytes: a whole number from 0 to 70368744177664 "
                      "is expected");
  expect_refused_with("\"weights_mb\": 200, ", "", "components 'deblur': 'weights_mb' is missing");
  expect_refused_with("\"multiprocessors\": 28", "\"multiprocessors\": 0",
                      "shapes '2g.20gb'.multiprocessors: a whole number from 1 to 65536 is "
                      "expected");
  expect_refused_with("\"2g.20gb\"", "\"\"", "shapes: a name is no text of 1 to 128 bytes");
  expect_refused_with("420", "\"420\"", "context_mb: a number from 0.0 to 67108864.0 is expected");
  expect_refused_with("start_ms", "startms",
                      "the profile: there is no 'startms' here; did you mean 'start_ms'?");
}

std::string with_batches(const std::string& batches) {
  return R"("ms": {"2g.20gb": 10}, "batch_ms": )" + batches;
}

TEST(ProfileJson, BatchesComeBackFromTheirText) {
  std::string text = kMeasured;
  text.replace(text.find("\"ms\": {}"), 8, with_batches(R"({"2g.20gb": {"2": 12.5, "16": 40}})"));
  const auto measured = parse_profile(text, kDag);
  ASSERT_TRUE(measured.ok()) << measured.error().message;
  const std::map<unsigned, Duration> sizes = {{2, microseconds(12'500)}, {16, milliseconds(40)}};
  EXPECT_EQ(measured->profile.components[1].batch_times_by_shape.at("2g.20gb"), sizes);
  EXPECT_TRUE(measured->profile.components[0].batch_times_by_shape.empty());
  EXPECT_EQ(*parse_profile(to_json(*measured, kDag), kDag), *measured);
}

TEST(ProfileJson, BatchesThatMakeNoSenseAreRefusedWithTheirPlace) {
  const auto refused = [](const std::string& batches, const std::string& message) {
    expect_refused_with("\"ms\": {}", with_batches(batches), "components 'enlarge'." + message);
  };
  refused("3", "batch_ms: an object is expected");
  refused(R"({"2g.20gb": 3})", "batch_ms '2g.20gb': an object is expected");
  refused(R"({"4g": {}})", "batch_ms: 'shapes' does not describe '4g'");
  refused(R"({"1g.10gb": {"2": 3}})",
          "batch_ms: there is no time of one request on '1g.10gb' in 'ms'");
  for (const char* size : {"1", "0", "-2", "02", "2x", "", "1025", "99999999999"}) {
    refused(
        R"({"2g.20gb": {")" + std::string(size) + R"(": 3}})",
        "batch_ms '2g.20gb': '" + std::string(size) + "' is no number of requests from 2 to 1024");
  }
  refused(R"({"2g.20gb": {"2": -1}})",
          "batch_ms '2g.20gb' '2': a number from 0.0 to 86400000.0 is expected");
}

TEST(ProfileJson, AsManyShapesAsTheLimitAndNoMore) {
  MeasuredProfile measured{.profile = {.components = std::vector<ComponentProfile>(2)}};
  for (size_t i = 0; i < limits::kShapes; ++i) {
    measured.shapes.push_back({"shape" + std::to_string(100 + i), 1, Bytes::mib(1)});
  }
  EXPECT_TRUE(parse_profile(to_json(measured, kDag), kDag).ok());
  measured.shapes.push_back({"shape", 1, Bytes::mib(1)});
  const auto refused = parse_profile(to_json(measured, kDag), kDag);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "shapes: has 65 entries; at most 64 are taken");
}

TEST(TimeOn, AMeasuredShapeHasItsOwnTime) {
  const auto measured = parse_profile(kMeasured, kDag);
  EXPECT_EQ(time_on(measured->profile.components[0], measured->shapes[1], measured->shapes),
            microseconds(10'900));
}

TEST(TimeOn, OtherShapesAreJudgedByTheNearestThatWasMeasured) {
  const auto measured = parse_profile(kMeasured, kDag);
  const ComponentProfile& deblur = measured->profile.components[0];
  EXPECT_EQ(time_on(deblur, {"4g.40gb", 56, Bytes::gib(40)}, measured->shapes),
            microseconds(5'450));  // half of the time on 28
  // As far from one as from the other: from the smaller.
  EXPECT_EQ(time_on(deblur, {"odd", 21, Bytes::gib(10)}, measured->shapes), microseconds(13'400));
}

TEST(BatchFactor, IsBetweenMeasuredSizesInProportionAndBeyondThemThatOfTheLargest) {
  const SliceShape small{"1g.10gb", 14, Bytes::gib(10)}, large{"2g.20gb", 28, Bytes::gib(20)};
  ComponentProfile profile;
  EXPECT_EQ(batch_factor(profile, small, {small}, 8), 8) << "one after the other";
  profile.time_by_shape["1g.10gb"] = milliseconds(100);
  profile.batch_times_by_shape["1g.10gb"] = {{2, milliseconds(110)}, {4, milliseconds(150)}};
  EXPECT_EQ(batch_factor(profile, small, {small}, 1), 1);
  EXPECT_DOUBLE_EQ(batch_factor(profile, small, {small}, 2), 1.1);
  EXPECT_DOUBLE_EQ(batch_factor(profile, small, {small}, 3), 1.3);
  EXPECT_DOUBLE_EQ(batch_factor(profile, small, {small}, 12), 4.5);
  EXPECT_DOUBLE_EQ(batch_factor(profile, large, {small, large}, 4), 1.5) << "as on the nearest";
  EXPECT_EQ(batch_factor(profile, large, {}, 4), 4) << "none is known";
  // A reading that cannot be.
  profile.batch_times_by_shape["1g.10gb"][2] = milliseconds(10);
  EXPECT_EQ(batch_factor(profile, small, {small}, 2), 1);
}

TEST(TimeOn, WithoutMeasurementsNothingIsSaid) {
  const auto measured = parse_profile(kMeasured, kDag);
  EXPECT_EQ(time_on(measured->profile.components[1], measured->shapes[0], measured->shapes),
            std::nullopt);
  EXPECT_EQ(time_on(measured->profile.components[0], {"4g.40gb", 56, Bytes::gib(40)}, {}),
            std::nullopt);
}

}  // namespace
}  // namespace lambent::pipeline
