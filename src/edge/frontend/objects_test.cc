#include "edge/frontend/objects.h"
#include "core/domain/limits.h"
#include "edge/frontend/limits.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/log.h"
#include "core/base/sealed_memory.h"
#include "edge/frontend/object_call.h"
#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

constexpr const char* kName = "00000000-0000-0001-0000-000000000002.0";
constexpr ObjectId kObject{{1, 2}, 0};
using Headers = std::vector<std::pair<std::string, std::string>>;

class ObjectsTest : public testing::Test {
 protected:
  std::shared_ptr<Exchanged> start(const std::string& method, const std::string& path,
                                   const std::string& query = "", std::string body = "",
                                   const Headers& headers = {}) {
    auto seen = std::make_shared<Exchanged>();
    frontend_.handle(Caller(),
                     request_of(method, "/v1/objects" + path + query, std::move(body), headers),
                     path, responder_to(seen));
    return seen;
  }
  http::Response send(const std::string& method, const std::string& path,
                      const std::string& query = "", std::string body = "",
                      const Headers& headers = {}) {
    const auto seen = start(method, path, query, std::move(body), headers);
    EXPECT_TRUE(seen->response.has_value()) << method << " " << path;
    return seen->response.value_or(http::Response{.status = 0});
  }
  std::string put(const std::string& query, std::string body) {
    const auto response = send("POST", "", query, std::move(body));
    EXPECT_EQ(response.status, 201) << response.body;
    return json::parse(response.body)["object"];
  }
  static void expect_error(const http::Response& response, int status, const std::string& code) {
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_EQ(json::parse(response.body)["error"]["code"], code);
  }

  FakeClock clock_;
  loop::EventLoop loop_{clock_};
  NullLogSink log_;
  SeededRandom random_{1};
  objects::ObjectStore store_{loop_, log_, [](auto, auto) { return false; }, {}};
  bool copies_ = true;
  ObjectsFrontend frontend_{store_,
                            [this](const auto& work, const auto& completion) {
                              if (!copies_) return false;
                              work();
                              loop_.post(completion);
                              return true;
                            },
                            loop_, random_};
};

TEST_F(ObjectsTest, WhatIsPutComesBackWithItsType) {
  const std::string id = put("?datatype=FP32&shape=1,2", "12345678");
  const auto got = send("GET", "/" + id);
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.body, "12345678");
  EXPECT_EQ(got.headers.get("x-lambent-datatype"), "FP32");
  EXPECT_EQ(got.headers.get("x-lambent-shape"), "[1,2]");
}

TEST_F(ObjectsTest, TypesMayComeInHeadersAndRawBytesNeedNone) {
  const auto typed = send("PUT", std::string("/") + kName, "", "12345678",
                          {{"X-Lambent-Datatype", "INT64"}, {"X-Lambent-Shape", "[]"}});
  EXPECT_EQ(typed.status, 201) << typed.body;
  EXPECT_EQ(store_.status(kDefaultTenant, kObject)->type, (TensorType{DataType::kInt64, {}}));
  const std::string raw = put("", "xyz");
  EXPECT_EQ(send("GET", "/" + raw).headers.get("x-lambent-shape"), "[3]");
}

TEST_F(ObjectsTest, WhatDoesNotFitItsTypeIsRefused) {
  expect_error(send("POST", "", "?datatype=FP32&shape=3", "12345678"), 400, "INVALID_ARGUMENT");
  expect_error(send("POST", "", "?datatype=FP32", "1234"), 400, "INVALID_ARGUMENT");
  expect_error(send("POST", "", "?shape=4", "1234"), 400, "INVALID_ARGUMENT");
  expect_error(send("POST", "", "?datatype=FLOAT&shape=1", "1234"), 400, "INVALID_ARGUMENT");
  for (const char* shape : {"1,", ",1", "-1", "x", "1 1", "99999999999999999999", "[1"}) {
    expect_error(send("POST", "", "?datatype=BYTES&shape=" + http::percent_encode(shape), "1"), 400,
                 "INVALID_ARGUMENT");
  }
  expect_error(send("POST", "", "?ttl=0", "1"), 400, "INVALID_ARGUMENT");
  expect_error(send("POST", "", "?ttl=nan", "1"), 400, "INVALID_ARGUMENT");
  EXPECT_EQ(store_.statistics().objects, 0u);
}

TEST_F(ObjectsTest, ObjectsDoNotChange) {
  EXPECT_EQ(send("PUT", std::string("/") + kName, "", "a").status, 201);
  expect_error(send("PUT", std::string("/") + kName, "", "b"), 409, "ALREADY_EXISTS");
  EXPECT_EQ(send("GET", std::string("/") + kName).body, "a");
}

