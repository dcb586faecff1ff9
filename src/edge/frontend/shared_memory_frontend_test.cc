// Inferences whose tensors lie in shared memory, before a server gets them; and the routes by
// which regions are registered.
#include "edge/frontend/shared_memory_frontend.h"
#include "edge/frontend/limits.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "edge/frontend/testing/fake_access.h"
#include "edge/frontend/testing/stream_client.h"
#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr TenantId kTeam{7};
constexpr TenantId kOther{8};

class SharedMemoryFrontendTest : public testing::Test {
 protected:
  SharedMemoryFrontendTest() {
    access_.add_tenant(kTeam, "team");
    access_.add_tenant(kOther, "other");
    std::ofstream(path()) << std::string(64, '.');
    use({{.user = geteuid(), .tenant = "team"}});
  }
  ~SharedMemoryFrontendTest() override { std::filesystem::remove_all(folder_); }

  static std::string new_folder() {
    char name[] = "/tmp/lambent-shared-XXXXXX";
    return mkdtemp(name);
  }
  std::string path() const { return folder_ + "/frames"; }
  std::string content() const {
    std::ifstream stream(path());
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void use(std::vector<SharedMemoryOwner> owners, SharedMemoryLimits most = {}) {
    frontend_ = std::make_unique<SharedMemoryFrontend>(
        std::move(owners),
        SharedMemoryFrontend::Dependencies{access_, bodies_,
                                           [this](auto work, auto then) {
                                             ++offloaded_;
                                             if (!takes_work_) return false;
                                             work();
                                             then();
                                             return true;
                                           },
                                           &regions_},
        most);
  }

  http::Response ask(const std::string& method, const std::string& target,
                     const std::string& body = "", TenantId tenant = kTeam) {
    auto seen = std::make_shared<Exchanged>();
    frontend_->handle({.tenant = tenant}, request_of(method, target, body), responder_to(seen));
    return seen->response.value_or(http::Response{.status = 0});
  }
  http::Response add(const std::string& name, uint64_t size = 64, TenantId tenant = kTeam) {
    return ask("POST", "/v2/systemsharedmemory/region/" + name + "/register",
               json{{"key", "/frames"}, {"byte_size", size}}.dump(), tenant);
  }
  json regions(TenantId tenant = kTeam) {
    return json::parse(ask("GET", "/v2/systemsharedmemory/status", "", tenant).body);
  }

  static json place(const std::string& region, uint64_t size, uint64_t offset) {
    return {{"shared_memory_region", region},
            {"shared_memory_byte_size", size},
            {"shared_memory_offset", offset}};
  }
  // Of one input of 4 bytes at 8 and one output of at most 8 at 16.
  static json inference(const std::string& region = "r") {
    return {{"inputs", {{{"name", "x"}, {"parameters", place(region, 4, 8)}}}},
            {"outputs", {{{"name", "y"}, {"parameters", place(region, 8, 16)}}}}};
  }
  static http::Request request_for(
      const std::string& body,
      const std::vector<std::pair<std::string, std::string>>& headers = {}) {
    http::Request request = request_of("POST", "/v2/models/m/infer", body, headers);
    request.headers.add("Content-Length", std::to_string(body.size()));
    return request;
  }
  // As it comes: its body streams.
  std::shared_ptr<StreamClient> send(http::Request request, bool is_whole = false) {
    auto client = std::make_shared<StreamClient>();
    const std::string body = request.body;
    if (!is_whole) request.body.clear();
    frontend_->expand(kTeam, std::move(request),
                      http::Responder(std::make_shared<StreamExchange>(client)), is_whole,
                      [this](http::Request next, http::Responder responder) {
                        passed_ = std::move(next);
                        responder_.emplace(std::move(responder));
                      });
    if (!is_whole) {
      client->sink.on_bytes(body);
      client->sink.on_end();
    }
    return client;
  }
  // The body that was passed on.
  std::string passed_body() {
    std::string body;
    bool ended = false;
    responder_->stream()->receive({.on_bytes = [&](std::string_view bytes) { body += bytes; },
                                   .on_end = [&] { ended = true; }});
    EXPECT_TRUE(ended);
    return body;
  }
  static http::Response answer_with(const std::string& bytes) {
    http::Response response;
    const json output = {{"name", "y"},
                         {"datatype", "UINT8"},
                         {"shape", {bytes.size()}},
                         {"parameters", {{"binary_data_size", bytes.size()}}}};
    response.body = json{{"outputs", {output}}}.dump();
    response.headers.add("Inference-Header-Content-Length", std::to_string(response.body.size()));
    response.body += bytes;
    return response;
  }
  static std::string error_of(const http::Response& response) {
    return json::parse(response.body)["error"];
  }

  const std::string folder_ = new_folder();
  inference::SharedMemoryRegions regions_{folder_};
  FakeAccess access_;
  BodyCollector bodies_;
  bool takes_work_ = true;
  int offloaded_ = 0;
  std::unique_ptr<SharedMemoryFrontend> frontend_;
  std::optional<http::Request> passed_;
  std::optional<http::Responder> responder_;
};

TEST_F(SharedMemoryFrontendTest, RegionsAreRegisteredListedAndForgotten) {
  EXPECT_EQ(regions(), json::array());
  EXPECT_EQ(add("r%2F1").status, 200);
  EXPECT_EQ(add("b", 4).status, 200);
  const json one = {{"name", "r/1"}, {"key", "/frames"}, {"offset", 0}, {"byte_size", 64}};
  EXPECT_EQ(regions().size(), 2u);
  const auto status = ask("GET", "/v2/systemsharedmemory/region/r%2F1/status");
  EXPECT_EQ(json::parse(status.body), json::array({one}));
  EXPECT_EQ(add("b").status, 409);
  EXPECT_EQ(ask("GET", "/v2/systemsharedmemory/region/c/status").status, 404);
  EXPECT_EQ(ask("POST", "/v2/systemsharedmemory/region/b/unregister").status, 200);
  EXPECT_EQ(ask("POST", "/v2/systemsharedmemory/region/b/unregister").status, 200);
  EXPECT_EQ(regions(), json::array({one}));
  EXPECT_EQ(ask("POST", "/v2/systemsharedmemory/unregister").status, 200);
  EXPECT_EQ(regions(), json::array());
}

TEST_F(SharedMemoryFrontendTest, OtherTenantsSeeNothingAndRegisterOnlyWhatTheyMay) {
  ASSERT_EQ(add("r").status, 200);
  EXPECT_EQ(regions(kOther), json::array());
  const http::Response refused = add("r", 64, kOther);
  EXPECT_EQ(refused.status, 404);
  EXPECT_THAT(error_of(refused), HasSubstr("--system-shared-memory"));
  EXPECT_EQ(ask("POST", "/v2/systemsharedmemory/unregister", "", kOther).status, 200);
  EXPECT_EQ(regions().size(), 1u);
  EXPECT_TRUE(frontend_->may_name_regions(kTeam, request_for("{}")));
  EXPECT_FALSE(frontend_->may_name_regions(kOther, request_for("{}")));
}

TEST_F(SharedMemoryFrontendTest, OfATenantThatIsRemovedNothingStays) {
  ASSERT_EQ(add("r").status, 200);
  const auto files = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = files();
  regions_.remove_all(kTeam);
  EXPECT_EQ(regions(), json::array());
  EXPECT_FALSE(frontend_->may_name_regions(kTeam, request_for("{}")));
  EXPECT_EQ(files(), before - 1) << "its file is closed";
}

TEST_F(SharedMemoryFrontendTest, WithoutOwnersNothingIsServed) {
  use({});
  for (const auto& response : {add("r"), ask("GET", "/v2/systemsharedmemory/status"),
                               ask("POST", "/v2/systemsharedmemory/unregister")}) {
    EXPECT_EQ(response.status, 501);
    EXPECT_THAT(error_of(response), HasSubstr("--system-shared-memory"));
  }
}

TEST_F(SharedMemoryFrontendTest, OfCudaNothingIsEverRegistered) {
  const auto refused = ask("POST", "/v2/cudasharedmemory/region/r/register", "{}");
  EXPECT_EQ(refused.status, 501);
  EXPECT_THAT(error_of(refused), HasSubstr("CUDA shared memory is not served"));
  EXPECT_EQ(ask("GET", "/v2/cudasharedmemory/status").body, "[]");
  EXPECT_EQ(ask("GET", "/v2/cudasharedmemory/region/r/status").status, 404);
  EXPECT_EQ(ask("POST", "/v2/cudasharedmemory/unregister").status, 200);
}

TEST_F(SharedMemoryFrontendTest, PathsAndMethodsThatDoNotExistAreRefused) {
  for (const char* path :
       {"/v2/systemsharedmemory", "/v2/systemsharedmemory/register",
        "/v2/systemsharedmemory/region/r", "/v2/systemsharedmemory/region//status",
        "/v2/systemsharedmemory/regions/r/status", "/v2/systemsharedmemory/region/r/status/x"}) {
    EXPECT_TRUE(is_shared_memory_path(path));
    EXPECT_EQ(ask("POST", path).status, 404) << path;
  }
  EXPECT_FALSE(is_shared_memory_path("/v2/systemsharedmemoryx"));
  EXPECT_EQ(ask("POST", "/v2/systemsharedmemory/status").status, 405);
  EXPECT_EQ(ask("GET", "/v2/systemsharedmemory/unregister").status, 405);
}

TEST_F(SharedMemoryFrontendTest, TensorsGoThroughTheirPlaces) {
  ASSERT_EQ(add("r").status, 200);
  std::ofstream(path()) << std::string(8, '.') + "abcd" + std::string(52, '.');
  const auto client = send(request_for(inference().dump(), {{"Accept-Encoding", "gzip"}}));
  const std::string body = passed_body();
  const size_t length =
      std::stoul(std::string(passed_->headers.get("Inference-Header-Content-Length")));
  EXPECT_EQ(body.substr(length), "abcd");
  EXPECT_EQ(passed_->body, "");
  EXPECT_EQ(passed_->headers.get("Content-Length"), std::to_string(body.size()));
  EXPECT_FALSE(passed_->headers.contains("Accept-Encoding"));
  EXPECT_EQ(json::parse(body.substr(0, length))["outputs"][0]["parameters"],
            json({{"binary_data", true}}));

  responder_->send(answer_with("xyz"));
  ASSERT_TRUE(client->response);
  EXPECT_EQ(client->response->status, 200);
  EXPECT_EQ(content().substr(16, 4), "xyz.");
}

TEST_F(SharedMemoryFrontendTest, AnAnswerInPiecesIsPutInItsPlaceOnceItIsWhole) {
  ASSERT_EQ(add("r").status, 200);
  const auto client = send(request_for(inference().dump()));
  http::Response answer = answer_with("xyz");
  const std::string body = std::exchange(answer.body, {});
  http::StreamedExchange& stream = *responder_->stream();
  stream.start(std::move(answer), body.size());
  for (const char c : body) EXPECT_TRUE(stream.send_bytes({&c, 1}));
  EXPECT_FALSE(client->response);
  stream.finish();
  ASSERT_TRUE(client->finished);
  EXPECT_EQ(json::parse(client->body)["outputs"][0],
            json({{"name", "y"}, {"datatype", "UINT8"}, {"shape", {3}}}));
  EXPECT_EQ(content().substr(16, 4), "xyz.");
}

TEST_F(SharedMemoryFrontendTest, AnAnswerThatBreaksOffWritesNothing) {
  ASSERT_EQ(add("r").status, 200);
  const auto client = send(request_for(inference().dump()));
  http::StreamedExchange& stream = *responder_->stream();
  stream.start(answer_with("xyz"), 3);
  responder_.reset();
  EXPECT_TRUE(client->abandoned);
  EXPECT_EQ(content(), std::string(64, '.'));
}

TEST_F(SharedMemoryFrontendTest, AFailureIsPassedOnAsItIs) {
  ASSERT_EQ(add("r").status, 200);
  const auto client = send(request_for(inference().dump()));
  responder_->send({.status = 503, .headers = {}, .body = "busy"});
  EXPECT_EQ(client->response->status, 503);
  EXPECT_EQ(client->body, "busy");
  EXPECT_EQ(content(), std::string(64, '.'));
}

TEST_F(SharedMemoryFrontendTest, WhatDoesNotFitItsPlaceIsRefusedAfterTheRun) {
  ASSERT_EQ(add("r").status, 200);
  const auto client = send(request_for(inference().dump()));
  responder_->send(answer_with("nine byte"));
  EXPECT_EQ(client->response->status, 400);
  EXPECT_EQ(content(), std::string(64, '.'));
}

TEST_F(SharedMemoryFrontendTest, WrongPlacesAreRefusedBeforeAnyoneServesThem) {
  ASSERT_EQ(add("r").status, 200);
  ASSERT_EQ(add("s").status, 200);
  const auto refusal_of = [this](const json& body) {
    const auto client = send(request_for(body.dump()));
    EXPECT_FALSE(passed_);
    return std::to_string(client->response->status) + " " + error_of(*client->response);
  };
  EXPECT_EQ(refusal_of(inference("t")), "404 no shared memory region 't' is registered");
  json body = inference();
  body["inputs"][0]["parameters"] = place("r", 60, 8);
  EXPECT_THAT(refusal_of(body), HasSubstr("400 shared memory region 'r' has 64 bytes: 60 from 8"));
  body["inputs"][0]["parameters"] = place("r", 2, 18446744073709551615u);
  EXPECT_THAT(refusal_of(body), HasSubstr("400 shared memory region 'r' has 64 bytes"));
  body = inference();
  body["outputs"].push_back({{"name", "z"}, {"parameters", place("s", 8, 23)}});
  EXPECT_THAT(refusal_of(body), HasSubstr("400 the places of the outputs 'y' and 'z'"));
  ASSERT_EQ(truncate(path().c_str(), 10), 0);
  EXPECT_THAT(refusal_of(inference()), HasSubstr("400 shared memory region 'r': the shared"));
}

TEST_F(SharedMemoryFrontendTest, ARegionThatShrinksWhileTheModelRunsIsToldAfterwards) {
  ASSERT_EQ(add("r").status, 200);
  const auto client = send(request_for(inference().dump()));
  ASSERT_EQ(truncate(path().c_str(), 12), 0);
  responder_->send(answer_with("xyz"));
  EXPECT_EQ(client->response->status, 400);
  EXPECT_EQ(content().size(), 12u);
}

TEST_F(SharedMemoryFrontendTest, WhatNamesNoRegionStreamsThroughUnchanged) {
  ASSERT_EQ(add("r").status, 200);
  const auto client = send(request_for(R"({"inputs": []})", {{"Accept-Encoding", "gzip"}}));
  EXPECT_EQ(passed_body(), R"({"inputs": []})");
  EXPECT_EQ(passed_->headers.get("Accept-Encoding"), "gzip");
  http::StreamedExchange& stream = *responder_->stream();
  stream.start({}, 4);
  stream.send_bytes("ab");
  EXPECT_EQ(client->body, "ab");
  client->has_room = false;
  EXPECT_FALSE(stream.send_bytes("cd"));
  stream.finish();
  EXPECT_TRUE(client->finished);
}

TEST_F(SharedMemoryFrontendTest, ABodyThatASignatureCoveredStaysWhole) {
  ASSERT_EQ(add("r").status, 200);
  send(request_for(inference().dump()), true);
  EXPECT_THAT(passed_->body, testing::EndsWith("...."));
  EXPECT_EQ(passed_->headers.get("Content-Length"), std::to_string(passed_->body.size()));
}

TEST_F(SharedMemoryFrontendTest, LongCopiesAreMadeElsewhere) {
  constexpr uint64_t kLarge = 1 << 20;
  std::filesystem::resize_file(path(), kLarge);
  ASSERT_EQ(add("r", kLarge).status, 200);
  json body = inference();
  body["inputs"][0]["parameters"] = place("r", kLarge, 0);
  send(request_for(body.dump()));
  EXPECT_EQ(offloaded_, 1);
  EXPECT_GT(passed_body().size(), kLarge);
  takes_work_ = false;
  EXPECT_EQ(send(request_for(body.dump()))->response->status, 503);
}

TEST_F(SharedMemoryFrontendTest, WhatOneRequestBringsIsBounded) {
  use({{.user = geteuid(), .tenant = "team"}}, {.of_request = Bytes(3), .at_work = Bytes(64)});
  ASSERT_EQ(add("r").status, 200);
  EXPECT_THAT(error_of(*send(request_for(inference().dump()))->response),
              HasSubstr("more than 3 B"));
  EXPECT_FALSE(passed_);
}

// The tensors lie in the body that was passed on: they are this process's until the answer is made.
TEST_F(SharedMemoryFrontendTest, WhatIsNotAnsweredYetIsBounded) {
  use({{.user = geteuid(), .tenant = "team"}}, {.of_request = Bytes(64), .at_work = Bytes(8)});
  ASSERT_EQ(add("r").status, 200);
  json without_outputs = inference();
  without_outputs["outputs"] = json::array();
  for (const json& body : {without_outputs, inference()}) {
    for (const bool is_whole : {false, true}) {
      SCOPED_TRACE(body.dump() + (is_whole ? ", whole" : ""));
      const auto first = send(request_for(body.dump()), is_whole);
      http::Responder kept = std::move(*responder_);
      send(request_for(body.dump()), is_whole);
      passed_body();
      const auto refused = send(request_for(body.dump()), is_whole);
      ASSERT_TRUE(refused->response);
      EXPECT_EQ(refused->response->status, 503);
      EXPECT_THAT(error_of(*refused->response), HasSubstr("too much to do at once"));

      kept.send({.status = 500, .headers = {}, .body = ""});
      EXPECT_EQ(first->response->status, 500);
      { const http::Responder answered = std::move(kept); }
      const auto next = send(request_for(body.dump()), is_whole);
      EXPECT_FALSE(next->response) << "there is room again";
      responder_.reset();
    }
  }
}

TEST_F(SharedMemoryFrontendTest, AnAnswerCountsTogetherWithItsRequest) {
  use({{.user = geteuid(), .tenant = "team"}}, {.of_request = Bytes(64), .at_work = Bytes(64)});
  ASSERT_EQ(add("r").status, 200);
  const auto client = send(request_for(inference().dump()));
  responder_->send(answer_with(std::string(60, 'x')));
  EXPECT_EQ(client->response->status, 503);
  EXPECT_THAT(error_of(*client->response), HasSubstr("too many answers for shared memory"));
}

TEST_F(SharedMemoryFrontendTest, OnlyInferencesOfAKnownLengthAreLookedInto) {
  ASSERT_EQ(add("r").status, 200);
  const auto may = [this](http::Request request) {
    return frontend_->may_name_regions(kTeam, request);
  };
  EXPECT_TRUE(may(request_for("{}")));
  EXPECT_FALSE(may(request_of("POST", "/v2/models/m/infer", "{}")));
  http::Request request = request_for("{}");
  request.headers.set("Content-Length", std::to_string(limits::kEventBody.count + 1));
  EXPECT_FALSE(may(request));
  request = request_for("{}");
  request.target = "/v2/models/m/versions/1/infer?x=1";
  EXPECT_TRUE(may(request));
  request.target = "/v2/models/m/stats";
  EXPECT_FALSE(may(request));
  request = request_for("{}");
  request.method = "GET";
  EXPECT_FALSE(may(request));
}

}  // namespace
}  // namespace lambent::frontend
