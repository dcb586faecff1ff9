// The verbs against a worker that answers from a script: what is asked, what is shown, how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "archive/zip.h"
#include "base/base64.h"
#include "base/fd.h"
#include "base/testing.h"
#include "cli/deploy.h"
#include "cli/devices.h"
#include "cli/invoke.h"
#include "cli/listing.h"
#include "cli/logs.h"
#include "cli/objects.h"
#include "cli/remove.h"
#include "cli/why.h"

namespace lambent::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Json = nlohmann::json;

class ScriptedTransport final : public Transport {
 public:
  void answer(http::Response response) { answers_.push_back(std::move(response)); }
  Result<http::Response> send(const http::Request& request, Duration) override {
    requests.push_back(request);
    if (answers_.empty()) return Error{ErrorCode::kUnavailable, "nobody listens"};
    http::Response response = std::move(answers_.front());
    answers_.pop_front();
    return response;
  }
  Result<http::Response> stream(const http::Request& request, Duration timeout,
                                const Sink& sink) override {
    auto response = send(request, timeout);
    if (response.ok()) sink(std::exchange(response->body, ""));
    return response;
  }

  std::vector<http::Request> requests;

 private:
  std::deque<http::Response> answers_;
};

http::Response response(int status, std::string body,
                        std::vector<std::pair<std::string, std::string>> headers = {}) {
  http::Response response{.status = status, .body = std::move(body)};
  for (auto& [name, value] : headers) response.headers.add(name, value);
  return response;
}

http::Response invoked(std::string body) {
  return response(200, std::move(body),
                  {{"x-amzn-requestid", "4f2c"},
                   {"X-Lambent-Queue-Us", "4000"},
                   {"x-lambent-sandbox-us", "2000"},
                   {"x-lambent-init-us", "80000"},
                   {"x-lambent-run-us", "226000"},
                   {"x-lambent-start", "cold"},
                   {"x-lambent-device", "0"},
                   {"x-lambent-device-memory-peak-bytes", "1048576"}});
}

class Verbs : public testing::Test {
 protected:
  std::ostringstream out;
  std::ostringstream err;
  Console console{out, err};
  ScriptedTransport transport;
};

TEST_F(Verbs, InvokePrintsThePayloadAndOneLineOfPhases) {
  transport.answer(invoked("{\"sum\":3}"));
  EXPECT_EQ(run_invoke(transport, console, {.name = "a b", .payload = "{\"x\":1}"}), 0);
  EXPECT_EQ(out.str(), "{\"sum\":3}\n");
  EXPECT_EQ(
      err.str(),
      "312 ms  queue 4.0 | sandbox 2.0 | init 80 | run 226   cold   gpu 0   gpu memory 1 MiB   id "
      "4f2c\n");
  ASSERT_EQ(transport.requests.size(), 1u);
  EXPECT_EQ(transport.requests[0].target, "/2015-03-31/functions/a%20b/invocations");
  EXPECT_EQ(transport.requests[0].headers.get("x-amz-invocation-type"), "RequestResponse");
  EXPECT_EQ(transport.requests[0].headers.get("content-type"), "application/json");
  EXPECT_EQ(transport.requests[0].body, "{\"x\":1}");
}

TEST_F(Verbs, InvokeTellsHowLongItsMemoryWasOnTheWay) {
  http::Response answer = invoked("1");
  answer.headers.add("x-lambent-memory-us", "90000");
  transport.answer(answer);
  EXPECT_EQ(run_invoke(transport, console, {.name = "f"}), 0);
  EXPECT_NE(err.str().find("402 ms  queue 4.0 | sandbox 2.0 | init 80 | memory 90 | run 226"),
            std::string::npos)
      << err.str();
}

