#include "edge/frontend/native.h"
#include "edge/frontend/limits.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/log.h"
#include "core/base/random.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/router.h"
#include "edge/frontend/testing/fake_access.h"
#include "edge/frontend/testing/fake_secrets.h"
#include "edge/frontend/testing/fake_volumes.h"
#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

class NativeTest : public testing::Test {
 protected:
  std::shared_ptr<Exchanged> start(
      const std::string& method, const std::string& target,
      const std::vector<std::pair<std::string, std::string>>& headers = {}) {
    auto seen = std::make_shared<Exchanged>();
    router_.handle(request_of(method, target, "", headers), responder_to(seen));
    return seen;
  }
  http::Response get(const std::string& target) {
    const auto seen = start("GET", target);
    EXPECT_TRUE(seen->response.has_value()) << target;
    return seen->response.value_or(http::Response{.status = 0});
  }
  static void expect_error(const http::Response& response, int status, const std::string& code) {
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_EQ(json::parse(response.body)["error"]["code"], code);
    EXPECT_FALSE(json::parse(response.body)["error"]["message"].get<std::string>().empty());
  }
  // Lets the followers' timer come round.
  void turn() {
    clock_.advance(milliseconds(100));
    loop_.run_once(Duration());
  }

  FakeClock clock_;
  loop::EventLoop loop_{clock_};
  FakeService service_;
  FakeVersions versions_{service_};
  SeededRandom random_{1};
  bool ready_ = true;
  std::optional<std::string> disk_failure_;
  std::optional<std::string> catalog_failure_;
  std::vector<std::string> drains_;
  std::string progress_;  // of every invocation; empty: none waits
  std::string trace_;     // of every run; empty: there is none
  Result<CancelledInvocation> cancelled_ = CancelledInvocation{"queued", true};
  NullLogSink log_;
  objects::ObjectStore store_{loop_, log_, [](auto, auto) { return false; }, {}};
  ObjectsFrontend objects_{store_, [](auto, auto) { return false; }, loop_, random_};
  FakeAccess access_;
  FakeSecrets secrets_;
  FakeVolumes volumes_;
  FakeRelays relays_;
  Router router_{
      {service_, versions_, access_, secrets_, objects_, relays_, volumes_},
      loop_,
      random_,
      {.native = {.version = "1.2.3",
                  .metrics = [](auto) { return std::string("lambent_up 1\n"); },
                  .ready = [this] { return ready_; },
                  .checks =
                      [this] {
                        std::vector<ReadyCheck> checks{{"state_disk", disk_failure_}};
                        if (catalog_failure_) {
                          checks.push_back({"shared_catalog", catalog_failure_, false});
                        }
                        return checks;
                      },
                  .about = {.policy = "fcfs",
                            .time_scale = 20,
                            .devices = 2,
                            .emulated = true,
                            .gpu = "V100"},
                  .trace = [this](TenantId, InvocationId) -> Result<std::string> {
                    if (trace_.empty()) return Error{ErrorCode::kNotFound, "no such run"};
                    return trace_;
                  },
                  .explain = [this](TenantId, InvocationId) -> Result<std::string> {
                    if (progress_.empty()) return Error{ErrorCode::kNotFound, "no such invocation"};
                    return progress_;
                  },
                  .cancel = [this](TenantId, InvocationId) { return cancelled_; },
                  .devices = [] { return std::string("{\"devices\":[{\"gpu\":\"0\"}]}"); },
                  .drain_devices =
                      [this](const std::string& gpu, const std::string& reason, auto done) {
                        if (gpu != "0:2") return done(Error{ErrorCode::kNotFound, "no such GPU"});
                        drains_.push_back("drain " + gpu + " " + reason);
                        done({});
                      },
                  .undrain_devices =
                      [this](const std::string& gpu, auto done) {
                        drains_.push_back("undrain " + gpu);
                        done({});
                      }},
       .auth = {},
       .offload = [](auto, auto) { return false; },
       .audit = [](AuditRecord, const AuditWritten& written) { written({}); },
       .usage = [](TenantId) { return TenantUsage(); }},
      RequestGuard{HostPolicy{}}};
};

