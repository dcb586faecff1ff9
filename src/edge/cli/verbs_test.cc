// The verbs that look and remove: what is asked, what is shown, how it ends.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "edge/cli/devices.h"
#include "edge/cli/invoke.h"
#include "edge/cli/listing.h"
#include "edge/cli/logs.h"
#include "edge/cli/remove.h"
#include "edge/cli/testing/verbs_testing.h"
#include "edge/cli/why.h"

namespace lambent::cli {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

TEST_F(Verbs, LsTellsHandlersByTheirRuntimeAndAllOthersByWhatTheyAre) {
  transport.answer(response(200, R"({"functions":[
      {"name":"a","kind":"handler","runtime":"python3","handler":"app.handler"},
      {"name":"b","kind":"http","runtime":"python3","handler":"python3 server.py"},
      {"name":"c","kind":"http","runtime":"python3","handler":"lambent-model-server model.onnx"},
      {"name":"d","kind":"workflow","runtime":"provided.al2023","handler":"workflow.json"}]})"));
  EXPECT_EQ(run_ls(transport, console), 0);
  for (const char* row : {"a     python3", "b     http", "c     model", "d     workflow"}) {
    EXPECT_THAT(out.str(), HasSubstr(row));
  }
}

TEST_F(Verbs, LsAndPsSetTheWorkersListsInColumns) {
  transport.answer(response(200, R"({"functions":[
      {"name":"hello","runtime":"python3","revision":2,"gpu_memory_bytes":536870912,
       "queued":1,"running":2,"completed":30,"sandboxes":2}]})"));
  EXPECT_EQ(run_ls(transport, console), 0);
  EXPECT_EQ(out.str(),
            "NAME   RUNTIME  GPU MEMORY  REVISION  QUEUED  RUNNING  COMPLETED  SANDBOXES\n"
            "hello  python3     512 MiB         2       1        2         30          2\n");
  out.str("");
  transport.answer(response(200, R"({"sandboxes":[
      {"id":7,"function":"hello","state":"idle","pid":123,"device":1003,"gpu":"0:2","age_seconds":61.5,
       "invocations":3,"device_memory_bytes":2097152,"device_memory_place":"out",
       "host_memory_bytes":1048576}]})"));
  EXPECT_EQ(run_ps(transport, console), 0);
  EXPECT_EQ(out.str(),
            "ID  FUNCTION  STATE  PID  GPU      AGE  INVOCATIONS  GPU MEMORY  WHERE  MEMORY\n"
            " 7  hello     idle   123  0:2  61.50 s            3       2 MiB  out     1 MiB\n");
  transport.answer(response(200, R"({"sandboxes":[
      {"id":7,"function":"pair","gpu":"0","gpus":["0","1"]},
      {"id":8,"function":"one","gpu":"2","gpus":["2"]},
      {"id":9,"function":"none","gpu":null,"gpus":[]}]})"));
  EXPECT_EQ(run_ps(transport, console), 0);
  EXPECT_THAT(out.str(), ContainsRegex(" 7  pair  +- +- +0,1 "));
  EXPECT_THAT(out.str(), ContainsRegex(" 8  one  +- +- +2 "));
  EXPECT_THAT(out.str(), ContainsRegex(" 9  none  +- +- +- "));
}

TEST_F(Verbs, SchedulesSayWhichNodeBeginsThemAndWhichDoesNotAnswer) {
  transport.answer(response(200, R"({"schedules":[
      {"function":"f","name":"often","cron":"","rate":"5 minutes","timezone":"UTC","enabled":true,
       "next":"2026-11-30T15:05:00Z","last":null,"last_outcome":null,"missed":0}]})"));
  EXPECT_EQ(run_schedules(transport, console), 0);
  EXPECT_THAT(out.str(), HasSubstr("UTC   2026-11-30T15:05:00Z  -"));
  EXPECT_EQ(err.str(), "");
  transport.answer(response(200, R"({"silent_nodes":["c"],"schedules":[
      {"function":"f","name":"often","cron":"","rate":"5 minutes","timezone":"UTC","enabled":true,
       "next":"2026-11-30T15:05:00Z","last":null,"last_outcome":null,"missed":0,"node":"b"}]})"));
  EXPECT_EQ(run_schedules(transport, console), 0);
  EXPECT_THAT(out.str(), HasSubstr("UTC   b 2026-11-30T15:05:00Z  -"));
  EXPECT_THAT(err.str(), HasSubstr("node c does not answer: its schedules are missing"));
}