TEST_F(ObjectsTest, APartOfAnObjectCanBeAskedFor) {
  const std::string id = put("", "0123456789");
  const auto part = [&](const char* range) {
    return send("GET", "/" + id, "", "", {{"Range", range}});
  };
  EXPECT_EQ(part("bytes=2-4").body, "234");
  EXPECT_EQ(part("bytes=2-4").status, 206);
  EXPECT_EQ(part("bytes=2-4").headers.get("content-range"), "bytes 2-4/10");
  EXPECT_EQ(part("bytes=7-").body, "789");
  EXPECT_EQ(part("bytes=7-99").body, "789");
  EXPECT_EQ(part("bytes=-3").body, "789");
  EXPECT_EQ(part("bytes=-30").body, "0123456789");
  EXPECT_EQ(part("bytes=10-").status, 416);
  EXPECT_EQ(part("bytes=10-").headers.get("content-range"), "bytes */10");
  EXPECT_EQ(part("bytes=-0").status, 416);
  // What is no such range counts as not said.
  for (const char* other : {"bytes=", "bytes=-", "bytes=a-b", "bytes=1-2,4-5", "lines=1-2"}) {
    EXPECT_EQ(part(other).status, 200) << other;
  }
}

TEST_F(ObjectsTest, AGetWaitsAsLongAsItSays) {
  ASSERT_TRUE(store_.expect(kDefaultTenant, kObject).ok());
  expect_error(send("GET", std::string("/") + kName), 504, "DEADLINE_EXCEEDED");
  const auto patient = start("GET", std::string("/") + kName, "?wait=10");
  const auto hasty = start("GET", std::string("/") + kName, "?wait=0.5");
  EXPECT_FALSE(patient->response.has_value());
  clock_.advance(milliseconds(500));
  loop_.run_once(Duration(0));
  expect_error(*hasty->response, 504, "DEADLINE_EXCEEDED");
  ASSERT_TRUE(
      store_.store(kDefaultTenant, kObject, raw_tensor(Bytes(4)), std::move(*sealed_memory("made")))
          .ok());
  EXPECT_EQ(patient->response->body, "made");
  expect_error(send("GET", std::string("/") + kName, "?wait=901"), 400, "INVALID_ARGUMENT");
}

TEST_F(ObjectsTest, AClientThatLeavesWaitsNoMore) {
  ASSERT_TRUE(store_.expect(kDefaultTenant, kObject).ok());
  const auto left = start("GET", std::string("/") + kName, "?wait=10");
  EXPECT_EQ(store_.statistics().waiting, 1u);
  left->disconnect();
  EXPECT_EQ(store_.statistics().waiting, 0u);
}

TEST_F(ObjectsTest, TheFailureOfItsProducerIsItsAnswer) {
  ASSERT_TRUE(store_.expect(kDefaultTenant, kObject).ok());
  store_.fail(kDefaultTenant, kObject, {ErrorCode::kOutOfRange, "index 7 of 3"});
  expect_error(send("GET", std::string("/") + kName), 400, "OUT_OF_RANGE");
  const json listed = json::parse(send("GET", "").body)["objects"];
  EXPECT_EQ(listed[0]["state"], "failed");
  EXPECT_EQ(listed[0]["error"]["message"], "index 7 of 3");
}

TEST_F(ObjectsTest, HeadSaysWhatIsKnown) {
  ASSERT_TRUE(store_.expect(kDefaultTenant, kObject).ok());
  EXPECT_EQ(send("HEAD", std::string("/") + kName).headers.get("x-lambent-state"), "expected");
  const std::string id = put("?datatype=UINT8&shape=4", "1234");
  const auto head = send("HEAD", "/" + id);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.get("x-lambent-state"), "exists");
  EXPECT_EQ(head.headers.get("x-lambent-bytes"), "4");
  EXPECT_EQ(head.headers.get("x-lambent-datatype"), "UINT8");
  EXPECT_EQ(head.headers.get("x-lambent-place"), "memory");
}

TEST_F(ObjectsTest, WhatIsRemovedIsGone) {
  const std::string id = put("", "x");
  EXPECT_EQ(send("DELETE", "/" + id).status, 204);
  expect_error(send("GET", "/" + id), 404, "NOT_FOUND");
  expect_error(send("DELETE", "/" + id), 404, "NOT_FOUND");
  expect_error(send("HEAD", "/" + id), 404, "NOT_FOUND");
}

TEST_F(ObjectsTest, WhatIsRemovedWhereOthersMayBeBringingItCanBeReadForAWhile) {
  frontend_.set_linger(seconds(10));
  const std::string id = put("", "x");
  EXPECT_EQ(send("DELETE", "/" + id).status, 204);
  EXPECT_EQ(send("GET", "/" + id).body, "x");
  clock_.advance(seconds(9));
  loop_.run_once(Duration(0));
  EXPECT_EQ(send("GET", "/" + id).body, "x");
  clock_.advance(seconds(1));
  loop_.run_once(Duration(0));
  expect_error(send("GET", "/" + id), 404, "NOT_FOUND");
}