TEST_F(Verbs, InvokeSaysItAllInJson) {
  console.json = true;
  http::Response answer = invoked("{\"sum\":3}");
  answer.headers.add("X-Amz-Log-Result", base64_encode("START\nhello\n"));
  transport.answer(answer);
  EXPECT_EQ(run_invoke(transport, console, {.name = "f", .log = true}), 0);
  EXPECT_EQ(transport.requests[0].headers.get("x-amz-log-type"), "Tail");
  EXPECT_EQ(out.str(), R"({
  "id": "4f2c",
  "outcome": "succeeded",
  "start": "cold",
  "phases_us": {
    "queue": 4000,
    "sandbox": 2000,
    "init": 80000,
    "memory": 0,
    "run": 226000,
    "total": 312000
  },
  "device_memory_peak_bytes": 1048576,
  "payload": {
    "sum": 3
  },
  "log_tail": "START\nhello\n"
}
)");
  EXPECT_EQ(err.str(), "");
}

TEST_F(Verbs, InvokeShowsTheTraceOfAFailedFunctionForPeople) {
  http::Response failed = invoked(
      R"({"errorType":"KeyError","errorMessage":"'a\u001b'","stackTrace":["  File \"app.py\", line 2\n    x","end\n"]})");
  failed.headers.add("X-Amz-Function-Error", "Unhandled");
  transport.answer(failed);
  EXPECT_EQ(run_invoke(transport, console, {.name = "f"}), 1);
  EXPECT_EQ(out.str(), failed.body + "\n");
  EXPECT_THAT(
      err.str(),
      testing::StartsWith(
          "KeyError: 'a?'\n  File \"app.py\", line 2\n    x\nend\nfunction error   312 ms"));
}

TEST_F(Verbs, InvokeShowsNoTraceWhereThereIsNone) {
  for (const char* body : {R"({"errorType":"T","errorMessage":"m"})", R"({"stackTrace":[]})",
                           R"({"stackTrace":[1]})", "[1]", "no json"}) {
    err.str("");
    http::Response failed = invoked(body);
    failed.headers.add("X-Amz-Function-Error", "Unhandled");
    transport.answer(failed);
    EXPECT_EQ(run_invoke(transport, console, {.name = "f"}), 1);
    EXPECT_THAT(err.str(), testing::StartsWith("function error   312 ms")) << body;
  }
}

TEST_F(Verbs, InvokeEndsWithOneWhenTheFunctionFailed) {
  http::Response answer = invoked("{\"errorType\":\"ValueError\"}");
  answer.headers.add("X-Amz-Function-Error", "Unhandled");
  transport.answer(answer);
  EXPECT_EQ(run_invoke(transport, console, {.name = "f"}), 1);
  EXPECT_EQ(out.str(), "{\"errorType\":\"ValueError\"}\n");
  EXPECT_THAT(err.str(), HasSubstr("function error   312 ms"));
}

TEST_F(Verbs, InvokeRefusesAPayloadThatIsNotJsonUnlessItIsRaw) {
  EXPECT_EQ(run_invoke(transport, console, {.name = "f", .payload = "not json"}), 13);
  EXPECT_TRUE(transport.requests.empty());
  EXPECT_THAT(err.str(), HasSubstr("--raw"));
  transport.answer(invoked("x"));
  EXPECT_EQ(run_invoke(transport, console, {.name = "f", .payload = "not json", .raw = true}), 0);
  EXPECT_EQ(transport.requests[0].headers.get("content-type"), "application/octet-stream");
}

TEST_F(Verbs, InvokeAsyncPrintsTheIdAndResultFetchesTheAnswer) {
  transport.answer(response(202, "", {{"x-amzn-requestid", "77aa"}}));
  EXPECT_EQ(run_invoke(transport, console, {.name = "f", .asynchronous = true}), 0);
  EXPECT_EQ(out.str(), "77aa\n");
  EXPECT_EQ(transport.requests[0].headers.get("x-amz-invocation-type"), "Event");

  transport.answer(response(202, "{\"status\":\"running\"}"));
  EXPECT_EQ(run_result(transport, console, {.id = "77aa"}), 24);
  EXPECT_THAT(err.str(), HasSubstr("--wait"));

  out.str("");
  transport.answer(response(202, ""));
  transport.answer(invoked("7"));
  EXPECT_EQ(
      run_result(transport, console, {.id = "77aa", .wait = true, .poll_every = Duration::zero()}),
      0);
  EXPECT_EQ(out.str(), "7\n");
  EXPECT_EQ(transport.requests.back().target, "/v1/invocations/77aa");
}

