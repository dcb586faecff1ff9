#include "edge/frontend/activity_frontend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "edge/frontend/testing/fake_activity.h"
#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr TenantId kRed{7}, kBlue{8};

class ActivityTest : public testing::Test {
 protected:
  ActivityTest() {
    for (const char* name : {"a", "b", "c"}) activity_.rows[kRed][name].name = name;
    activity_.over[kRed] = {ended(2), ended(1)};
    service_.functions[{kRed, "a"}].name = {kRed, "a"};
  }
  static EndedInvocation ended(uint64_t sequence) {
    EndedInvocation one;
    one.sequence = sequence;
    one.id = InvocationId{0, sequence};
    one.function = "a";
    one.phases.run = milliseconds(3);
    return one;
  }
  std::shared_ptr<Exchanged> start(const std::string& target, TenantId tenant = kRed,
                                   const std::string& token = {}) {
    auto seen = std::make_shared<Exchanged>();
    frontend_.handle({.tenant = tenant, .token = token}, request_of("GET", target, "", {}),
                     responder_to(seen));
    return seen;
  }
  json get(const std::string& target, int status = 200) {
    const auto seen = start(target);
    EXPECT_TRUE(seen->response.has_value()) << target;
    EXPECT_EQ(seen->response->status, status) << seen->response->body;
    return json::parse(seen->response->body);
  }
  void turn() {
    clock_.advance(seconds(1));
    loop_.run_once(Duration());
  }

  FakeClock clock_;
  loop::EventLoop loop_{clock_};
  FakeService service_;
  FakeActivity activity_;
  bool ready_ = true;
  std::string good_token_ = "good";
  ActivityFrontend frontend_{
      {activity_, service_, loop_, [] { return std::string("{\"devices\":[{\"gpu\":\"0\"}]}"); },
       [](TenantId) { return std::string("{\"slices\":[]}"); }, [this] { return ready_; }},
      [this](const std::string& token) { return token == good_token_; }};
};

TEST_F(ActivityTest, PagesFunctions) {
  const json first = get("/v1/activity/functions?limit=2");
  EXPECT_EQ(first["functions"].size(), 2u);
  EXPECT_EQ(first["next"], "b");
  const json last = get("/v1/activity/functions?after=b");
  EXPECT_EQ(last["functions"][0]["name"], "c");
  EXPECT_FALSE(last.contains("next"));
}

TEST_F(ActivityTest, TellsAFunctionWithItsSettingsAndLatencies) {
  const json told = get("/v1/activity/functions/a");
  EXPECT_EQ(told["activity"]["name"], "a");
  EXPECT_EQ(told["function"]["name"], "a");
  EXPECT_EQ(told["latency_buckets_ms"].size(), 1u);
  EXPECT_TRUE(told["graph"].is_null());
  EXPECT_EQ(get("/v1/activity/functions/none", 404)["error"]["code"], "NOT_FOUND");
}

TEST_F(ActivityTest, TellsWhatEnded) {
  EXPECT_EQ(get("/v1/activity/invocations")["invocations"].size(), 2u);
  EXPECT_EQ(get("/v1/activity/invocations?after=1")["invocations"][0]["sequence"], 2);
  EXPECT_EQ(get("/v1/activity/invocations?before=2")["invocations"][0]["sequence"], 1);
  EXPECT_EQ(get("/v1/activity/invocations?function=b")["invocations"].size(), 0u);
  const json one = get("/v1/activity/invocations/" + to_string(InvocationId{0, 2}));
  EXPECT_EQ(one["took_ms"], 3.0);
  EXPECT_EQ(one["start"], "warm");
}

TEST_F(ActivityTest, RefusesWhatIsNoCall) {
  get("/v1/activity", 404);
  get("/v1/activity/nothing", 404);
  get("/v1/activity/events/more", 404);
  get("/v1/activity/invocations/no-uuid", 400);
  get("/v1/activity/invocations?after=x", 400);
  get("/v1/activity/invocations?before=-1", 400);
  get("/v1/activity/functions?limit=0", 400);
  get("/v1/activity/functions?limit=", 400);
  get("/v1/activity/functions?latencies=garbage", 400);
}