TEST_F(Verbs, ResultSaysWhatAnInvocationWaitsForAndWhoHasTheGpu) {
  transport.answer(response(202, R"({"state":"pending","phase":"queued","waited_seconds":3.2,
      "wait_reason":"no_token","token_holders":[
      {"gpu":"0","function":"long","held_seconds":4,"most_left_seconds":56.5},
      {"gpu":"0","function":null,"held_seconds":1,"most_left_seconds":null}]})"));
  EXPECT_NE(run_result(transport, console, {.id = "x"}), 0);
  EXPECT_THAT(
      err.str(),
      HasSubstr(
          "is queued for 3.20 s (no_token); GPU 0 is held by long, for "
          "56.50 s more at most; GPU 0 is held by a removed function or another tenant; wait"));
  transport.answer(response(202, R"({"state":"pending"})"));
  EXPECT_NE(run_result(transport, console, {.id = "x"}), 0);
  EXPECT_THAT(err.str(), HasSubstr("is queued or running; wait"));
}

constexpr const char* kTwoDevices = R"({"devices":[
    {"gpu":"0","name":"A100","state":"healthy","for_seconds":9,"reason":null,"notice":null,"tokens":2,
     "tokens_held":1,"utilization":0.425,"memory_used_bytes":1073741824,
     "memory_total_bytes":17179869184},
    {"gpu":"1:0","name":"A100 MIG 2g","state":"drained","for_seconds":61.5,
     "reason":"Xid 48: double-bit ECC error","notice":"a page waits","utilization":null,
     "memory_used_bytes":0,"memory_total_bytes":1073741824}]})";

TEST_F(Verbs, DevicesSaysHowTheyAreAndWhy) {
  transport.answer(response(200, kTwoDevices));
  EXPECT_EQ(run_devices(transport, console), 0);
  EXPECT_EQ(transport.requests[0].target, "/v1/devices");
  EXPECT_EQ(out.str(),
            "GPU  NAME         STATE                RUNNING  BUSY           MEMORY  REASON\n"
            "0    A100         healthy               1 of 2   43%  1 GiB of 16 GiB  -\n"
            "1:0  A100 MIG 2g  drained for 61.50 s        -     -     0 B of 1 GiB  "
            "Xid 48: double-bit ECC error; a page waits\n");
}

TEST_F(Verbs, DrainAndUndrainNameTheDeviceAndTheReason) {
  transport.answer(response(200, kTwoDevices));
  EXPECT_EQ(run_drain(transport, console, {.gpu = "1:0", .reason = "new fan"}), 0);
  transport.answer(response(200, kTwoDevices));
  EXPECT_EQ(run_drain(transport, console, {.gpu = "1:0", .drain = false}), 0);
  ASSERT_EQ(transport.requests.size(), 2u);
  EXPECT_EQ(transport.requests[0].method, "POST");
  EXPECT_EQ(transport.requests[0].target, "/v1/devices/1%3A0/drain?reason=new%20fan");
  EXPECT_EQ(transport.requests[1].target, "/v1/devices/1%3A0/undrain");
  transport.answer(response(404, R"({"error":{"code":"NOT_FOUND","message":"no GPU '7'"}})"));
  EXPECT_EQ(run_drain(transport, console, {.gpu = "7"}), 15);
}