TEST_F(Verbs, ErrorsOfBothApisBecomeExitCodes) {
  transport.answer(response(404, "{\"Type\":\"User\",\"Message\":\"Function not found: f\"}",
                            {{"x-amzn-ErrorType", "ResourceNotFoundException"}}));
  EXPECT_EQ(run_invoke(transport, console, {.name = "f"}), 15);
  EXPECT_EQ(err.str(), "lambent: NOT_FOUND: Function not found: f\n");

  err.str("");
  console.json = true;
  transport.answer(
      response(429, R"({"error":{"code":"RESOURCE_EXHAUSTED","message":"say \"later\""}})"));
  EXPECT_EQ(run_ls(transport, console), 18);
  EXPECT_EQ(err.str(),
            "{\"error\":{\"code\":\"RESOURCE_EXHAUSTED\",\"message\":\"say \\\"later\\\"\"}}\n");
  EXPECT_EQ(Json::parse(err.str())["error"]["message"], "say \"later\"");

  EXPECT_EQ(run_ls(transport, console), 24) << "nobody listens";
  transport.answer(response(500, "<html>oops</html>"));
  EXPECT_EQ(run_ps(transport, console), 23);
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
      "invocation": "4f2c", "at_ms": 1, "took_ms": 20, "queue_ms": 12, "run_ms": 8,
      "start": "warm", "wait_reason": "no_token"}]})"));
  EXPECT_EQ(run_why(transport, console, kId), 0);
  EXPECT_THAT(out.str(), AllOf(HasSubstr("faces[0]"), HasSubstr("every GPU ran as many"),
                               HasSubstr("and 2 more calls")));
}

TEST_F(Verbs, WhySaysWhereStoriesOfOtherFunctionsAre) {
  EXPECT_EQ(run_why(transport, console, "7"), exit_code_of(ErrorCode::kInvalidArgument));
  EXPECT_TRUE(transport.requests.empty());
  transport.answer(response(404, R"({"error": {"code": "NOT_FOUND", "message": "unknown"}})"));
  EXPECT_EQ(run_why(transport, console, kId), exit_code_of(ErrorCode::kNotFound));
  EXPECT_THAT(err.str(), HasSubstr("--journal FOLDER"));
  transport.answer(response(200, "<html>"));
  EXPECT_EQ(run_why(transport, console, kId), exit_code_of(ErrorCode::kInternal));
}

TEST_F(Verbs, LogsAskOnFromWhereTheLastAnswerEnded) {
  transport.answer(response(200, "one\n", {{"x-lambent-next-offset", "4"}}));
  transport.answer(response(200, "two\n", {{"x-lambent-next-offset", "8"}}));
  transport.answer(response(200, "", {{"x-lambent-next-offset", "8"}}));
  transport.answer(response(200, "three\n"));
  EXPECT_EQ(run_logs(transport, console, {.name = "f", .follow = true}), 0);
  EXPECT_EQ(out.str(), "one\ntwo\nthree\n");
  ASSERT_EQ(transport.requests.size(), 4u);
  EXPECT_EQ(transport.requests[1].target, "/v1/functions/f/log?offset=4");
  EXPECT_EQ(transport.requests[3].target, "/v1/functions/f/log?offset=8&follow=1");
}

TEST_F(Verbs, RmGoesOnAfterAFailure) {
  transport.answer(response(404, "{\"Message\":\"no f\"}"));
  transport.answer(response(204, ""));
  EXPECT_EQ(run_rm(transport, console, {"f", "g"}), 15);
  EXPECT_EQ(out.str(), "removed g\n");
  EXPECT_EQ(transport.requests[1].method, "DELETE");
}

class Deploy : public Verbs {
 protected:
  void write(const std::string& name, std::string_view text) {
    const auto path = folder / name;
    std::filesystem::create_directories(path.parent_path());
    ASSERT_TRUE(write_file_atomically(path, text, false).ok());
  }
  TemporaryFolder temporary;
  const std::filesystem::path folder = temporary.path();
};