TEST_F(NativeTest, NoRouteServesAWebPage) {
  for (const auto& [method, target] : std::vector<std::pair<std::string, std::string>>{
           {"GET", "/livez"},
           {"GET", "/readyz"},
           {"GET", "/metrics"},
           {"GET", "/v1/version"},
           {"GET", "/v1/functions"},
           {"GET", "/v1/functions/f/log"},
           {"POST", "/v1/functions/f/invocations"},
           {"GET", "/v1/invocations/00000000-0000-4000-8000-000000000001"},
           {"GET", "/v1/sandboxes"},
           {"GET", "/v1/devices"},
           {"POST", "/v1/devices/0:2/drain"},
           {"POST", "/v1/devices/0:2/undrain"},
           {"PUT", "/v1/objects"},
           {"GET", "/v1/objects/1234"},
           {"GET", "/no/such/path"}}) {
    for (const std::vector<std::pair<std::string, std::string>>& headers :
         {std::vector<std::pair<std::string, std::string>>{{"Origin", "http://pages.example"}},
          {{"Sec-Fetch-Site", "cross-site"}},
          {{"Host", "rebind.example:8980"}}}) {
      expect_error(*start(method, target, headers)->response, 403, "PERMISSION_DENIED");
    }
  }
  for (const auto& [method, target] : std::vector<std::pair<std::string, std::string>>{
           {"GET", "/2015-03-31/functions"},
           {"POST", "/2015-03-31/functions"},
           {"DELETE", "/2015-03-31/functions/f"},
           {"POST", "/2015-03-31/functions/f/invocations"},
           {"GET", "/2015-03-31/no/such/path"}}) {
    const auto seen = start(method, target, {{"Origin", "null"}});
    EXPECT_EQ(seen->response->status, 403) << target;
    EXPECT_EQ(seen->response->headers.get("x-amzn-ErrorType"), "AccessDeniedException");
  }
  EXPECT_TRUE(drains_.empty());
  EXPECT_TRUE(service_.submitted.empty());
  EXPECT_TRUE(service_.changes.empty());
}

TEST_F(NativeTest, DevicesAreListedDrainedAndTakenBack) {
  EXPECT_EQ(json::parse(get("/v1/devices").body)["devices"][0]["gpu"], "0");
  const auto drained = start("POST", "/v1/devices/0%3A2/drain?reason=new%20fan");
  ASSERT_TRUE(drained->response.has_value());
  EXPECT_EQ(drained->response->status, 200);
  EXPECT_EQ(json::parse(drained->response->body)["devices"].size(), 1u);
  start("POST", "/v1/devices/0:2/undrain");
  EXPECT_EQ(drains_, (std::vector<std::string>{"drain 0:2 new fan", "undrain 0:2"}));
  expect_error(*start("POST", "/v1/devices/9/drain")->response, 404, "NOT_FOUND");
  EXPECT_EQ(get("/v1/devices/0/drain").status, 405);
  EXPECT_EQ(drains_.size(), 2u);
  EXPECT_EQ(start("POST", "/v1/devices")->response->status, 405);
  for (const char* query : {"reason=a%00b", "reason=%4", "x=1&reason=%zz"}) {
    const auto refused = start("POST", std::string("/v1/devices/0/drain?") + query);
    EXPECT_NE(refused->response->body.find("the query has a '%'"), std::string::npos) << query;
  }
  expect_error(*start("POST", "/v1/devices/0/drain?reason=a%0Ab")->response, 400,
               "INVALID_ARGUMENT");
  const std::string long_reason(257, 'x');
  expect_error(*start("POST", "/v1/devices/0/drain?reason=" + long_reason)->response, 400,
               "INVALID_ARGUMENT");
}