TEST_F(Verbs, LsWalksThePages) {
  console.json = true;
  transport.answer(response(200, R"({"functions":[{"name":"a"},{"name":"b/1"}],"next":"b/1"})"));
  transport.answer(response(200, R"({"functions":[{"name":"c"}]})"));
  EXPECT_EQ(run_ls(transport, console), 0);
  EXPECT_EQ(Json::parse(out.str()),
            Json::parse(R"({"functions":[{"name":"a"},{"name":"b/1"},{"name":"c"}]})"));
  ASSERT_EQ(transport.requests.size(), 2u);
  EXPECT_EQ(transport.requests[1].target, "/v1/functions?after=b%2F1");
}

TEST_F(Verbs, LsRefusesPagesThatAreNoneOfAWorker) {
  for (const char* strange : {R"({"functions":[],"next":5})", R"({"functions":[],"next":null})",
                              R"({"functions":[],"next":""})", R"({"functions":{},"next":"a"})",
                              R"({"next":"a"})", R"([{"name":"a"}])"}) {
    transport.answer(response(200, strange));
    err.str("");
    EXPECT_EQ(run_ls(transport, console), 23) << strange;
    EXPECT_NE(err.str().find("is that a Lambent worker?"), std::string::npos) << err.str();
  }
  for (const char* again : {"b", "a"}) {
    transport.answer(response(200, R"({"functions":[{"name":"b"}],"next":"b"})"));
    const std::string next = std::string(R"(,"next":")") + again + "\"}";
    transport.answer(response(200, R"({"functions":[{"name":"b"}])" + next));
    EXPECT_EQ(run_ls(transport, console), 23) << "page after b: next " << again;
  }
}

TEST_F(Verbs, ListsPassTheWorkersJsonThrough) {
  console.json = true;
  transport.answer(response(200, "{\"functions\":[]}"));
  EXPECT_EQ(run_ls(transport, console), 0);
  EXPECT_EQ(out.str(), "{\n  \"functions\": []\n}\n");
  out.str("");
  transport.answer(response(200, "{\"version\":\"0.1.0\"}"));
  EXPECT_EQ(run_version(transport, console, "0.1.0"), 0);
  EXPECT_EQ(Json::parse(out.str()),
            Json::parse(R"({"client":"0.1.0","worker":{"version":"0.1.0"}})"));
}

TEST_F(Verbs, VersionNeedsNoWorker) {
  EXPECT_EQ(run_version(transport, console, "0.1.0"), 0);
  EXPECT_EQ(out.str(), "lambent 0.1.0\nworker  none answers\n");
}

constexpr char kId[] = "0e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a";

TEST_F(Verbs, WhyTellsWhatAPipelinesRequestWaitedForAndWhatItsStagesDid) {
  transport.answer(response(200, R"({"invocation": "0e6c", "function": "app", "kind": "pipeline",
      "state": "succeeded", "took_ms": 412.5, "queue_ms": 300, "sandbox_ms": 0, "memory_ms": 12.5,
      "run_ms": 100, "start": "warm", "instance": 7, "requests_in_job": 2, "lost_ms": 40,
      "waits": [{"reason": "no_slice", "ms": 260, "other": "blur"},
                {"reason": "slice_shared", "ms": 40, "other": null}],
      "stages": [{"stage": 1, "slice": "0:2", "at_ms": 3, "queue_ms": 1, "wait_ms": 2,
                  "receive_ms": 0.5, "work_ms": 90, "send_ms": 0.2,
                  "components": [{"component": "classify", "ms": 90, "ran": 2}]}]})"));
  EXPECT_EQ(run_why(transport, console, kId), 0) << err.str();
  EXPECT_EQ(transport.requests[0].target, std::string("/v1/invocations/") + kId + "/trace");
  EXPECT_THAT(out.str(),
              AllOf(HasSubstr("of 'app': succeeded after 412.5 ms"), HasSubstr("queue 300.0"),
                    HasSubstr("260.0 ms: no free slice held it; most of them were with 'blur'"),
                    HasSubstr("another tenant's function"), HasSubstr("lost 40.0 ms"),
                    HasSubstr("instance 7, warm, in a job of 2 requests"),
                    HasSubstr("classify 90.0 for 2 requests")));
}

