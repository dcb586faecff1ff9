// The verbs that look at invocations and functions while they are at work, and the one that ends
// one.
#include "edge/cli/invocations.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "edge/cli/describe.h"
#include "edge/cli/testing/verbs_testing.h"
#include "edge/cli/top.h"

namespace lambent::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

constexpr const char* kId = "0e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a";
constexpr const char* kLive = R"({"invocations":[
    {"invocation":"0e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a","function":"hello","phase":"queued",
     "waited_seconds":1.5,"wait_reason":"no_token"}],
    "gpu_runs":[{"gpu":"0","function":"other","held_seconds":2},
                {"gpu":"1","function":null,"held_seconds":0.5}]})";
constexpr const char* kEnded = R"({"invocations":[
    {"invocation":"1e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a","function":"hello","outcome":"succeeded",
     "error_type":"","error":"","start":"cold","gpu":"0","gpus":["0","1"],
     "wait_reason":"no_memory","ended":1.0,
     "took_ms":312.0,"phases_ms":{"queue":12.0,"sandbox":2,"init":80,"memory":0,"run":218.0}},
    {"invocation":"2e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a","function":"hello",
     "outcome":"function_error","error_type":"KeyError","error":"'a'\n  in line 2","start":"warm",
     "gpu":null,"wait_reason":"","ended":1.0,"took_ms":0.4,
     "phases_ms":{"queue":0,"sandbox":0,"init":0,"memory":0,"run":0.4}}]})";
constexpr const char* kAbout = R"({"activity":{"name":"hello","kind":"handler","queued":1,
    "running":2,"sandboxes":3,"cold":4,"gpu_cold":0,"warm":6,"failed":1,"refused":0,"in_time":9,
    "late":1,"p50_ms":20.0,"p95_ms":100.0,"p99_ms":250.0,"ahead_ms":0},
    "latency_buckets_ms":[],"graph":null,
    "function":{"name":"hello","runtime":"python3","memory_bytes":536870912,"timeout_seconds":30.0,
                "description":"","queued":1,"mounts":[],"keep_alive_seconds":-1000.0,
                "last_modified_seconds":1000000000.5,"gpu_memory_bytes":0,"gpu_share":100,
                "http_port":8080}})";

TEST_F(Verbs, InvocationsShowsThoseThatWaitAndThoseThatEnded) {
  transport.answer(response(200, kLive));
  transport.answer(response(200, kEnded));
  EXPECT_EQ(run_invocations(transport, console, {.function = "he llo", .limit = 7}), 0);
  EXPECT_EQ(transport.requests[0].target, "/v1/activity/live?limit=500&function=he%20llo");
  EXPECT_EQ(transport.requests[1].target, "/v1/activity/invocations?limit=7&function=he%20llo");
  EXPECT_THAT(out.str(), HasSubstr("queued  1.50 s  every GPU ran as many as it may at once\n"));
  EXPECT_THAT(out.str(), HasSubstr("  cold   0,1 "));
  EXPECT_THAT(out.str(), HasSubstr("  0.22 s  0.31 s  no GPU had the memory free"));
  // What a function says stays in its line.
  EXPECT_THAT(out.str(), HasSubstr("KeyError: 'a'   in line 2\n"));
}

TEST_F(Verbs, InvocationsOfAClusterNameTheirNodesAndThoseThatAreSilent) {
  transport.answer(response(200, R"({"invocations":[
    {"invocation":"0e6c","node":"gpu1","function":"hello","phase":"running","waited_seconds":1}],
    "silent_nodes":["gpu3"]})"));
  transport.answer(response(200, R"({"invocations":[
    {"invocation":"1e6c","node":"gpu2","function":"hello","outcome":"succeeded","ended":1.0}],
    "silent_nodes":["gpu3"]})"));
  EXPECT_EQ(run_invocations(transport, console, {}), 0);
  EXPECT_THAT(out.str(), HasSubstr("ID    NODE  FUNCTION"));
  EXPECT_THAT(out.str(), HasSubstr("0e6c  gpu1  hello"));
  EXPECT_THAT(out.str(), HasSubstr("1e6c  gpu2  hello"));
  EXPECT_EQ(err.str(), "node gpu3 does not answer: its invocations are missing\n");
}

