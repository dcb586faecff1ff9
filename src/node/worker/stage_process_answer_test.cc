#include "node/worker/stage_process_answer.h"

#include <gtest/gtest.h>

#include "core/domain/limits.h"

namespace lambent::worker {
namespace {

using slice_scheduling::JobId;

pipeline::Dag two_components() {
  pipeline::Dag dag;
  dag.inputs = {"image"};
  dag.components = {{"blur", {{pipeline::Source::Kind::kInput, 0}}},
                    {"classify", {{pipeline::Source::Kind::kComponent, 0}}}};
  dag.outputs = {1};
  return dag;
}

Result<StageProcessAnswer> parse(std::string_view json, size_t requests = 1, bool gathers = true) {
  return parse_stage_process_answer(json, two_components(), {1}, requests, gathers);
}

TEST(StageProcessAnswer, EventsGoToThoseWhoNeedThem) {
  EXPECT_EQ(stage_process_payload(JobId(7), 2, 4, {}), R"({"job":7,"requests":2,"turn":4})");
  EXPECT_EQ(stage_process_payload(JobId(7), 2, 0, {R"({"a": 1})", ""}),
            R"({"job":7,"requests":2,"turn":0,"events":[{"a": 1},{}]})");
}

TEST(StageProcessAnswer, TellsWhatComponentsDidAndWhatCameOut) {
  const auto answer = parse(R"({"components": {"classify": {"ms": 20.5, "ran": 2, "memory": 1000,
      "weights": 200, "output": 30}, "unknown": {}}, "wait_ms": 1.5, "receive_ms": 0.5, "send_ms": 0,
      "results": [{"value": {"label": "cat"}}, {"error": {"errorType": "ValueError",
      "errorMessage": "no image"}}]})",
                            2);
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->components,
            (std::vector<ComponentReading>{
                {1, 2, microseconds(20'500), Bytes(1000), Bytes(200), Bytes(30)}}));
  EXPECT_EQ(answer->wait, microseconds(1'500));
  ASSERT_EQ(answer->results.size(), 2u);
  EXPECT_EQ(answer->results[0].payload, R"({"label":"cat"})");
  EXPECT_FALSE(answer->results[1].succeeded);
  EXPECT_EQ(answer->results[1].error_type, "ValueError");
}

TEST(StageProcessAnswer, SaysWhichComponentsRanAsOneBatch) {
  for (const auto& [told, together] :
       {std::pair("true", true), std::pair("false", false), std::pair("1", false)}) {
    const auto answer = parse(R"({"components": {"classify": {"ms": 20, "ran": 2, "together": )" +
                                  std::string(told) + R"(}}})",
                              2, false);
    ASSERT_TRUE(answer.ok()) << told;
    EXPECT_EQ(answer->components.at(0).together, together) << told;
  }
}

TEST(StageProcessAnswer, NeedsResultsOfWhoGathersAlone) {
  EXPECT_TRUE(parse(R"({"components": {}})", 1, false).ok());
  EXPECT_FALSE(parse(R"({"components": {}})", 1, true).ok());
  EXPECT_FALSE(parse(R"({"components": {}, "results": [{"value": 1}]})", 2).ok());
}

TEST(StageProcessAnswer, AResultThatIsTooLargeFailsAlone) {
  const std::string large(limits::kResponsePayload.count, 'x');
  const auto answer =
      parse(R"({"components": {}, "results": [{"value": ")" + large + R"("}, {"value": 1}]})", 2);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->results[0].error_type, "Function.ResponseSizeTooLarge");
  EXPECT_TRUE(answer->results[1].succeeded);
}

TEST(StageProcessAnswer, SaysWhenAChannelIsBroken) {
  EXPECT_FALSE(parse(R"({"components": {}})", 1, false)->is_broken);
  EXPECT_TRUE(parse(R"({"components": {}, "broken": "malformed"})", 1, false)->is_broken);
}

TEST(StageProcessAnswer, RefusesWhatIsNone) {
  for (const char* bad :
       {"", "[]", "{}", R"({"components": [], "results": [{"value": 1}]})",
        R"({"components": {"classify": 1}, "results": [{"value": 1}]})",
        R"({"components": {"classify": {"ms": -1}}, "results": [{"value": 1}]})",
        R"({"components": {"classify": {"ms": 1e300}}, "results": [{"value": 1}]})",
        R"({"components": {"classify": {"ran": 2}}, "results": [{"value": 1}]})",
        R"({"components": {}, "results": [1]})", R"({"components": {}, "results": [{}]})",
        R"({"components": {}, "results": [{"error": "no"}]})"}) {
    EXPECT_FALSE(parse(bad).ok()) << bad;
  }
  EXPECT_FALSE(parse(std::string(100'000, '[')).ok());
}

TEST(StageProcessAnswer, EventsAreJson) {
  EXPECT_TRUE(check_event("").ok());
  EXPECT_TRUE(check_event(R"({"image": [1, 2]})").ok());
  EXPECT_EQ(check_event("image").error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(check_event(std::string_view("{}\0x", 4)).ok());
  EXPECT_FALSE(check_event("\xef\xbb\xbf{}").ok());
  EXPECT_FALSE(check_event(std::string(40, '[') + std::string(40, ']')).ok());
}

}  // namespace
}  // namespace lambent::worker