TEST_F(Verbs, WhyTellsTheCallsOfAWorkflow) {
  transport.answer(response(200, R"({"invocation": "0e6c", "function": "flow", "state": "running",
      "took_ms": 30, "calls_ended": 3, "calls": [{"component": "faces[0]", "function": "face",
      "invocation": "4f2c", "at_ms": 1, "took_ms": 20, "queue_ms": 2, "sandbox_ms": 5.5,
      "init_ms": 3.5, "memory_ms": 1, "run_ms": 8, "start": "cold", "wait_reason": "no_token"}]})"));
  EXPECT_EQ(run_why(transport, console, kId), 0);
  EXPECT_THAT(out.str(), AllOf(HasSubstr("faces[0]"), HasSubstr("every GPU ran as many"),
                               HasSubstr("and 2 more calls")));
  EXPECT_THAT(out.str(), ContainsRegex("2\\.0 +5\\.5 +3\\.5 +1\\.0 +8\\.0"));
}

TEST_F(Verbs, WhyAsksTheJournalForStoriesOfOtherFunctions) {
  const char* unknown = R"({"error": {"code": "NOT_FOUND", "message": "not in the journal"}})";
  transport.answer(response(404, unknown));
  transport.answer(response(200, R"({"function": "f", "story": [
      {"at_ms": 0, "what": "arrived"}, {"at_ms": 1500, "what": "begins to run"}]})"));
  EXPECT_EQ(run_why(transport, console, kId), 0) << err.str();
  EXPECT_EQ(transport.requests[1].target, std::string("/v1/invocations/") + kId + "/why");
  EXPECT_THAT(out.str(), AllOf(HasSubstr("of f\n"), HasSubstr("+1.500000 s  begins to run")));
  transport.answer(response(404, unknown));
  transport.answer(response(404, unknown));
  EXPECT_EQ(run_why(transport, console, kId), exit_code_of(ErrorCode::kNotFound));
  EXPECT_THAT(err.str(), HasSubstr("not in the journal"));
  transport.answer(response(200, "<html>"));
  EXPECT_EQ(run_why(transport, console, kId), exit_code_of(ErrorCode::kInternal));
}

TEST_F(Verbs, WhyNamesTheNodeThatIsSilentAndNotWhatTheJournalLacks) {
  transport.answer(response(
      503, R"({"error": {"code": "UNAVAILABLE", "message": "node 'c' does not answer"}})"));
  transport.answer(
      response(404, R"({"error": {"code": "NOT_FOUND", "message": "not in the journal"}})"));
  EXPECT_EQ(run_why(transport, console, kId), exit_code_of(ErrorCode::kUnavailable));
  EXPECT_THAT(err.str(), HasSubstr("node 'c' does not answer"));
  EXPECT_THAT(err.str(), Not(HasSubstr("not in the journal")));
}

TEST_F(Verbs, WhyOfAFunctionTellsOfItsSlowestInvocation) {
  transport.answer(response(200, R"({"function": {"name": "f"}})"));
  transport.answer(response(200, std::string(R"({"invocations": [
      {"invocation": "1e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a", "took_ms": 3},
      {"invocation": ")") + kId + R"(", "took_ms": 1500.25},
      {"invocation": "2e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a", "took_ms": 7}]})"));
  transport.answer(response(404, "{}"));
  transport.answer(response(200, R"({"function": "f", "story": []})"));
  EXPECT_EQ(run_why(transport, console, "f"), 0) << err.str();
  EXPECT_EQ(transport.requests[1].target, "/v1/activity/invocations?limit=500&function=f");
  EXPECT_EQ(transport.requests[2].target, std::string("/v1/invocations/") + kId + "/trace");
  EXPECT_THAT(out.str(), HasSubstr("the slowest of the last 3 of f, 1500.2 ms:\n"));
}