TEST_F(Verbs, PagesOfAClusterGoOnWhereTheWorkerSays) {
  console.json = true;
  Json page = {{"invocations", Json::array()}, {"next", "a:3,b:9"}};
  for (int i = 0; i < 500; ++i) page["invocations"].push_back({{"took_ms", i}, {"sequence", 1}});
  transport.answer(response(200, R"({"invocations":[]})"));
  transport.answer(response(200, page.dump()));
  transport.answer(response(200, R"({"invocations":[]})"));
  EXPECT_EQ(run_invocations(transport, console, {.limit = 2, .slowest = true}), 0);
  EXPECT_THAT(transport.requests[2].target, HasSubstr("&before=a%3A3%2Cb%3A9"));
}

TEST_F(Verbs, AFullPageOfAClusterWithoutANextIsTheLast) {
  console.json = true;
  Json page = {{"invocations", Json::array()}, {"silent_nodes", Json::array()}};
  for (int i = 0; i < 500; ++i) page["invocations"].push_back({{"took_ms", i}, {"sequence", 1}});
  transport.answer(response(200, R"({"invocations":[]})"));
  transport.answer(response(200, page.dump()));
  EXPECT_EQ(run_invocations(transport, console, {.limit = 2, .slowest = true}), 0) << err.str();
  EXPECT_EQ(transport.requests.size(), 2u);
}

TEST_F(Verbs, TheSlowestAreLookedForAmongABoundedNumber) {
  Json page = {{"invocations", Json::array()}, {"next", "a:3,b:9"}, {"silent_nodes", {"c"}}};
  for (int i = 0; i < 500; ++i) {
    page["invocations"].push_back({{"took_ms", i}, {"sequence", 1}, {"ended", 1.0}});
  }
  transport.answer(response(200, R"({"invocations":[]})"));
  for (int i = 0; i < 30; ++i) transport.answer(response(200, page.dump()));
  EXPECT_EQ(run_invocations(transport, console, {.limit = 2, .slowest = true}), 0);
  EXPECT_EQ(transport.requests.size(), 21u);
  EXPECT_THAT(err.str(), HasSubstr("only the last 10000 that ended were looked at\n"));
  EXPECT_THAT(err.str(), HasSubstr("node c does not answer"));
}

TEST_F(Verbs, InvocationsShowsWhichRunItIsOfOneThatIsTriedAgain) {
  transport.answer(response(200, R"({"invocations":[
    {"invocation":"0e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a","function":"hello","phase":"waiting",
     "waited_seconds":0,"wait_reason":"","run":2,"due_in_seconds":34,"last_failure":"E: no"}]})"));
  transport.answer(response(200, R"({"invocations":[
    {"invocation":"1e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a","function":"hello","run":1,
     "outcome":"function_error","error_type":"E","error":"no","again_in_seconds":60,"ended":1.0},
    {"invocation":"2e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a","function":"hello","run":3,
     "outcome":"succeeded","again_in_seconds":null,"ended":1.0}]})"));
  EXPECT_EQ(run_invocations(transport, console, {}), 0);
  EXPECT_THAT(out.str(), HasSubstr("run 2 in 34.00 s; E: no\n"));
  EXPECT_THAT(out.str(), HasSubstr("run 1, again after 60.00 s: E: no\n"));
  EXPECT_THAT(out.str(), HasSubstr("run 3\n"));
}

TEST_F(Verbs, InvocationsOfAFunctionThatIsNotThereSaysSo) {
  transport.answer(response(200, R"({"invocations":[],"gpu_runs":[]})"));
  transport.answer(response(200, R"({"invocations":[]})"));
  transport.answer(response(404, R"({"error":{"code":"NOT_FOUND","message":"no such function"}})"));
  EXPECT_EQ(run_invocations(transport, console, {.function = "hallo"}), 15);
  EXPECT_THAT(err.str(), HasSubstr("no such function"));
}

TEST_F(Verbs, InvocationsShowTheSlowestOfAllPages) {
  console.json = true;
  Json first = Json::array();
  for (int i = 0; i < 500; ++i) first.push_back({{"sequence", 600 - i}, {"took_ms", i % 7}});
  transport.answer(response(200, R"({"invocations":[]})"));
  transport.answer(response(200, Json{{"invocations", first}}.dump()));
  transport.answer(response(
      200, R"({"invocations":[{"sequence":100,"took_ms":9},{"sequence":99,"took_ms":1}]})"));
  EXPECT_EQ(run_invocations(transport, console, {.limit = 3, .slowest = true}), 0);
  EXPECT_EQ(transport.requests[2].target, "/v1/activity/invocations?limit=500&before=101");
  const Json ended = Json::parse(out.str())["ended"];
  ASSERT_EQ(ended.size(), 3u);
  EXPECT_EQ(ended[0]["sequence"], 100);
  EXPECT_EQ(ended[1]["took_ms"], 6);
}

