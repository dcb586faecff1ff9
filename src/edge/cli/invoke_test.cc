// invoke and result of a function: what is asked, what is shown, how it ends.
#include <gmock/gmock.h>

#include <future>
#include <nlohmann/json.hpp>

#include "core/base/base64.h"
#include "core/base/fd.h"
#include "core/http/event_stream.h"
#include "edge/cli/event_text.h"
#include "edge/cli/invoke.h"
#include "edge/cli/listing.h"
#include "edge/cli/testing/verbs_testing.h"
#include "edge/cli/wait_notice.h"

namespace lambent::cli {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

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

TEST(EventText, IsATextOrWhatAFileHolds) {
  const std::string path = testing::TempDir() + "/event.json";
  ASSERT_TRUE(write_file_atomically(path, "{\"n\": 1}", false).ok());
  EXPECT_EQ(*event_text(std::nullopt, std::nullopt), "{}");
  EXPECT_EQ(*event_text("[1]", std::nullopt), "[1]");
  EXPECT_EQ(*event_text("@" + path, std::nullopt), "{\"n\": 1}");
  EXPECT_EQ(*event_text(std::nullopt, path), "{\"n\": 1}");
  EXPECT_EQ(event_text("@/nowhere", std::nullopt).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(event_text("@", std::nullopt).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(Verbs, InvokeReadsTheEventFromTheFileOfData) {
  const std::string path = testing::TempDir() + "/event.json";
  ASSERT_TRUE(write_file_atomically(path, "{\"n\": 1}", false).ok());
  transport.answer(invoked("1"));
  EXPECT_EQ(run_invoke(transport, console, {.name = "f", .payload = "@" + path}), 0);
  EXPECT_EQ(transport.requests.at(0).body, "{\"n\": 1}");
}

Json row(const std::string& phase, double waited_s, const std::string& reason = "none") {
  return {{"phase", phase}, {"waited_seconds", waited_s}, {"wait_reason", reason}};
}

TEST(WaitNotice, SaysWhatTheCallThatCameThenWaitsFor) {
  const auto notice = [](std::vector<Json> rows, int waited_s) {
    return notice_of({{"invocations", rows}}, seconds(waited_s));
  };
  EXPECT_EQ(notice({row("starting", 0)}, 2), "a sandbox is being started");
  EXPECT_EQ(notice({row("queued", 2, "no_token")}, 2),
            "in the queue: every GPU ran as many as it may at once");
  EXPECT_EQ(notice({row("running", 0)}, 5), "the function runs");
  EXPECT_EQ(notice({}, 5), "");
  // Others of its function came earlier.
  EXPECT_EQ(notice({row("queued", 9, "own_queue"), row("queued", 2.1, "concurrency_limit"),
                    row("running", 1)},
                   2),
            "in the queue: its function ran as many as it may at once");
  EXPECT_EQ(notice({row("queued", 9, "own_queue"), row("running", 1)}, 2), "the function runs");
}

// Answers once it has been told to, as a worker does whose function takes its time.
class SlowTransport final : public Transport {
 public:
  explicit SlowTransport(std::function<void()> wait) : wait_(std::move(wait)) {}
  Result<http::Response> send(const http::Request&, Duration) override {
    wait_();
    return invoked("1");
  }
  Result<http::Response> stream(const http::Request& request, Duration timeout,
                                const Sink&) override {
    return send(request, timeout);
  }
  Result<http::Response> upload(const http::Request& request, Bytes, Duration timeout,
                                const http::BodySource&) override {
    return send(request, timeout);
  }

 private:
  std::function<void()> wait_;
};

TEST_F(Verbs, InvokeSaysAtATerminalWhatACallWaitsFor) {
  std::promise<void> asked;
  const auto connect = [&asked]() -> std::unique_ptr<Transport> {
    auto watcher = std::make_unique<ScriptedTransport>();
    watcher->answer(response(200, Json{{"invocations", {row("starting", 0)}}}.dump()));
    // Asked again, it gives no answer; then the call ends.
    struct Asked final : Transport {
      std::unique_ptr<ScriptedTransport> inner;
      std::promise<void>* asked;
      int times = 0;
      Result<http::Response> send(const http::Request& request, Duration timeout) override {
        if (++times == 2) asked->set_value();
        return inner->send(request, timeout);
      }
      Result<http::Response> stream(const http::Request& request, Duration timeout,
                                    const Sink& sink) override {
        return inner->stream(request, timeout, sink);
      }
      Result<http::Response> upload(const http::Request& request, Bytes size, Duration timeout,
                                    const http::BodySource& source) override {
        return inner->upload(request, size, timeout, source);
      }
    };
    auto counted = std::make_unique<Asked>();
    counted->inner = std::move(watcher);
    counted->asked = &asked;
    return counted;
  };
  SlowTransport slow([&asked] { asked.get_future().wait(); });
  console.err_is_terminal = true;
  EXPECT_EQ(
      run_invoke(slow, console, {.name = "f", .connect = connect, .notice_every = milliseconds(1)}),
      0);
  EXPECT_THAT(err.str(), testing::ContainsRegex("waiting, .* by now: a sandbox is being started"));
  EXPECT_EQ(out.str(), "1\n");
}

TEST_F(Verbs, InvokeSaysNothingOfAWaitToAProgram) {
  const auto connect = []() -> std::unique_ptr<Transport> {
    ADD_FAILURE() << "no second connection is needed";
    return nullptr;
  };
  transport.answer(invoked("1"));
  EXPECT_EQ(run_invoke(transport, console,
                       {.name = "f", .connect = connect, .notice_every = milliseconds(1)}),
            0);
  console.err_is_terminal = true;
  console.json = true;
  transport.answer(invoked("1"));
  EXPECT_EQ(run_invoke(transport, console,
                       {.name = "f", .connect = connect, .notice_every = milliseconds(1)}),
            0);
}

std::string frame(const std::string& type, const std::string& payload) {
  return http::encode_frame({.headers = {{":event-type", type}}, .payload = payload});
}

TEST_F(Verbs, InvokeShowsWhatIsStreamedAsItComes) {
  const std::string end = R"({"LambentOutcome": {"x-amzn-RequestId": "4f2c",
      "x-lambent-queue-us": "4000", "x-lambent-sandbox-us": "2000", "x-lambent-init-us": "80000",
      "x-lambent-run-us": "226000", "x-lambent-start": "cold"}, "LogResult": ")" +
                          base64_encode("last words\n") + "\"}";
  transport.answer(response(200, frame("PayloadChunk", "hello ") + frame("PayloadChunk", "world") +
                                     frame("InvokeComplete", end)));
  EXPECT_EQ(run_invoke(transport, console, {.name = "f", .log = true, .streams = true}), 0);
  EXPECT_EQ(transport.requests[0].target, "/2015-03-31/functions/f/response-streaming-invocations");
  EXPECT_EQ(out.str(), "hello world");
  EXPECT_THAT(err.str(), HasSubstr("last words\n312 ms  queue 4.0"));
}

TEST_F(Verbs, InvokeTellsHowAStreamFailed) {
  transport.answer(response(
      200,
      frame("PayloadChunk", "half") +
          frame("InvokeComplete",
                R"({"ErrorCode": "Unhandled", "ErrorDetails": "{\"errorMessage\": \"no\"}"})")));
  EXPECT_EQ(run_invoke(transport, console, {.name = "f", .streams = true}), kExitFunctionError);
  EXPECT_EQ(out.str(), "half\n{\"errorMessage\": \"no\"}\n");
  EXPECT_THAT(err.str(), HasSubstr("function error"));
}

TEST_F(Verbs, AStreamThatBreaksOffIsAnError) {
  transport.answer(response(200, frame("PayloadChunk", "half")));
  EXPECT_NE(run_invoke(transport, console, {.name = "f", .streams = true}), 0);
  EXPECT_THAT(err.str(), HasSubstr("the answer broke off"));
  transport.answer(response(200, "this is no event stream"));
  EXPECT_NE(run_invoke(transport, console, {.name = "f", .streams = true}), 0);
  EXPECT_THAT(err.str(), HasSubstr("checksum"));
}

TEST_F(Verbs, ARefusalOfAStreamIsTold) {
  transport.answer(response(404, R"({"Type": "User", "Message": "Function not found: f"})",
                            {{"x-amzn-ErrorType", "ResourceNotFoundException"}}));
  EXPECT_NE(run_invoke(transport, console, {.name = "f", .streams = true}), 0);
  EXPECT_THAT(err.str(), HasSubstr("Function not found"));
  console.json = true;
  EXPECT_NE(run_invoke(transport, console, {.name = "f", .streams = true}), 0);
  EXPECT_THAT(err.str(), HasSubstr("--stream"));
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

TEST_F(Verbs, InvokeSaysWhereAnSloWasMissed) {
  for (const char* slo : {"late", "in_time"}) {
    http::Response answer = invoked("1");
    answer.headers.add("x-lambent-slo", slo);
    transport.answer(answer);
    EXPECT_EQ(run_invoke(transport, console, {.name = "f"}), 0);
  }
  EXPECT_THAT(err.str(), HasSubstr("cold   SLO missed   gpu 0"));
  EXPECT_EQ(err.str().find("SLO"), err.str().rfind("SLO")) << "kept ones need no word";
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

TEST_F(Verbs, ResultTellsOfOneThatWaitsToBeTriedAgainAndWhereItsOutcomeWent) {
  transport.answer(response(202, R"({"state":"pending","phase":"waiting","run":2,"most_runs":3,
    "due_in_seconds":34,"last_failure":"E: no"})"));
  EXPECT_EQ(run_result(transport, console, {.id = "77aa"}), 24);
  EXPECT_THAT(err.str(),
              HasSubstr("is waiting for run 2 of 3, in 34.00 s: the last one failed with "
                        "E: no; wait for it with --wait"));

  err.str("");
  http::Response answer = invoked("7");
  answer.headers.add("x-lambent-runs", "3");
  answer.headers.add("x-lambent-destination", "audit as 88bb");
  transport.answer(answer);
  EXPECT_EQ(run_result(transport, console, {.id = "77aa"}), 0);
  EXPECT_THAT(err.str(), HasSubstr("3 runs"));
  EXPECT_THAT(err.str(), HasSubstr("\ndestination   audit as 88bb\n"));
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

  EXPECT_EQ(run_ls(transport, console), 24) << "no worker listens";
  transport.answer(response(500, "<html>oops</html>"));
  EXPECT_EQ(run_ps(transport, console), 23);
}

}  // namespace
}  // namespace lambent::cli