TEST_F(Deploy, CreatesAFunctionFromItsManifest) {
  write("lambent.toml",
        "name = \"hello\"\nruntime = \"python3\"\nhandler = \"app.handler\"\ncode = \"code\"\n"
        "memory = \"256M\"\ntimeout_s = 12\nweight = 2.5\nmax_concurency = 3\n"
        "bundles = [\"out/add.bundle\"]\n"
        "[gpu]\nmemory = \"1.5G\"\nlaunch_mode = \"model\"\nmemory_mode = \"vmm\"\nworking_set = "
        "\"touched\"\ncheckpoint = "
        "true\nruntime = \"own\"\ndomain = \"vision\"\nshare = 40\n[cpu]\nhandler = "
        "\"app.on_cpu\"\ngpu_speedup = 7.5\n[environment]\nA = \"b\"\n");
  write("code/app.py", "def handler(event, context): return event\n");
  write("out/add.bundle", "bundle");
  transport.answer(response(201, "{\"FunctionName\":\"hello\"}"));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 0) << err.str();
  EXPECT_THAT(err.str(), HasSubstr("line 8: no key 'max_concurency'; did you mean "
                                   "'max_concurrency'?"));
  EXPECT_THAT(out.str(), HasSubstr("created hello ("));
  ASSERT_EQ(transport.requests.size(), 1u);
  const Json sent = Json::parse(transport.requests[0].body);
  EXPECT_EQ(sent["FunctionName"], "hello");
  EXPECT_EQ(sent["Timeout"], 12);
  EXPECT_EQ(sent["MemorySize"], 256);
  EXPECT_EQ(sent["Environment"]["Variables"]["A"], "b");
  EXPECT_EQ(sent["Tags"]["lambent:gpu-memory"], "1536MiB");
  EXPECT_EQ(sent["Tags"]["lambent:launch-mode"], "model");
  EXPECT_EQ(sent["Tags"]["lambent:memory-mode"], "vmm");
  EXPECT_EQ(sent["Tags"]["lambent:working-set"], "touched");
  EXPECT_EQ(sent["Tags"]["lambent:checkpoint"], "true");
  EXPECT_EQ(sent["Tags"]["lambent:gpu-runtime"], "own");
  EXPECT_EQ(sent["Tags"]["lambent:gpu-domain"], "vision");
  EXPECT_EQ(sent["Tags"]["lambent:gpu-share"], "40");
  EXPECT_EQ(sent["Tags"]["lambent:cpu-variant"], "true");
  EXPECT_EQ(sent["Tags"]["lambent:cpu-handler"], "app.on_cpu");
  EXPECT_EQ(sent["Tags"]["lambent:gpu-speedup"], "7.5");
  EXPECT_EQ(sent["Tags"]["lambent:weight"], "2.5");
  const auto zip = base64_decode(sent["Code"]["ZipFile"].get<std::string>());
  ASSERT_TRUE(zip.has_value());
  EXPECT_THAT(*zip, HasSubstr("bundles/add.bundle"));
  EXPECT_THAT(*zip, HasSubstr("app.py"));
}

TEST_F(Deploy, UpdatesCodeConfigurationAndTagsOfAFunctionThatExists) {
  write("lambent.toml", "name = \"hello\"\n");
  write("bootstrap", "#!/bin/sh\n");
  transport.answer(response(409, "{\"Message\":\"Function already exist: hello\"}",
                            {{"x-amzn-ErrorType", "ResourceConflictException"}}));
  transport.answer(response(200, "{}"));
  transport.answer(response(204, ""));
  transport.answer(response(200, "{\"FunctionName\":\"hello\"}"));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("updated hello ("));
  ASSERT_EQ(transport.requests.size(), 4u);
  EXPECT_EQ(transport.requests[1].target, "/2015-03-31/functions/hello/code");
  EXPECT_EQ(transport.requests[2].target, "/2017-03-31/tags/hello");
  EXPECT_EQ(Json::parse(transport.requests[2].body)["Tags"]["lambent:gpu-memory"], "0MiB");
  EXPECT_EQ(transport.requests[3].target, "/2015-03-31/functions/hello/configuration");
}

