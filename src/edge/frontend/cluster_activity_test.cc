// What a tenant's functions do on the nodes of a cluster, and its events, with nodes that answer,
// that do not, and that answer late.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "edge/frontend/activity_frontend.h"
#include "edge/frontend/testing/fake_activity.h"
#include "edge/frontend/testing/fake_nodes.h"
#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr TenantId kRed{7};

class ClusterActivityTest : public testing::Test {
 protected:
  ClusterActivityTest() { nodes_.others = {{"b"}, {"c"}}; }

  std::shared_ptr<Exchanged> start(const std::string& target) {
    auto seen = std::make_shared<Exchanged>();
    frontend_.handle({.tenant = kRed}, request_of("GET", target, "", {}), responder_to(seen));
    return seen;
  }
  void end_here(uint64_t sequence) {
    EndedInvocation one;
    one.sequence = sequence;
    one.function = "f";
    auto& over = activity_.over[kRed];
    over.insert(over.begin(), one);
  }
  // Of another node: these sequences, the newest first.
  static json ended(uint64_t newest, uint64_t oldest) {
    json rows = json::array();
    for (uint64_t i = newest; i >= oldest; --i) rows.push_back({{"sequence", i}, {"ended", i}});
    return {{"invocations", rows}, {"newest", newest}};
  }
  static void say(FakeNodes::Asked& asked, const json& body) {
    http::Response response;
    response.status = 200;
    response.body = body.dump();
    asked.done(std::move(response));
  }
  // All that was asked and not answered; `body` says what a node answers to a target, null: it is
  // silent.
  void answer_all(const std::function<json(const std::string&, const std::string&)>& body) {
    for (FakeNodes::Asked& each : std::exchange(nodes_.asked, {})) {
      const json said = body(each.node, each.target);
      if (said.is_null()) {
        each.done(Error{ErrorCode::kUnavailable, "it is silent"});
      } else {
        say(each, said);
      }
    }
  }
  void turn() {
    clock_.advance(seconds(1));
    loop_.run_once(Duration());
  }
  static bool asks_ended(const std::string& target) {
    return target.starts_with("/v1/activity/invocations?");
  }

  FakeClock clock_;
  loop::EventLoop loop_{clock_};
  FakeService service_;
  FakeActivity activity_;
  FakeNodes nodes_;
  ActivityFrontend frontend_{{activity_,
                              service_,
                              loop_,
                              {},
                              {},
                              [] { return true; },
                              {&nodes_, [](TenantId) { return std::string("red"); }}},
                             {}};
};

TEST_F(ClusterActivityTest, AfterANumberComesANumberSoThatThePageAfterItIsOfTheSameNode) {
  for (uint64_t i = 1; i <= 9; ++i) end_here(i);
  const auto seen = start("/v1/activity/invocations?limit=2&before=8");
  ASSERT_TRUE(seen->response.has_value()) << "it waits for other nodes";
  EXPECT_EQ(json::parse(seen->response->body)["next"], "6");
}

TEST_F(ClusterActivityTest, ANodeThatLeavesAnyQuestionUnansweredIsNamedAndLaterIsNot) {
  const auto seen = start("/v1/activity/events");
  EXPECT_THAT(seen->chunks, HasSubstr("\"silent_nodes\":[]"));
  answer_all([](const std::string& node, const std::string& target) {
    return node == "c" && target == "/v1/devices" ? json() : json::object();
  });
  EXPECT_THAT(seen->chunks, HasSubstr("\"silent_nodes\":[\"c\"]"));
  seen->chunks.clear();
  turn();
  answer_all([](const std::string&, const std::string&) { return json::object(); });
  EXPECT_THAT(seen->chunks, HasSubstr("\"silent_nodes\":[]"));
}

TEST_F(ClusterActivityTest, WhatEndsAtAnotherNodeOnceAPageIsOpenIsTold) {
  const auto seen = start("/v1/activity/events");
  ASSERT_FALSE(nodes_.asked.empty()) << "their places are asked for at once";
  answer_all([](const std::string&, const std::string& target) {
    return asks_ended(target) ? ended(5, 5) : json::object();
  });
  EXPECT_THAT(seen->chunks, Not(HasSubstr("event: ended")));
  turn();
  answer_all([](const std::string& node, const std::string& target) {
    if (!asks_ended(target)) return json::object();
    EXPECT_THAT(target, HasSubstr("after=5"));
    return node == "b" ? ended(7, 6) : json::object();
  });
  EXPECT_THAT(seen->chunks, HasSubstr("\"sequence\":6"));
  EXPECT_THAT(seen->chunks, HasSubstr("\"sequence\":7"));
  EXPECT_THAT(seen->chunks, HasSubstr("\"missed\":0"));
}

TEST_F(ClusterActivityTest, WhatANodeHasThatComesLaterIsTold) {
  const auto seen = start("/v1/activity/events");
  answer_all([](const std::string& node, const std::string&) {
    return node == "c" ? json() : json::object();
  });
  turn();
  answer_all([](const std::string& node, const std::string& target) {
    return node == "c" && asks_ended(target) ? ended(9, 8) : json::object();
  });
  EXPECT_THAT(seen->chunks, HasSubstr("\"sequence\":8"));
  EXPECT_THAT(seen->chunks, HasSubstr("\"missed\":0"));
}

TEST_F(ClusterActivityTest, AnEventHasABoundedNumberOfAllNodesAndCountsTheRest) {
  const auto seen = start("/v1/activity/events");
  answer_all([](const std::string&, const std::string&) { return json::object(); });
  turn();
  answer_all([](const std::string&, const std::string& target) {
    return asks_ended(target) ? ended(300, 1) : json::object();
  });
  EXPECT_THAT(seen->chunks, HasSubstr("\"missed\":100"));
  EXPECT_THAT(seen->chunks, Not(HasSubstr("\"sequence\":50}")));
}

TEST_F(ClusterActivityTest, AnswersToAChannelThatEndedAreNotForTheNextOne) {
  const auto gone = start("/v1/activity/events");
  auto late = std::exchange(nodes_.asked, {});
  gone->disconnect();
  turn();
  EXPECT_TRUE(nodes_.asked.empty());
  const auto seen = start("/v1/activity/events");
  const size_t at_first = seen->chunks.size();
  const size_t asked = nodes_.asked.size();
  for (FakeNodes::Asked& each : late) say(each, json::object());
  EXPECT_EQ(seen->chunks.size(), at_first);
  turn();
  EXPECT_EQ(nodes_.asked.size(), asked) << "its own answers are still to come";
}

}  // namespace
}  // namespace lambent::frontend
