// A function's log over the nodes of a cluster: read once and followed, with nodes that answer,
// that do not, and that answer late.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "edge/frontend/log_followers.h"
#include "edge/frontend/testing/fake_nodes.h"
#include "edge/frontend/testing/stream_client.h"
#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

class ClusterLogsTest : public testing::Test {
 protected:
  ClusterLogsTest() {
    nodes_.others = {{"b"}, {"c"}};
    print("a", "one\n", 1);
    print("b", "two\n", 2);
    print("a", "three\n", 3);
    part("c");
  }

  LogPart& part(const std::string& node) {
    LogPart& part = nodes_.parts[node];
    part.now = clock_.wall_now();
    return part;
  }
  void print(const std::string& node, const std::string& line, int at) {
    if (node == "a") {
      service_.log_marks["f"].push_back({service_.logs["f"].size(), seconds(at)});
      service_.logs["f"] += line;
      return;
    }
    LogChunk& chunk = part(node).chunk;
    chunk.marks.push_back({chunk.text.size(), seconds(at)});
    chunk.text += line;
    chunk.end = chunk.next_offset = chunk.text.size();
  }
  // Of one read.
  Result<std::string> text_of(LogForm form = {}) {
    Result<std::string> text = Error{ErrorCode::kInternal, "no answer yet"};
    reader_.read({.function = f_, .from = {}}, [&](const Result<LogReader::Answer>& answer) {
      text = answer.ok() ? Result<std::string>(LogView(form).show(*answer, false)) : answer.error();
      if (answer.ok()) silent_ = answer->silent;
    });
    return text;
  }
  std::shared_ptr<Exchanged> follow(LogForm form = {}) {
    auto seen = std::make_shared<Exchanged>();
    http::Responder responder = responder_to(seen);
    EXPECT_TRUE(followers_.add(
        {.function = f_, .from = {}}, form, [] { return true; }, responder));
    return seen;
  }
  void turn(Duration by = milliseconds(100)) {
    clock_.advance(by);
    for (auto& [node, part] : nodes_.parts) part.now = clock_.wall_now();
    loop_.run_once(Duration());
  }

  const FunctionName f_{kDefaultTenant, "f"};
  FakeClock clock_;
  loop::EventLoop loop_{clock_};
  FakeService service_;
  FakeNodes nodes_;
  LogReader reader_{service_, loop_, {&nodes_, [](TenantId) { return std::string("team"); }}};
  LogFollowers followers_{reader_, loop_, [] { return true; }};
  std::vector<std::string> silent_;
};

TEST_F(ClusterLogsTest, LinesOfAllNodesAreMergedAndNamed) {
  EXPECT_EQ(*text_of(), "a | one\nb | two\na | three\n");
  EXPECT_TRUE(silent_.empty());
}

TEST_F(ClusterLogsTest, WhereOnlyOneNodeHasLinesNoneIsNamed) {
  nodes_.parts["b"] = {};
  EXPECT_EQ(*text_of(), "one\nthree\n");
}

TEST_F(ClusterLogsTest, ProgramsGetTimesAndNodes) {
  const std::string text = *text_of({.is_json = true});
  EXPECT_THAT(text, HasSubstr(R"({"nodes":["a","b"],"older_lines_gone":false,"silent_nodes":[]})"));
  EXPECT_THAT(text, HasSubstr(R"({"node":"b","text":"two\n","time":"1970-01-01T00:00:02.000Z"})"));
}

TEST_F(ClusterLogsTest, TheEndIsAPlaceAtEachNodeAndNothingOfBefore) {
  std::string next = "none";
  reader_.read({.function = f_, .from = {}, .at_end = true},
               [&](const Result<LogReader::Answer>& answer) {
                 EXPECT_TRUE(answer->log.lines.empty());
                 EXPECT_FALSE(answer->log.older_is_gone);
                 next = answer->next_offset;
               });
  EXPECT_EQ(next, "a:10,b:4,c:0");
  reader_.read({.function = f_, .from = {}, .at_end = true, .only_here = true},
               [&](const Result<LogReader::Answer>& answer) { next = answer->next_offset; });
  EXPECT_EQ(next, "10");
}