TEST_F(Deploy, ChangesNothingWhereTheWorkerSaysThatItCannotTakeIt) {
  write("lambent.toml", "name = \"hello\"\n");
  write("bootstrap", "#!/bin/sh\n");
  transport.answer(response(409, "{\"Message\":\"no devices for pipelines here\"}",
                            {{"x-amzn-ErrorType", "ResourceConflictException"},
                             {"x-lambent-code", "FAILED_PRECONDITION"}}));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}),
            exit_code_of(ErrorCode::kFailedPrecondition));
  EXPECT_THAT(err.str(),
              HasSubstr("FAILED_PRECONDITION: deploying hello: no devices for pipelines here"));
  EXPECT_EQ(transport.requests.size(), 1u);
}

TEST_F(Deploy, SaysWhyAWorkerRefusesAFunctionThatItDoesNotHave) {
  write("lambent.toml", "name = \"hello\"\n");
  write("bootstrap", "#!/bin/sh\n");
  transport.answer(response(409, "{\"Message\":\"no devices for pipelines here\"}",
                            {{"x-amzn-ErrorType", "ResourceConflictException"}}));
  transport.answer(response(404, "{\"Message\":\"Function not found\"}",
                            {{"x-amzn-ErrorType", "ResourceNotFoundException"}}));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}),
            exit_code_of(ErrorCode::kFailedPrecondition));
  EXPECT_THAT(err.str(), HasSubstr("no devices for pipelines here"));
}

constexpr const char* kWorkflow =
    "name = \"traffic\"\nkind = \"workflow\"\n"
    "output = {faces = \"$faces\", price = \"$$5\", n = [1, 2.5, true]}\n"
    "[[component]]\nname = \"detect\"\npackage = \"detector\"\ninput = {image = \"$input\"}\n"
    "[[component]]\nname = \"faces\"\nfunction = \"face\"\nfor_each = \"$detect\"\n"
    "when = {ref = \"$item.score\", op = \">\", value = 0.5}\nidempotent = true\n"
    "[[component]]\nname = \"again\"\npackage = \"./detector\"\n"
    "[[component]]\nname = \"other\"\npackage = \"detector\"\nfunction = \"named\"\n";

TEST_F(Deploy, AWorkflowsTablesBecomeItsGraphAndItsPackagesComeFirst) {
  write("lambent.toml", kWorkflow);
  write("detector/lambent.toml", "name = \"detector\"\n");
  write("detector/bootstrap", "#!/bin/sh\n");
  for (int i = 0; i < 3; ++i) transport.answer(response(201, "{}"));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 0) << err.str();
  EXPECT_THAT(out.str(), AllOf(HasSubstr("created detector ("), HasSubstr("created named ("),
                               HasSubstr("created traffic (")));
  ASSERT_EQ(transport.requests.size(), 3u);
  EXPECT_EQ(Json::parse(transport.requests[0].body)["FunctionName"], "detector");
  EXPECT_EQ(Json::parse(transport.requests[1].body)["FunctionName"], "named");
  const Json sent = Json::parse(transport.requests[2].body);
  EXPECT_EQ(sent["FunctionName"], "traffic");
  EXPECT_EQ(sent["Handler"], "workflow.json");
  EXPECT_EQ(sent["Tags"]["lambent:kind"], "workflow");
  const auto zip = base64_decode(sent["Code"]["ZipFile"].get<std::string>());
  ASSERT_TRUE(zip && archive::unpack_zip(*zip, folder / "unpacked").ok());
  const Json graph = Json::parse(*read_file(folder / "unpacked/workflow.json", 1 << 20));
  const Json expected = Json::parse(R"({"components": [
      {"name": "detect", "input": {"image": "$input"}, "function": "detector"},
      {"name": "faces", "function": "face", "for_each": "$detect",
       "when": {"ref": "$item.score", "op": ">", "value": 0.5}, "idempotent": true},
      {"name": "again", "function": "detector"},
      {"name": "other", "function": "named"}],
    "output": {"faces": "$faces", "price": "$$5", "n": [1, 2.5, true]}})");
  EXPECT_EQ(nlohmann::json(graph), nlohmann::json(expected));
}