TEST_F(NativeTest, FunctionsAreListedWithWhatTheyDo) {
  FunctionSpec spec;
  spec.name = {kDefaultTenant, "f"};
  spec.gpu.memory = Bytes(7);
  service_.functions[spec.name] = spec;
  const json list = json::parse(get("/v1/functions").body)["functions"];
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["name"], "f");
  EXPECT_EQ(list[0]["kind"], "handler");
  EXPECT_EQ(list[0]["gpu_memory_bytes"], 7);
  EXPECT_EQ(list[0]["launch_mode"], "compute");
  EXPECT_EQ(list[0]["memory_mode"], "vmm");
  EXPECT_EQ(list[0]["working_set"], "worker");
  EXPECT_EQ(list[0]["checkpoint"], false);
  EXPECT_EQ(list[0]["timeout_seconds"], 30.0);
  EXPECT_EQ(list[0]["queued"], 1);
  EXPECT_EQ(list[0]["running"], 2);
  EXPECT_EQ(list[0]["completed"], 3);
  EXPECT_EQ(list[0]["sandboxes"], 4);
}

TEST_F(NativeTest, FunctionsAreListedPageByPage) {
  for (const char* name : {"c", "a/b", "b", "e", "d"}) {
    service_.functions[{kDefaultTenant, name}].name = {kDefaultTenant, name};
  }
  std::string names;
  std::string after;
  for (int page = 0; page < 3; ++page) {
    const json list = json::parse(get("/v1/functions?limit=2&after=" + after).body);
    for (const json& one : list["functions"]) names += one["name"].get<std::string>() + " ";
    EXPECT_EQ(list.contains("next"), page < 2);
    after = http::percent_encode(list.value("next", ""));
  }
  EXPECT_EQ(names, "a/b b c d e ");
  for (size_t i = 0; i < kFunctionStatusPerPage; ++i) {
    const FunctionName name{kDefaultTenant, "x" + std::to_string(i)};
    service_.functions[name].name = name;
  }
  for (const char* large : {"1000000", "99999999999999999999999"}) {
    const json most = json::parse(get("/v1/functions?limit=" + std::string(large)).body);
    EXPECT_EQ(most["functions"].size(), kFunctionStatusPerPage);
    EXPECT_TRUE(most.contains("next"));
  }
  for (const char* bad : {"0", "x", "-1", "99999999999999999999999x"}) {
    expect_error(get("/v1/functions?limit=" + std::string(bad)), 400, "INVALID_ARGUMENT");
  }
}

TEST_F(NativeTest, SandboxesAreListed) {
  service_.sandboxes = {{SandboxId(9),
                         {kDefaultTenant, "f"},
                         "busy",
                         123,
                         DeviceId(1),
                         {DeviceId(3)},
                         seconds(2),
                         5,
                         1,
                         Bytes(6),
                         Bytes(7)}};
  const json list = json::parse(get("/v1/sandboxes").body)["sandboxes"];
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["id"], 9);
  EXPECT_EQ(list[0]["function"], "f");
  EXPECT_EQ(list[0]["state"], "busy");
  EXPECT_EQ(list[0]["pid"], 123);
  EXPECT_EQ(list[0]["gpus"], json::array({"0", "2"}));
  EXPECT_EQ(list[0]["age_seconds"], 2.0);
  EXPECT_EQ(list[0]["device_memory_bytes"], 6);
  service_.sandboxes.push_back(service_.sandboxes.front());
  const json one = json::parse(get("/v1/sandboxes?limit=1").body);
  EXPECT_EQ(one["sandboxes"].size(), 1u);
  EXPECT_EQ(one["all"], 2);
  EXPECT_EQ(get("/v1/sandboxes?limit=x").status, 400);
}

TEST_F(NativeTest, ALogIsReadFromAnOffset) {
  service_.logs["f"] = "one\ntwo\n";
  const auto whole = get("/v1/functions/f/log");
  EXPECT_EQ(whole.body, "one\ntwo\n");
  EXPECT_EQ(whole.headers.get("x-lambent-next-offset"), "8");
  EXPECT_EQ(get("/v1/functions/f/log?offset=4").body, "two\n");
  const auto end = get("/v1/functions/f/log?offset=end");
  EXPECT_EQ(end.body, "");
  EXPECT_EQ(end.headers.get("x-lambent-next-offset"), "8");
  expect_error(get("/v1/functions/g/log?offset=end"), 404, "NOT_FOUND");
  expect_error(get("/v1/functions/g/log"), 404, "NOT_FOUND");
  expect_error(get("/v1/functions/f/log?offset=-1"), 400, "INVALID_ARGUMENT");
  expect_error(get("/v1/functions/f/log?follow=yes"), 400, "INVALID_ARGUMENT");
}