TEST_F(Verbs, InvocationsAsJsonHasBothLists) {
  console.json = true;
  transport.answer(response(200, kLive));
  transport.answer(response(200, kEnded));
  EXPECT_EQ(run_invocations(transport, console, {}), 0);
  const Json json = Json::parse(out.str());
  EXPECT_EQ(json["live"][0]["phase"], "queued");
  EXPECT_EQ(json["ended"].size(), 2u);
}

TEST_F(Verbs, CancelSaysWhereItWasAndWhetherItHasEnded) {
  transport.answer(response(200, R"({"invocation":"x","was":"queued","state":"cancelled"})"));
  EXPECT_EQ(run_cancel(transport, console, kId), 0);
  EXPECT_EQ(transport.requests[0].method, "POST");
  EXPECT_EQ(transport.requests[0].target, "/v1/invocations/" + std::string(kId) + "/cancel");
  EXPECT_THAT(out.str(), HasSubstr("was queued and is cancelled\n"));
  transport.answer(response(202, R"({"invocation":"x","was":"running","state":"cancelling"})"));
  EXPECT_EQ(run_cancel(transport, console, kId), 0);
  EXPECT_THAT(out.str(),
              HasSubstr("was running and is being cancelled: it ends with its sandbox\n"));
}

TEST_F(Verbs, CancelOfWhatIsNoIdAsksNobody) {
  EXPECT_EQ(run_cancel(transport, console, "hello/../x"), 13);
  EXPECT_TRUE(transport.requests.empty());
  EXPECT_THAT(err.str(), HasSubstr("is no invocation's id; 'lambent invocations' lists them"));
}

TEST_F(Verbs, DescribeTellsWhatAFunctionIsAndDoes) {
  transport.answer(response(200, kAbout));
  transport.answer(response(200, kEnded));
  EXPECT_EQ(run_describe(transport, console, "hello"), 0);
  EXPECT_EQ(transport.requests[0].target, "/v1/activity/functions/hello");
  EXPECT_THAT(out.str(), HasSubstr("hello (handler)\n"));
  EXPECT_THAT(out.str(), HasSubstr("1 queued, 2 running, 3 sandboxes\n"));
  EXPECT_THAT(out.str(), HasSubstr("9 of 10 (90.0 %)\n"));
  EXPECT_THAT(out.str(), HasSubstr("p50 20.0 ms, p95 0.10 s, p99 0.25 s\n"));
  EXPECT_THAT(out.str(), HasSubstr("  memory                512 MiB\n"));
  EXPECT_THAT(out.str(), HasSubstr("  timeout               30.00 s\n"));
  EXPECT_THAT(out.str(), HasSubstr("  keep_alive            as the worker says\n"));
  EXPECT_THAT(out.str(), HasSubstr("  last_modified         2001-09-09 01:46:40 UTC\n"));
  for (const char* none : {"description", "gpu_share", "http_port"}) {
    EXPECT_THAT(out.str(), Not(HasSubstr(none)));
  }
  EXPECT_THAT(out.str(), HasSubstr("The last that ended\n"));
}

TEST_F(Verbs, DescribeTellsTheQuotaOfProcessorsOrThatThereIsNone) {
  for (const auto& [cpus, told] : {std::pair("0.5", "  cpus                  0.5\n"),
                                   std::pair("0.0", "  cpus                  no quota\n")}) {
    transport.answer(
        response(200, std::string(R"({"function":{"name":"f","kind":"handler","cpus":)") + cpus +
                          R"(},"activity":{}})"));
    transport.answer(response(200, R"({"invocations":[]})"));
    EXPECT_EQ(run_describe(transport, console, "f"), 0) << err.str();
    EXPECT_THAT(out.str(), HasSubstr(told));
  }
}