TEST_F(Deploy, AWorkflowMayBringItsGraphAsAFile) {
  write("lambent.toml", "name = \"w\"\nkind = \"workflow\"\ngraph = \"mine.json\"\n");
  write("mine.json", "{}");
  transport.answer(response(201, "{}"));
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 0) << err.str();
  EXPECT_EQ(Json::parse(transport.requests.at(0).body)["Handler"], "mine.json");
}

TEST_F(Deploy, PackagesOfOneNameDoNotReplaceEachOther) {
  const std::string one = "[[component]]\nname = \"a\"\npackage = \"one\"\n";
  const std::string two = "[[component]]\nname = \"b\"\npackage = \"two\"\n";
  for (const char* package : {"one", "two"}) {
    write(std::string(package) + "/lambent.toml", "name = \"step\"\n");
    write(std::string(package) + "/bootstrap", "#!/bin/sh\n");
  }
  write("lambent.toml", "name = \"w\"\nkind = \"workflow\"\n" + one + two);
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 13);
  EXPECT_THAT(err.str(), HasSubstr("both describe a function 'step'"));
  write("lambent.toml", "name = \"step\"\nkind = \"workflow\"\n" + one);
  err.str("");
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 13);
  EXPECT_THAT(err.str(), HasSubstr("both describe a function 'step'"));
  EXPECT_TRUE(transport.requests.empty());
}

TEST_F(Deploy, SaysWhatIsWrongWithAWorkflow) {
  const auto complaint = [&](const std::string& text) {
    write("lambent.toml", "name = \"w\"\nkind = \"workflow\"\n" + text);
    err.str("");
    EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 13) << text;
    return err.str();
  };
  const std::string part = "[[component]]\nname = \"a\"\nfunction = \"f\"\n";
  EXPECT_THAT(complaint(part + "input = \"$b\"\n"),
              HasSubstr("lambent.toml: components[0].input: '$b': there is no component 'b'"));
  EXPECT_THAT(complaint(part + "foreach = \"$input\"\n"),
              HasSubstr("components[0]: there is no 'foreach' here; did you mean 'for_each'?"));
  EXPECT_THAT(complaint("[[component]]\nname = \"a\"\n"),
              HasSubstr("components[0]: 'function' is missing"));
  EXPECT_THAT(complaint(part + "input = 1979-05-27\n"), HasSubstr("line 6: dates, times"));
  EXPECT_THAT(complaint("component = 3\n"), HasSubstr("line 3: components are written as tables"));
  EXPECT_THAT(complaint("graph = \"x\"\n" + part), HasSubstr("line 3: graph is for workflows"));
  EXPECT_THAT(complaint("output = \"$a\"\n"), HasSubstr("line 3: output belongs to"));
  EXPECT_THAT(complaint("handler = \"a.b\"\n" + part),
              HasSubstr("line 3: a function of kind 'workflow' has no handler"));
  EXPECT_THAT(complaint(part + "package = \".\"\n"),
              HasSubstr("packages lie more than 8 deep in each other"));
  EXPECT_TRUE(transport.requests.empty());
}

TEST_F(Deploy, SaysWhatIsWrongWithAManifest) {
  const auto complaint = [&](std::string_view text) {
    write("lambent.toml", text);
    err.str("");
    EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 13) << text;
    return err.str();
  };
  EXPECT_THAT(complaint("name = \n"), HasSubstr("lambent.toml line 1, column"));
  EXPECT_THAT(complaint("name = 3\n"), HasSubstr("line 1: name must be text in quotes"));
  EXPECT_THAT(complaint("handler = \"x\"\n"), HasSubstr("has no name"));
  EXPECT_THAT(complaint("name = \"f\"\ntimeout_s = 0\n"), HasSubstr("timeout"));
  EXPECT_THAT(complaint("name = \"f\"\nruntime = \"ruby\"\n"), HasSubstr("runtime is 'ruby'"));
  EXPECT_THAT(complaint("name = \"f\"\n[gpu]\nlaunch_mode = \"fast\"\n"),
              HasSubstr("line 3: gpu.launch_mode is 'fast'"));
  EXPECT_THAT(complaint("name = \"f\"\n[gpu]\nmemory_mode = \"swap\"\n"),
              HasSubstr("line 3: gpu.memory_mode is 'swap'"));
  EXPECT_THAT(complaint("name = \"f\"\n[gpu]\nworking_set = \"all\"\n"),
              HasSubstr("line 3: gpu.working_set is 'all'"));
  EXPECT_THAT(complaint("name = \"f\"\n[gpu]\ncheckpoint = 1\n"),
              HasSubstr("line 3: gpu.checkpoint must be true or false"));
  EXPECT_THAT(complaint("name = \"f\"\n[gpu]\nmemory = \"lots\"\n"), HasSubstr("gpu.memory"));
  EXPECT_TRUE(transport.requests.empty());
  std::filesystem::remove(folder / "lambent.toml");
  EXPECT_EQ(run_deploy(transport, console, {.path = folder}), 15);
}