TEST_F(ClusterLogsTest, OneThatFollowsFromTheEndGetsWhatIsPrintedFromThenOn) {
  auto seen = std::make_shared<Exchanged>();
  http::Responder responder = responder_to(seen);
  EXPECT_TRUE(followers_.add(
      {.function = f_, .from = {}, .at_end = true}, {}, [] { return true; }, responder));
  print("a", "four\n", 4);
  turn(seconds(1));
  EXPECT_EQ(seen->chunks, "a | four\n");
}

TEST_F(ClusterLogsTest, OthersAreAskedForTheTenantsLog) {
  nodes_.parts.clear();
  (void)text_of();
  ASSERT_EQ(nodes_.asked.size(), 2u);
  EXPECT_THAT(nodes_.asked[0].target, HasSubstr("/v1/cluster/log/team/f?offset=0&most="));
}

TEST_F(ClusterLogsTest, ANodeThatIsLostIsNamedAndNotAsked) {
  nodes_.parts.erase("c");
  nodes_.others[1].answers = false;
  EXPECT_EQ(*text_of(), "a | one\nb | two\na | three\n");
  EXPECT_THAT(silent_, ElementsAre("c"));
  EXPECT_TRUE(nodes_.asked.empty());
}

TEST_F(ClusterLogsTest, NodesThatDoNotAnswerOrAnswerNonsenseAreNamed) {
  nodes_.parts.clear();
  bool is_answered = false;
  reader_.read({.function = f_, .from = {}}, [&](const Result<LogReader::Answer>& answer) {
    is_answered = true;
    ASSERT_TRUE(answer.ok());
    EXPECT_THAT(answer->silent, ElementsAre("b", "c"));
    EXPECT_EQ(answer->log.lines.size(), 2u);
  });
  nodes_.asked[0].done(Error{ErrorCode::kUnavailable, "it takes too long"});
  EXPECT_FALSE(is_answered);
  http::Response nonsense;
  nonsense.status = 200;
  // Before what is asked for there is nothing, and no end of it.
  nonsense.body = R"({"known":true,"next":0,"end":9,"now":0,"marks":[]})"
                  "\n";
  nodes_.asked[1].done(std::move(nonsense));
  EXPECT_TRUE(is_answered);
}

TEST_F(ClusterLogsTest, AnOlderProgramDoesNotKnowTheQuestionAndIsNamed) {
  nodes_.parts.erase("c");
  reader_.read({.function = f_, .from = {}}, [&](const Result<LogReader::Answer>& answer) {
    EXPECT_THAT(answer->silent, ElementsAre("c"));
  });
  http::Response response;
  response.status = 404;
  nodes_.asked[0].done(std::move(response));
}

TEST_F(ClusterLogsTest, AFunctionThatOnlyAnotherNodeKnowsHasItsLog) {
  service_.logs.clear();
  EXPECT_EQ(*text_of(), "two\n");
  for (auto& [node, part] : nodes_.parts) part.is_known = false;
  EXPECT_EQ(text_of().error().code, ErrorCode::kNotFound);
  nodes_.parts.erase("c");
  nodes_.others[1].answers = false;
  EXPECT_EQ(text_of().error().code, ErrorCode::kUnavailable);
}

TEST_F(ClusterLogsTest, OnlyThisNodesLogIsReadWhereThatIsAskedFor) {
  reader_.read({.function = f_, .from = {}, .only_here = true}, [&](const auto& answer) {
    EXPECT_TRUE(answer->is_alone);
    EXPECT_EQ(answer->next_offset, "10");
  });
}

TEST_F(ClusterLogsTest, APlaceIsGoodWhetherOtherNodesAreReadOrNot) {
  const auto read_from = [this](const std::string& place, bool only_here) {
    std::string next;
    std::string text;
    reader_.read({.function = f_, .from = *NodeCursor::parse(place), .only_here = only_here},
                 [&](const auto& answer) {
                   text = LogView({}).show(*answer, false);
                   next = answer->next_offset;
                 });
    return text + "@" + next;
  };
  EXPECT_EQ(read_from("a:4,b:4", true), "three\n@a:10,b:4");
  EXPECT_EQ(read_from("a:4,b:4", false), "a | three\n@a:10,b:4,c:0");
  EXPECT_EQ(read_from("4", false), "b | two\na | three\n@a:10,b:4,c:0");
  nodes_.others.clear();
  EXPECT_EQ(read_from("a:4,b:4", false), "three\n@a:10,b:4");
  EXPECT_EQ(read_from("a:4", false), "three\n@10");
  EXPECT_EQ(read_from("4", false), "three\n@10");
}