TEST_F(Verbs, WhyOfAFunctionThatIsNotThereOrWasNotCalledSaysSo) {
  transport.answer(
      response(404, R"({"error": {"code": "NOT_FOUND", "message": "no function 7"}})"));
  EXPECT_EQ(run_why(transport, console, "7"), exit_code_of(ErrorCode::kNotFound));
  EXPECT_THAT(err.str(), AllOf(HasSubstr("no function 7"), HasSubstr("an invocation's id looks")));
  transport.answer(response(200, R"({"function": {"name": "f"}})"));
  transport.answer(response(200, R"({"invocations": []})"));
  EXPECT_EQ(run_why(transport, console, "f"), exit_code_of(ErrorCode::kNotFound));
  EXPECT_THAT(err.str(), HasSubstr("no invocation of 'f' that ended is remembered"));
}

TEST_F(Verbs, LogsAskOnFromWhereTheLastAnswerEnded) {
  transport.answer(response(200, "one\n", {{"x-lambent-next-offset", "4"}}));
  transport.answer(response(200, "two\n", {{"x-lambent-next-offset", "8"}}));
  transport.answer(response(200, "", {{"x-lambent-next-offset", "8"}}));
  transport.answer(response(200, "three\n"));
  EXPECT_EQ(run_logs(transport, console, {.name = "f", .follow = true}), 0);
  EXPECT_EQ(out.str(), "one\ntwo\nthree\n");
  EXPECT_EQ(err.str(), "");
  ASSERT_EQ(transport.requests.size(), 4u);
  EXPECT_EQ(transport.requests[1].target, "/v1/functions/f/log?offset=4&format=ndjson");
  EXPECT_EQ(transport.requests[3].target, "/v1/functions/f/log?offset=8&format=ndjson&follow=1");
}

TEST_F(Verbs, LogsSayThatOlderLinesAreGone) {
  transport.answer(response(200, "last\n", {{"x-lambent-next-offset", "905"}}));
  transport.answer(response(200, "", {{"x-lambent-next-offset", "905"}}));
  EXPECT_EQ(run_logs(transport, console, {.name = "f"}), 0);
  EXPECT_EQ(out.str(), "last\n");
  EXPECT_THAT(err.str(), HasSubstr("older lines are gone"));
}

TEST_F(Verbs, LogsGiveAsManyOfTheLastLinesAsAreAskedFor) {
  const auto shown = [this](uint64_t tail) {
    transport.answer(response(200, "one\ntwo\nth", {{"x-lambent-next-offset", "10"}}));
    transport.answer(response(200, "ree\n\nfive\n", {{"x-lambent-next-offset", "20"}}));
    transport.answer(response(200, "", {{"x-lambent-next-offset", "20"}}));
    out.str("");
    EXPECT_EQ(run_logs(transport, console, {.name = "f", .tail = tail}), 0);
    return out.str();
  };
  EXPECT_EQ(shown(0), "");
  EXPECT_EQ(shown(1), "five\n");
  EXPECT_EQ(shown(3), "three\n\nfive\n");
  EXPECT_EQ(shown(5), "one\ntwo\nthree\n\nfive\n");
  EXPECT_EQ(shown(9), "one\ntwo\nthree\n\nfive\n");
}