TEST_F(NativeTest, AFollowedLogStreamsWhatIsNew) {
  service_.logs["f"] = "one\n";
  const auto seen = start("GET", "/v1/functions/f/log?follow=1");
  EXPECT_EQ(seen->chunks, "one\n");
  service_.logs["f"] += "two\n";
  turn();
  EXPECT_EQ(seen->chunks, "one\ntwo\n");
  turn();
  EXPECT_EQ(seen->chunks, "one\ntwo\n");
  EXPECT_FALSE(seen->finished);
  service_.logs.erase("f");
  turn();
  EXPECT_TRUE(seen->finished);
}

TEST_F(NativeTest, FollowersEndWhenTheyLeaveAreTooSlowOrTheWorkerDrains) {
  service_.logs["f"] = "";
  const auto left = start("GET", "/v1/functions/f/log?follow=1");
  const auto slow = start("GET", "/v1/functions/f/log?follow=1");
  const auto patient = start("GET", "/v1/functions/f/log?follow=1");
  left->disconnect();
  slow->takes_chunks = false;
  service_.logs["f"] = "x";
  turn();
  EXPECT_TRUE(left->abandoned);
  EXPECT_TRUE(slow->abandoned);
  EXPECT_FALSE(patient->abandoned);
  service_.logs["f"] = "xy";
  ready_ = false;
  turn();
  EXPECT_TRUE(patient->finished);
  EXPECT_EQ(patient->chunks, "xy");
}

TEST_F(NativeTest, FollowersAreBounded) {
  service_.logs["f"] = "";
  std::vector<std::shared_ptr<Exchanged>> followers;
  for (size_t i = 0; i < limits::kLogFollowers; ++i) {
    followers.push_back(start("GET", "/v1/functions/f/log?follow=1"));
  }
  expect_error(get("/v1/functions/f/log?follow=1"), 429, "RESOURCE_EXHAUSTED");
  EXPECT_EQ(get("/v1/functions/f/log").status, 200);
}

TEST_F(NativeTest, AResultIsPendingThenThere) {
  const InvocationId id{1, 2};
  const std::string target = "/v1/invocations/" + to_string(id);
  expect_error(get(target), 404, "NOT_FOUND");
  service_.results[id] = std::nullopt;
  const auto pending = get(target);
  EXPECT_EQ(pending.status, 202);
  EXPECT_EQ(json::parse(pending.body)["state"], "pending");
  InvocationResult result;
  result.id = id;
  result.payload = "[1]";
  service_.results[id] = result;
  const auto found = get(target);
  EXPECT_EQ(found.status, 200);
  EXPECT_EQ(found.body, "[1]");
  EXPECT_EQ(found.headers.get("x-lambent-outcome"), "succeeded");
  EXPECT_EQ(found.headers.get("x-amzn-RequestId"), to_string(id));
  result.outcome = Outcome::kRejected;
  result.error = Error{ErrorCode::kNotFound, "removed meanwhile"};
  service_.results[id] = result;
  expect_error(get(target), 200, "NOT_FOUND");
  EXPECT_EQ(get(target).headers.get("x-lambent-outcome"), "rejected");
  expect_error(get("/v1/invocations/7"), 400, "INVALID_ARGUMENT");
}

TEST_F(NativeTest, AnInvocationThatWaitsIsExplainedAndOneWithAnOutcomeIsNot) {
  const std::string target = "/v1/invocations/" + to_string(InvocationId{1, 2});
  progress_ = R"({"state":"pending","phase":"queued"})";
  const auto waits = get(target);
  EXPECT_EQ(waits.status, 202);
  EXPECT_EQ(json::parse(waits.body)["phase"], "queued");
  progress_.clear();
  EXPECT_EQ(json::parse(get(target).body).contains("phase"), false);
}