TEST_F(ActivityTest, StreamsTheStateAndThenWhatChanges) {
  const auto seen = start("/v1/activity/events");
  EXPECT_EQ(std::string(seen->response->headers.get("content-type")),
            "text/event-stream; charset=utf-8");
  EXPECT_THAT(seen->chunks, HasSubstr("event: state\ndata: {"));
  EXPECT_THAT(seen->chunks, HasSubstr("\"gpu\":\"0\""));
  EXPECT_THAT(seen->chunks, Not(HasSubstr("event: functions")));
  seen->chunks.clear();
  activity_.rows[kRed]["b"].queued = 5;
  activity_.rows[kRed].erase("c");
  activity_.rows[kRed]["d"].name = "d";
  activity_.over[kRed].insert(activity_.over[kRed].begin(), ended(3));
  turn();
  const size_t at = seen->chunks.find("event: functions\ndata: ");
  ASSERT_NE(at, std::string::npos) << seen->chunks;
  const size_t begin = at + std::string("event: functions\ndata: ").size();
  const json changed =
      json::parse(seen->chunks.substr(begin, seen->chunks.find('\n', begin) - begin));
  EXPECT_EQ(changed["functions"].size(), 2u);
  EXPECT_EQ(changed["removed"], json::array({"c"}));
  EXPECT_THAT(seen->chunks, HasSubstr("\"sequence\":3"));
  EXPECT_THAT(seen->chunks, Not(HasSubstr("\"sequence\":2")));
  seen->chunks.clear();
  turn();
  EXPECT_THAT(seen->chunks, HasSubstr("event: state"));
  EXPECT_THAT(seen->chunks, Not(HasSubstr("event: ended")));
}

TEST_F(ActivityTest, OnTheFirstWayAlongManyTellsThoseThatWereCalled) {
  activity_.rows[kRed].clear();
  constexpr size_t kMany = 5'000;
  for (size_t i = 0; i < kMany; ++i) {
    const std::string name = "f" + std::to_string(10'000 + i);
    activity_.rows[kRed][name].name = name;
  }
  activity_.rows[kRed]["f14000"].warm = 3;
  const auto seen = start("/v1/activity/events");
  for (int second = 0; second < 4; ++second) turn();
  size_t told = 0;
  for (size_t at = seen->chunks.find("event: functions"); at != std::string::npos;
       at = seen->chunks.find("event: functions", at + 1)) {
    ++told;
  }
  EXPECT_EQ(told, 1u);
  EXPECT_THAT(seen->chunks, HasSubstr("f14000"));
  EXPECT_THAT(seen->chunks, Not(HasSubstr("f14001")));
  // What comes later is new.
  activity_.rows[kRed]["f15000"].name = "f15000";
  for (int second = 0; second < 4; ++second) turn();
  EXPECT_THAT(seen->chunks, HasSubstr("f15000"));
}

TEST_F(ActivityTest, ShowsATenantItsOwn) {
  activity_.waiting[kRed] = {{.id = InvocationId{0, 9}, .function = "secret", .phase = "queued"}};
  EXPECT_THAT(start("/v1/activity/events", kRed)->chunks, HasSubstr("secret"));
  EXPECT_THAT(start("/v1/activity/events", kBlue)->chunks, Not(HasSubstr("secret")));
  const auto functions = start("/v1/activity/functions", kBlue);
  EXPECT_EQ(json::parse(functions->response->body)["functions"].size(), 0u);
}

TEST_F(ActivityTest, SaysHowManyItLeftOut) {
  const auto seen = start("/v1/activity/events");
  seen->chunks.clear();
  for (uint64_t i = 3; i < 1'003; ++i) {
    activity_.over[kRed].insert(activity_.over[kRed].begin(), ended(i));
  }
  turn();
  EXPECT_THAT(seen->chunks, HasSubstr("\"missed\":500"));
}

TEST_F(ActivityTest, EndsWithTheTokenAndWithTheWorker) {
  const auto revoked = start("/v1/activity/events", kRed, "good");
  const auto stays = start("/v1/activity/events");
  good_token_ = "another";
  turn();
  EXPECT_TRUE(revoked->finished);
  EXPECT_FALSE(stays->finished);
  ready_ = false;
  turn();
  EXPECT_TRUE(stays->finished);
}

TEST_F(ActivityTest, DropsAClientThatDoesNotFollow) {
  const auto slow = start("/v1/activity/events");
  slow->takes_chunks = false;
  turn();
  slow->chunks.clear();
  turn();
  EXPECT_EQ(slow->chunks, "");
}

TEST_F(ActivityTest, BoundsHowManyFollow) {
  std::vector<std::shared_ptr<Exchanged>> followers;
  for (size_t i = 0; i < kActivityFollowersPerTenant; ++i) {
    followers.push_back(start("/v1/activity/events"));
    EXPECT_EQ(followers.back()->response->status, 200);
  }
  EXPECT_EQ(start("/v1/activity/events")->response->status, 429);
  EXPECT_EQ(start("/v1/activity/events", kBlue)->response->status, 200);
  // Those that leave make room.
  followers.front()->disconnect();
  turn();
  EXPECT_EQ(start("/v1/activity/events")->response->status, 200);
}

}  // namespace
}  // namespace lambent::frontend