TEST_F(Verbs, LogsOfSeveralNodesNameThemAndSayWhichAreSilent) {
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"Content-Type", "application/x-ndjson"}, {"x-lambent-next-offset", "a:4,b:7"}};
  const std::string about = R"({"nodes":["a","b"],"silent_nodes":["c"],"older_lines_gone":true})";
  transport.answer(response(200,
                            about + "\n" +
                                R"({"node":"a","text":"one\n","time":"2026-11-29T17:36:32.005Z"})" +
                                "\n" + R"({"node":"b","text":"half a"})" + "\n",
                            lines));
  transport.answer(response(200, about + "\n", lines));
  transport.answer(response(200,
                            R"({"node":"b","text":" line\n"})"
                            "\n"
                            R"({"nodes":["a"],"silent_nodes":["b","c"],"older_lines_gone":false})"
                            "\n"));
  EXPECT_EQ(run_logs(transport, console, {.name = "f", .follow = true}), 0);
  EXPECT_EQ(out.str(), "a | one\nb | half a line\n");
  EXPECT_EQ(transport.requests[1].target, "/v1/functions/f/log?offset=a%3A4%2Cb%3A7&format=ndjson");
  EXPECT_THAT(err.str(), HasSubstr("older lines are gone"));
  // Each is named once.
  EXPECT_THAT(err.str(), EndsWith("node c does not answer: its lines are missing\n"
                                  "node b does not answer: its lines are missing\n"));
}

TEST_F(Verbs, LogsCanBeginAtATimeAndShowOneInvocation) {
  const std::string lines =
      R"({"text":"START RequestId: aa Version: 1\n","time":"2026-11-29T17:00:00.000Z"})"
      "\n"
      R"({"text":"old\n","time":"2026-11-29T17:00:00.500Z"})"
      "\n"
      R"({"text":"END RequestId: aa\n","time":"2026-11-29T17:00:01.000Z"})"
      "\n"
      R"({"text":"REPORT RequestId: aa\n","time":"2026-11-29T17:00:01.000Z"})"
      "\n"
      R"({"text":"between\n","time":"2026-11-29T17:00:02.000Z"})"
      "\n"
      R"({"text":"START RequestId: bb Version: 1\n","time":"2026-11-29T17:00:03.000Z"})"
      "\n"
      R"({"text":"new\n","time":"2026-11-29T17:00:04.000Z"})"
      "\n";
  const auto shown = [&](LogsOptions options, int expected) {
    transport.answer(response(200, lines, {{"Content-Type", "application/x-ndjson"}}));
    out.str("");
    err.str("");
    options.name = "f";
    EXPECT_EQ(run_logs(transport, console, options), expected) << err.str();
    return out.str();
  };
  const Duration at = *since_in("2026-11-29T17:00:02Z", Duration(0));
  EXPECT_EQ(shown({.since = at}, 0), "between\nSTART RequestId: bb Version: 1\nnew\n");
  EXPECT_EQ(shown({.tail = 1, .since = at}, 0), "new\n");
  EXPECT_EQ(shown({.invocation = "aa"}, 0),
            "START RequestId: aa Version: 1\nold\nEND RequestId: aa\nREPORT RequestId: aa\n");
  EXPECT_EQ(err.str(), "");
  EXPECT_EQ(shown({.invocation = "cc"}, exit_code_of(ErrorCode::kNotFound)), "");
  EXPECT_THAT(err.str(), HasSubstr("has no line of invocation cc"));
}

TEST_F(Verbs, LogsOfAnInvocationSayThatOthersRanMeanwhile) {
  transport.answer(response(200,
                            R"({"text":"START RequestId: aa\n"})"
                            "\n"
                            R"({"text":"START RequestId: bb\n"})"
                            "\n"
                            R"({"text":"END RequestId: aa\n"})"
                            "\n",
                            {{"Content-Type", "application/x-ndjson"}}));
  EXPECT_EQ(run_logs(transport, console, {.name = "f", .invocation = "aa"}), 0);
  EXPECT_THAT(err.str(), HasSubstr("other invocations ran meanwhile"));
}