TEST_F(ObjectsTest, OnlyWhatANodeAsksForComesWithItsDigest) {
  const std::string id = put("", "abc");
  EXPECT_EQ(send("GET", "/" + id).headers.get("x-lambent-digest"), "");
  EXPECT_EQ(send("GET", "/" + id, "", "", {{"X-Lambent-Only-Here", "true"}})
                .headers.get("x-lambent-digest"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(ObjectsTest, AListComesInPages) {
  for (int i = 0; i < 3; ++i) put("?ttl=60", "x");
  const json first = json::parse(send("GET", "", "?limit=2").body);
  ASSERT_EQ(first["objects"].size(), 2u);
  EXPECT_NEAR(first["objects"][0]["expires_in_seconds"].get<double>(), 60, 1e-6);
  const json second =
      json::parse(send("GET", "", "?limit=2&after=" + first["next"].get<std::string>()).body);
  EXPECT_EQ(second["objects"].size(), 1u);
  EXPECT_FALSE(second.contains("next"));
  expect_error(send("GET", "", "?limit=0"), 400, "INVALID_ARGUMENT");
  expect_error(send("GET", "", "?limit="), 400, "INVALID_ARGUMENT");
  expect_error(send("GET", "", "?after=x"), 400, "INVALID_ARGUMENT");
}

TEST_F(ObjectsTest, LongCopiesAreMadeOffTheLoop) {
  const std::string large(1'000'000, 'x');
  const auto posted = start("POST", "", "", large);
  EXPECT_FALSE(posted->response.has_value());
  loop_.run_once(Duration(0));
  ASSERT_EQ(posted->response->status, 201);
  const std::string id = json::parse(posted->response->body)["object"];
  const auto got = start("GET", "/" + id);
  EXPECT_FALSE(got->response.has_value());
  loop_.run_once(Duration(0));
  EXPECT_EQ(got->response->body, large);
  copies_ = false;
  expect_error(send("GET", "/" + id), 429, "RESOURCE_EXHAUSTED");
}

TEST_F(ObjectsTest, OnlySoManyBytesAreCopiedAtOnce) {
  const std::string large(limits::kHttpObject.count, 'x');
  for (Bytes sum = limits::kHttpObject; sum <= limits::kObjectCopies; sum += limits::kHttpObject) {
    EXPECT_FALSE(start("POST", "", "", large)->response.has_value());
  }
  expect_error(send("POST", "", "", large), 429, "RESOURCE_EXHAUSTED");
  expect_error(send("POST", "", "", large + "x"), 400, "OUT_OF_RANGE");
  loop_.run_once(Duration(0));
  EXPECT_FALSE(start("POST", "", "", large)->response.has_value());
}

TEST_F(ObjectsTest, WhatItsClientsDoNotReadCountsUntilItLeft) {
  const std::string large(limits::kHttpObject.count, 'x');
  auto posted = start("POST", "", "", large);
  loop_.run_once(Duration(0));
  const std::string path = "/" + json::parse(posted->response->body)["object"].get<std::string>();
  std::vector<std::shared_ptr<Exchanged>> unsent;
  for (Bytes sum = limits::kHttpObject; sum <= limits::kObjectCopies; sum += limits::kHttpObject) {
    unsent.push_back(start("GET", path));
    loop_.run_once(Duration(0));
    ASSERT_EQ(unsent.back()->response->status, 200);
    unsent.back()->response->body = std::string();  // that it was not read is enough
  }
  expect_error(send("GET", path), 429, "RESOURCE_EXHAUSTED");
  expect_error(send("POST", "", "", large), 429, "RESOURCE_EXHAUSTED");
  EXPECT_EQ(send("GET", path, "", "", {{"Range", "bytes=-2"}}).body, "xx");
  unsent.pop_back();
  const auto next = start("GET", path);
  loop_.run_once(Duration(0));
  EXPECT_EQ(next->response->status, 200);
}

TEST_F(ObjectsTest, AnObjectTooLargeForHttpComesInRanges) {
  auto memory = new_memory(limits::kHttpObject + Bytes(1));
  ASSERT_TRUE(seal(memory->get()).ok());
  ASSERT_TRUE(store_
                  .store(kDefaultTenant, kObject, raw_tensor(limits::kHttpObject + Bytes(1)),
                         std::move(*memory))
                  .ok());
  expect_error(send("GET", std::string("/") + kName), 400, "OUT_OF_RANGE");
  EXPECT_EQ(send("GET", std::string("/") + kName, "", "", {{"Range", "bytes=-2"}}).body,
            std::string(2, '\0'));
}

TEST_F(ObjectsTest, OtherMethodsAndIdsAreRefused) {
  EXPECT_EQ(send("PATCH", "").status, 405);
  EXPECT_EQ(send("POST", std::string("/") + kName).headers.get("allow"), "GET, HEAD, PUT, DELETE");
  expect_error(send("GET", "/nonsense"), 400, "INVALID_ARGUMENT");
  expect_error(send("GET", "/"), 400, "INVALID_ARGUMENT");
}

TEST(ObjectList, IsReadFromAHeader) {
  const std::string name = kName;
  EXPECT_EQ(parse_object_list(name + " ,  " + name)->size(), 2u);
  EXPECT_TRUE(parse_object_list(" ")->empty());
  EXPECT_EQ(parse_object_list("x").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(parse_object_list(name + "," + ",x").error().code, ErrorCode::kInvalidArgument);
  std::string many;
  for (size_t i = 0; i <= limits::kNeeds; ++i) many += name + ",";
  EXPECT_EQ(parse_object_list(many).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace lambent::frontend