TEST_F(NativeTest, ATraceIsWhatTheWorkerSaysOfARun) {
  const std::string target = "/v1/invocations/" + to_string(InvocationId{1, 2}) + "/trace";
  expect_error(get(target), 404, "NOT_FOUND");
  trace_ = R"({"calls":[]})";
  const auto found = get(target);
  EXPECT_EQ(found.status, 200);
  EXPECT_EQ(found.body, "{\"calls\":[]}");
  expect_error(get("/v1/invocations/7/trace"), 400, "INVALID_ARGUMENT");
  expect_error(start("POST", target)->response.value(), 405, "UNIMPLEMENTED");
}

TEST_F(NativeTest, ProbesAndMetricsAnswer) {
  EXPECT_EQ(get("/livez").status, 200);
  EXPECT_EQ(get("/readyz").body, "ok\n");
  EXPECT_EQ(get("/readyz?verbose").status, 200);
  EXPECT_EQ(get("/readyz?verbose").body, "[+] accepting\n[+] state_disk\nok\n");
  disk_failure_ = "it is full";
  EXPECT_EQ(get("/readyz").status, 503);
  EXPECT_EQ(get("/readyz").body, "[-] state_disk: it is full\nnot ready\n");
  EXPECT_EQ(get("/readyz?verbose").body, "[+] accepting\n[-] state_disk: it is full\nnot ready\n");
  disk_failure_.reset();
  catalog_failure_ = "it cannot be reached";
  EXPECT_EQ(get("/readyz").status, 200);
  EXPECT_EQ(get("/readyz").body, "[-] shared_catalog: it cannot be reached\nok\n");
  catalog_failure_.reset();
  ready_ = false;
  EXPECT_EQ(get("/livez").status, 200);
  EXPECT_EQ(get("/readyz").status, 503);
  const auto metrics = get("/metrics");
  EXPECT_EQ(metrics.body, "lambent_up 1\n");
  EXPECT_EQ(metrics.headers.get("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  const json about = json::parse(get("/v1/version").body);
  EXPECT_EQ(about["version"], "1.2.3");
  EXPECT_EQ(about["policy"], "fcfs");
  EXPECT_EQ(about["time_scale"], 20);
  EXPECT_EQ(about["devices"], 2);
  EXPECT_EQ(about["emulated"], true);
  EXPECT_EQ(about["gpu"], "V100");
}

TEST_F(NativeTest, UnknownPathsAndWrongMethodsAreErrors) {
  for (const char* target : {"", "*", "/v1", "/v1/", "/v3/functions", "/v1/functions/f/log/x",
                             "/v1/functions/%zz/log", "/nothing\xff"}) {
    expect_error(get(target), 404, "NOT_FOUND");
  }
  const auto posted = start("POST", "/v1/functions");
  expect_error(*posted->response, 405, "UNIMPLEMENTED");
  EXPECT_EQ(posted->response->headers.get("Allow"), "GET, HEAD");
  expect_error(get("/v1/functions/f"), 405, "UNIMPLEMENTED");
  EXPECT_EQ(get("/v1/functions/f").headers.get("Allow"), "PUT");
  for (const char* target : {"/livez", "/metrics", "/v1/functions", "/v1/version"}) {
    const auto asked = start("HEAD", target);
    ASSERT_TRUE(asked->response) << target;
    EXPECT_EQ(asked->response->status, 200) << target;
  }
}

TEST_F(NativeTest, ASubmittedInvocationIsNamedAtOnceWithWhatItMakes) {
  FunctionSpec spec;
  spec.name = {kDefaultTenant, "f"};
  service_.functions[spec.name] = spec;
  service_.hold = true;
  const std::string need = "00000000-0000-0001-0000-000000000002.3";
  const auto seen = std::make_shared<Exchanged>();
  router_.handle(
      request_of("POST", "/v1/functions/f/invocations", "{\"x\":1}",
                 {{"X-Lambent-Needs", need}, {"X-Lambent-Outputs", "2"}, {"X-Lambent-Ttl", "1.5"}}),
      responder_to(seen));
  ASSERT_EQ(seen->response->status, 202);
  const json answer = json::parse(seen->response->body);
  ASSERT_EQ(answer["objects"].size(), 2u);
  EXPECT_EQ(answer["objects"][1], answer["invocation"].get<std::string>() + ".1");
  ASSERT_EQ(service_.submitted.size(), 1u);
  const InvocationRequest& request = service_.submitted[0];
  EXPECT_EQ(to_string(request.id), answer["invocation"]);
  EXPECT_EQ(request.payload, "{\"x\":1}");
  EXPECT_EQ(request.outputs, 2u);
  EXPECT_EQ(request.needs, std::vector<ObjectId>{*object_id_from_string(need)});
  EXPECT_EQ(request.time_to_live, milliseconds(1500));
  service_.held[0]();  // no client waits any more
}

TEST_F(NativeTest, WhatClientsSayOfEveryPayloadIsNoType) {
  const FunctionName name{kDefaultTenant, "f"};
  service_.functions[name].name = name;
  const auto type_for = [&](const std::string& said) {
    const auto seen = std::make_shared<Exchanged>();
    router_.handle(
        request_of("POST", "/v1/functions/f/invocations", "{}", {{"Content-Type", said}}),
        responder_to(seen));
    return service_.submitted.back().content_type;
  };
  EXPECT_EQ(type_for("application/x-www-form-urlencoded"), "");
  EXPECT_EQ(type_for("application/x-lambent-tensors"), "");
  EXPECT_EQ(type_for("Application/vnd.lambent.batch; v=1"), "") << "the form of the worker's own";
  EXPECT_EQ(type_for("application/X-WWW-form-urlencoded; charset=UTF-8"), "");
  EXPECT_EQ(type_for("application/octet-stream"), "application/octet-stream");
}

TEST_F(NativeTest, WhatCannotBeginIsRefusedAtOnce) {
  const auto post = [&](const std::string& name,
                        const std::vector<std::pair<std::string, std::string>>& headers) {
    const auto seen = std::make_shared<Exchanged>();
    router_.handle(request_of("POST", "/v1/functions/" + name + "/invocations", "", headers),
                   responder_to(seen));
    return *seen->response;
  };
  expect_error(post("g", {}), 404, "NOT_FOUND");
  expect_error(post("g", {{"X-Lambent-Outputs", "0"}}), 400, "INVALID_ARGUMENT");
  expect_error(post("g", {{"X-Lambent-Outputs", "17"}}), 400, "INVALID_ARGUMENT");
  expect_error(post("g", {{"X-Lambent-Needs", "x"}}), 400, "INVALID_ARGUMENT");
  expect_error(post("g", {{"X-Lambent-Ttl", "0"}}), 400, "INVALID_ARGUMENT");
  FunctionSpec spec;
  spec.name = {kDefaultTenant, "f"};
  service_.functions[spec.name] = spec;
  service_.behaviour = [](const InvocationRequest& request) {
    InvocationResult result;
    result.id = request.id;
    result.outcome = Outcome::kRejected;
    result.error = Error{ErrorCode::kResourceExhausted, "the queue is full"};
    result.retry_after = seconds(7);
    return result;
  };
  const auto refused = post("f", {});
  expect_error(refused, 429, "RESOURCE_EXHAUSTED");
  EXPECT_EQ(refused.headers.get("Retry-After"), "7");
  EXPECT_EQ(get("/v1/functions/f/invocations").headers.get("allow"), "POST");
}

TEST_F(NativeTest, TheRouterKnowsObjects) {
  EXPECT_EQ(get("/v1/objects").body, "{\"objects\":[]}");
  expect_error(get("/v1/objects/x"), 400, "INVALID_ARGUMENT");
  expect_error(get("/v1/objectsx"), 404, "NOT_FOUND");
}

TEST_F(NativeTest, TheRouterKnowsLambdasPaths) {
  EXPECT_EQ(get("/2015-03-31/functions").body, R"({"Functions":[]})");
}

TEST(ServerError, IsUnderstoodByClientsOfEitherApi) {
  const http::Response response = server_error(413, "too large");
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(response.headers.get("x-amzn-ErrorType"), "RequestTooLargeException");
  EXPECT_EQ(json::parse(response.body)["error"]["code"], "OUT_OF_RANGE");
  EXPECT_EQ(json::parse(response.body)["Message"], "too large");
  EXPECT_EQ(server_error(503, "too many connections").headers.get("Retry-After"), "1");
}

}  // namespace
}  // namespace lambent::frontend