TEST_F(Verbs, AnObjectIsPutWithItsTypeAndGotByItsName) {
  TemporaryFolder folder;
  ASSERT_TRUE(write_file_atomically(folder / "x", "12345678", false).ok());
  transport.answer(response(201, R"({"object":"o.0","bytes":8})"));
  EXPECT_EQ(run_objects_put(transport, console,
                            {.file = folder / "x", .datatype = "FP32", .shape = "1,2"}),
            0);
  EXPECT_EQ(transport.requests[0].method, "POST");
  EXPECT_EQ(transport.requests[0].body, "12345678");
  EXPECT_EQ(transport.requests[0].headers.get("X-Lambent-Shape"), "1,2");
  EXPECT_EQ(out.str(), "o.0\n");
  transport.answer(response(200, "12345678", {{"x-lambent-datatype", "FP32"}}));
  EXPECT_EQ(run_objects_get(transport, console, {.id = "o.0", .output = folder / "y"}), 0);
  EXPECT_EQ(*read_file(folder / "y", 100), "12345678");
  EXPECT_THAT(err.str(), HasSubstr("FP32"));
  transport.answer(response(404, R"({"error":{"code":"NOT_FOUND","message":"no such object"}})"));
  EXPECT_EQ(run_objects_get(transport, console, {.id = "o.1"}), 15);
}

TEST_F(Verbs, ObjectsAreListedPageAfterPageAndRemoved) {
  transport.answer(response(
      200, R"({"objects":[{"object":"a.0","state":"exists","place":"memory","datatype":"FP32",)"
           R"("shape":[2],"bytes":8,"references":0}],"next":"a.0"})"));
  transport.answer(
      response(200, R"({"objects":[{"object":"b.0","state":"expected","references":1}]})"));
  EXPECT_EQ(run_objects_ls(transport, console), 0);
  EXPECT_EQ(transport.requests[1].target, "/v1/objects?after=a.0");
  EXPECT_THAT(out.str(), HasSubstr("FP32 [2]"));
  EXPECT_THAT(out.str(), HasSubstr("expected"));
  transport.answer(response(204, ""));
  transport.answer(response(404, R"({"error":{"code":"NOT_FOUND","message":"gone"}})"));
  EXPECT_EQ(run_objects_rm(transport, console, {"a.0", "c.0"}), 15);
  EXPECT_EQ(transport.requests[2].method, "DELETE");
}

TEST_F(Verbs, PagesOfObjectsThatAreNoneOfAWorkerAreRefused) {
  for (const char* strange :
       {R"({"objects":[{}],"next":5})", R"({"objects":[],"next":"a.0"})", R"({"objects":{}})"}) {
    transport.answer(response(200, strange));
    err.str("");
    EXPECT_EQ(run_objects_ls(transport, console), 23) << strange;
    EXPECT_THAT(err.str(), HasSubstr("is that a Lambent worker?"));
  }
  for (int i = 0; i < 2; ++i) {
    transport.answer(response(200, R"({"objects":[{"object":"a.0"}],"next":"a.0"})"));
  }
  EXPECT_EQ(run_objects_ls(transport, console), 23) << "the page after a.0 is that before it";
}

}  // namespace
}  // namespace lambent::cli