TEST_F(Verbs, DescribeShowsListsInWords) {
  transport.answer(response(200, R"({"function":{"name":"report","kind":"handler",
      "mounts":[{"at":"/weights","volume":"weights"}],"network":["a.example:443","b.example:443"],
      "schedules":[{"catch_up":false,"cron":"","enabled":true,"name":"often","payload":"","rate":"5 minutes"},
                   {"catch_up":true,"cron":"@daily","enabled":false,"name":"daily","payload":"{\"n\":1}","rate":""}]},
      "activity":{}})"));
  transport.answer(response(200, R"({"invocations":[]})"));
  EXPECT_EQ(run_describe(transport, console, "report"), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("  mounts                at /weights, volume weights\n"));
  EXPECT_THAT(out.str(), HasSubstr("  network               a.example:443; b.example:443\n"));
  EXPECT_THAT(out.str(), HasSubstr("name often, rate 5 minutes; catch_up true, cron @daily, "
                                   "enabled false, name daily, payload {\"n\":1}\n"));
}

TEST_F(Verbs, DescribeOfAWorkflowLeavesOutWhatSandboxesHave) {
  transport.answer(
      response(200, R"({"function":{"name":"flow","kind":"workflow","memory_bytes":512,"cpus":0.0,
      "runtime":"provided.al2023","timeout_seconds":30.0},"activity":{}})"));
  transport.answer(response(200, R"({"invocations":[]})"));
  EXPECT_EQ(run_describe(transport, console, "flow"), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("  timeout               30.00 s\n"));
  for (const char* none : {"memory", "cpus", "provided"}) {
    EXPECT_THAT(out.str(), Not(HasSubstr(none)));
  }
}

TEST_F(Verbs, TopShowsGpusFunctionsAndTheQueueOnceWhereThereIsNoTerminal) {
  transport.answer(response(200, R"({"devices":[{"gpu":"0","state":"healthy","tokens":2,
      "tokens_held":1,"memory_used_bytes":1073741824,"memory_total_bytes":4294967296}]})"));
  transport.answer(response(200, R"({"functions":[{"name":"idle","queued":0,"running":0},
      {"name":"hello","queued":1,"running":2,"p50_ms":20.0,"p99_ms":250.0}]})"));
  transport.answer(response(200, kLive));
  EXPECT_EQ(run_top(transport, console, {.times = 1}), 0);
  const std::string text = out.str();
  EXPECT_THAT(text, HasSubstr("queued 1, running 2\n"));
  EXPECT_THAT(text, HasSubstr("1 of 2  [#####...............] 25%  4 GiB  other 2.00 s\n"));
  EXPECT_LT(text.find("\nhello"), text.find("\nidle"));
  EXPECT_THAT(text, HasSubstr("every GPU ran as many as it may at once"));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
}

TEST_F(Verbs, TopNamesTheNodesThatLeaveAnyOfItsQuestionsUnanswered) {
  const auto answer_all = [this] {
    transport.answer(response(200, R"({"devices":[],"silent_nodes":["c"]})"));
    transport.answer(response(200, R"({"functions":[],"silent_nodes":[]})"));
    transport.answer(response(200, R"({"invocations":[],"silent_nodes":["b","c"]})"));
  };
  answer_all();
  EXPECT_EQ(run_top(transport, console, {.times = 1}), 0);
  EXPECT_THAT(out.str(), HasSubstr("node b does not answer: its figures are missing\n"
                                   "node c does not answer: its figures are missing\n"));
  out.str("");
  console.json = true;
  answer_all();
  EXPECT_EQ(run_top(transport, console, {.times = 1}), 0);
  EXPECT_EQ(Json::parse(out.str())["silent_nodes"], Json::array({"b", "c"}));
}

TEST_F(Verbs, TopLooksAgainUntilItIsToldToEnd) {
  for (int i = 0; i < 6; ++i) {
    transport.answer(response(200, R"({"devices":[],"functions":[],"invocations":[]})"));
  }
  int pauses = 0;
  TopOptions options{.every = seconds(3), .live = true};
  options.pause = [&](Duration time) { return time == seconds(3) && ++pauses < 2; };
  EXPECT_EQ(run_top(transport, console, options), 0);
  EXPECT_EQ(transport.requests.size(), 6u);
  EXPECT_THAT(out.str(), HasSubstr("\033[H\033[J"));
}

TEST(Fitted, ATextIsCutToTheTerminal) {
  EXPECT_EQ(fitted("abcdef\ngh\nij\n", 3, 4), "abcd\ngh\n");
  EXPECT_EQ(fitted("abc\xC3\xA9\n", 0, 4), "abc\n");  // not within a character
  EXPECT_EQ(fitted("abcdef\ngh\n", 0, 0), "abcdef\ngh\n");
}

}  // namespace
}  // namespace lambent::cli