TEST_F(ClusterLogsTest, AFollowerGetsNoLineTwiceWhenOtherNodesGoOrCome) {
  const auto seen = follow();
  const std::string before = "a | one\nb | two\na | three\n";
  auto others = std::exchange(nodes_.others, {});
  turn(seconds(1));
  EXPECT_EQ(seen->chunks, before);
  print("a", "four\n", 4);
  turn(seconds(1));
  EXPECT_EQ(seen->chunks, before + "a | four\n");
  nodes_.others = std::move(others);
  turn(seconds(1));
  EXPECT_EQ(seen->chunks, before + "a | four\n");
}

TEST_F(ClusterLogsTest, AFollowerOfALoneNodeGetsNoLineTwiceWhenTheFirstOtherComes) {
  auto others = std::exchange(nodes_.others, {});
  const auto seen = follow();
  EXPECT_EQ(seen->chunks, "one\nthree\n");
  nodes_.others = std::move(others);
  turn(seconds(1));
  EXPECT_EQ(seen->chunks, "one\nthree\nb | two\n");
}

TEST_F(ClusterLogsTest, FollowersGetLinesOfAllNodesAsTheyCome) {
  const auto seen = follow();
  EXPECT_EQ(seen->chunks, "a | one\nb | two\na | three\n");
  const int now = static_cast<int>(clock_.wall_now() / seconds(1));
  // Printed in this moment: what is printed elsewhere in it may still come before.
  print("b", "five\n", now);
  print("a", "four\n", now - 1);
  turn(seconds(1));
  EXPECT_EQ(seen->chunks, "a | one\nb | two\na | three\na | four\nb | five\n");
  print("a", "young\n", static_cast<int>(clock_.wall_now() / seconds(1)));
  turn(milliseconds(200));
  EXPECT_THAT(seen->chunks, Not(HasSubstr("young")));
  turn(milliseconds(200));
  EXPECT_THAT(seen->chunks, HasSubstr("a | young\n"));
}

TEST_F(ClusterLogsTest, ALateAnswerTellsOfTheTimeBeforeItWasAskedFor) {
  const auto seen = follow();
  nodes_.parts.erase("b");
  turn(seconds(1));
  ASSERT_EQ(nodes_.asked.size(), 1u);
  const Duration asked_at = clock_.wall_now();
  clock_.advance(seconds(1));
  LogPart late{.node = {}, .is_known = true, .chunk = {}, .now = clock_.wall_now()};
  // Of the time since, this node's own lines are not known yet.
  late.chunk = {
      "early\nlate\n", 15, {{4, asked_at - seconds(3)}, {10, asked_at + milliseconds(500)}}, 15};
  nodes_.asked[0].done(FakeNodes::answer_of(late));
  EXPECT_THAT(seen->chunks, HasSubstr("b | early\n"));
  EXPECT_THAT(seen->chunks, Not(HasSubstr("late")));
}

TEST_F(ClusterLogsTest, FollowersAreToldOnceOfANodeThatDoesNotAnswer) {
  const auto seen = follow();
  nodes_.others[0].answers = false;
  turn(seconds(1));
  turn(seconds(1));
  EXPECT_EQ(seen->chunks,
            "a | one\nb | two\na | three\n[node b does not answer: its lines are missing]\n");
  // What it printed meanwhile comes once it is back.
  print("b", "late\n", 4);
  nodes_.others[0].answers = true;
  turn(seconds(1));
  EXPECT_THAT(seen->chunks, HasSubstr("b | late\n"));
}

TEST_F(ClusterLogsTest, AFollowerGoesOnWhileTheOnlyNodeThatHasTheFunctionIsSilent) {
  service_.logs.clear();
  nodes_.parts["c"].is_known = false;
  const auto seen = follow();
  EXPECT_EQ(seen->chunks, "two\n");
  nodes_.others[0].answers = false;
  turn(seconds(1));
  EXPECT_EQ(seen->chunks, "two\n[node b does not answer: its lines are missing]\n");
  EXPECT_FALSE(seen->finished);
  nodes_.others[0].answers = true;
  print("b", "three\n", 3);
  turn(seconds(1));
  EXPECT_THAT(seen->chunks, EndsWith("three\n"));
  nodes_.parts["b"].is_known = false;
  turn(seconds(1));
  EXPECT_TRUE(seen->finished);
}