TEST_F(Verbs, LogsOfAnInvocationHaveAllStagesOfAPipelineThatOverlap) {
  transport.answer(response(200,
                            R"({"text":"START RequestId: aa\n"})"
                            "\n"
                            R"({"text":"first\n"})"
                            "\n"
                            R"({"text":"START RequestId: aa\n"})"
                            "\n"
                            R"({"text":"END RequestId: aa\n"})"
                            "\n"
                            R"({"text":"second\n"})"
                            "\n"
                            R"({"text":"END RequestId: aa\n"})"
                            "\n"
                            R"({"text":"of another\n"})"
                            "\n",
                            {{"Content-Type", "application/x-ndjson"}}));
  EXPECT_EQ(run_logs(transport, console, {.name = "f", .invocation = "aa"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("second\n"));
  EXPECT_THAT(out.str(), Not(HasSubstr("of another")));
}

TEST(Since, IsATimeAgoOrATime) {
  const Duration now = *since_in("2026-11-29T17:10:00.250Z", Duration(0));
  EXPECT_EQ(*since_in("10m", now), now - seconds(600));
  EXPECT_EQ(*since_in("2026-11-29T17:10:00", now), now - milliseconds(250));
  for (const char* bad : {"", "yesterday", "-5m", "2026-13-40T99:00:00Z"}) {
    EXPECT_EQ(since_in(bad, now).error().code, ErrorCode::kInvalidArgument) << bad;
  }
}

TEST_F(Verbs, LogsShowTheBytesThatWerePrinted) {
  transport.answer(response(200,
                            R"({"older_lines_gone":false})"
                            "\n"
                            R"({"bytes":"4oI=","text":"\ufffd\ufffd"})"
                            "\n"
                            R"({"bytes":"rP8K","text":"\ufffd\ufffd\n"})"
                            "\n",
                            {{"Content-Type", "application/x-ndjson"}}));
  EXPECT_EQ(run_logs(transport, console, {.name = "f"}), 0);
  EXPECT_EQ(out.str(), "\xe2\x82\xac\xff\n");
}

TEST_F(Verbs, LogsFromTheTailOnLeaveOutOldLinesOfNodesThatWereSilent) {
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"Content-Type", "application/x-ndjson"}};
  const auto line = [](const std::string& node, const std::string& text, int second) {
    return R"({"node":")" + node + R"(","text":")" + text + R"(\n","time":"2026-11-29T17:36:0)" +
           std::to_string(second) + ".000Z\"}\n";
  };
  transport.answer(response(200,
                            "{\"nodes\":[\"a\",\"b\"],\"silent_nodes\":[\"c\"]}\n" +
                                line("a", "one", 1) + line("b", "two", 5),
                            lines));
  transport.answer(response(200,
                            "{\"nodes\":[\"a\",\"b\",\"c\"],\"silent_nodes\":[]}\n" +
                                line("c", "old", 4) + line("c", "new", 6) + line("a", "late", 4),
                            lines));
  EXPECT_EQ(run_logs(transport, console, {.name = "f", .follow = true, .tail = 1}), 0);
  EXPECT_EQ(out.str(), "b | two\nc | new\na | late\n");
}

TEST_F(Verbs, LogsShowTimesWhenTheyAreAskedFor) {
  transport.answer(response(200,
                            R"({"older_lines_gone":false})"
                            "\n"
                            R"({"text":"one\n","time":"2026-11-29T17:36:32.005Z"})"
                            "\n"
                            R"({"text":"old\n"})"
                            "\n",
                            {{"Content-Type", "application/x-ndjson"}}));
  EXPECT_EQ(run_logs(transport, console, {.name = "f", .timestamps = true}), 0);
  EXPECT_EQ(out.str(), "2026-11-29T17:36:32.005Z one\n- old\n");
  EXPECT_EQ(err.str(), "");
}

TEST_F(Verbs, RmGoesOnAfterAFailure) {
  transport.answer(response(404, "{\"Message\":\"no f\"}"));
  transport.answer(response(204, ""));
  EXPECT_EQ(run_rm(transport, console, {"f", "g"}), 15);
  EXPECT_EQ(out.str(), "removed g\n");
  EXPECT_EQ(transport.requests[1].method, "DELETE");
}

}  // namespace
}  // namespace lambent::cli