TEST_F(ClusterLogsTest, NothingIsReadForAFollowerUntilItsLastPieceHasLeft) {
  auto client = std::make_shared<StreamClient>();
  client->has_room = false;
  http::Responder responder(std::make_shared<StreamExchange>(client));
  ASSERT_TRUE(followers_.add(
      {.function = f_, .from = {}}, {}, [] { return true; }, responder));
  const std::string first = "a | one\nb | two\na | three\n";
  EXPECT_EQ(client->body, first);
  nodes_.parts.clear();
  print("a", "four\n", 4);
  for (int i = 0; i < 5; ++i) turn(seconds(1));
  EXPECT_TRUE(nodes_.asked.empty());
  EXPECT_EQ(client->body, first);
  client->has_room = true;
  client->room();
  turn(seconds(1));
  EXPECT_EQ(nodes_.asked.size(), 2u);
  for (auto& each : std::exchange(nodes_.asked, {})) each.done(Error{ErrorCode::kUnavailable, ""});
  EXPECT_THAT(client->body, HasSubstr("a | four\n"));
}

TEST_F(ClusterLogsTest, ALogThatWasLostOrIsANewOneIsReadFromItsStart) {
  const auto seen = follow();
  service_.logs["f"] = "new\n";
  service_.log_marks["f"] = {{0, seconds(5)}};
  turn(seconds(1));
  EXPECT_THAT(seen->chunks, EndsWith("three\n[older lines are gone]\na | new\n"));
  turn(seconds(1));
  EXPECT_THAT(seen->chunks, EndsWith("a | new\n"));
}

TEST_F(ClusterLogsTest, BytesThatAreNoTextComeAsTheyAre) {
  nodes_.others.clear();
  service_.logs["f"] = "a\xff\n";
  service_.log_marks.clear();
  EXPECT_THAT(*text_of({.is_json = true}),
              EndsWith("{\"bytes\":\"Yf8K\",\"node\":\"a\",\"text\":\"a\\ufffd\\n\"}\n"));
  EXPECT_EQ(*text_of(), "a\xff\n");
}

TEST_F(ClusterLogsTest, AFollowerWaitsForAnAnswerAndAsksNoNodeTwiceMeanwhile) {
  nodes_.parts.clear();
  const auto seen = follow();
  EXPECT_FALSE(seen->response.has_value());
  for (int i = 0; i < 20; ++i) turn();
  EXPECT_EQ(nodes_.asked.size(), 2u);
}

TEST_F(ClusterLogsTest, NothingIsAskedOrSentForAFollowerThatLeft) {
  const auto seen = follow();
  nodes_.parts.clear();
  turn(seconds(1));
  ASSERT_EQ(nodes_.asked.size(), 2u);
  seen->disconnect();
  turn(seconds(1));
  EXPECT_EQ(followers_.count(), 0u);
  const std::string before = seen->chunks;
  for (auto& each : nodes_.asked) each.done(FakeNodes::answer_of({}));
  EXPECT_EQ(nodes_.asked.size(), 2u);
  EXPECT_EQ(seen->chunks, before);
}

TEST_F(ClusterLogsTest, AFollowerOfAFunctionThatNoNodeHasGetsAnError) {
  service_.logs.clear();
  for (auto& [node, part] : nodes_.parts) part.is_known = false;
  EXPECT_EQ(follow()->response->status, 404);
  EXPECT_EQ(followers_.count(), 0u);
}

TEST_F(ClusterLogsTest, WhatIsLateForOneThatIsGoneTouchesNothing) {
  nodes_.parts.clear();
  {
    LogFollowers brief(reader_, loop_, [] { return true; });
    auto seen = std::make_shared<Exchanged>();
    http::Responder responder = responder_to(seen);
    EXPECT_TRUE(brief.add(
        {.function = f_, .from = {}}, {}, [] { return true; }, responder));
  }
  for (auto& each : nodes_.asked) each.done(FakeNodes::answer_of({}));
}

}  // namespace
}  // namespace lambent::frontend
