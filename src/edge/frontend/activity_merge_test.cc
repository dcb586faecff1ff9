// What several nodes say of a tenant's functions, as one: sums, percentiles, order and pages.
#include "edge/frontend/activity_merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "edge/frontend/activity_json.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;
using testing::ElementsAre;

json row(uint64_t sequence, double ended) {
  return {{"sequence", sequence}, {"ended", ended}, {"invocation", std::to_string(sequence)}};
}
NodeAnswer rows(const std::string& node, std::vector<json> list) {
  return {node, {{"invocations", std::move(list)}}};
}
std::vector<std::string> shown(const json& merged) {
  std::vector<std::string> all;
  for (const json& each : merged["invocations"]) {
    all.push_back(each["node"].get<std::string>() + std::to_string(each["sequence"].get<int>()));
  }
  return all;
}

FunctionFigures figures(const std::string& name, std::vector<int> took_ms) {
  FunctionFigures one;
  one.activity.name = name;
  one.activity.warm = took_ms.size();
  for (const int each : took_ms) one.latencies.add(milliseconds(each));
  one.activity.p50 = one.latencies.percentile(0.5);
  one.activity.p95 = one.latencies.percentile(0.95);
  one.activity.p99 = one.latencies.percentile(0.99);
  return one;
}
json page_row(const FunctionFigures& one) {
  json made = to_json(one.activity);
  made["latency_buckets_ms"] = to_json(one.latencies);
  return made;
}

TEST(ActivityMergeTest, TheLatestEndOfAnyNodeComesFirst) {
  const std::vector<NodeAnswer> all = {rows("a", {row(7, 50), row(6, 20)}),
                                       rows("b", {row(3, 40), row(2, 10)})};
  const json merged = merge_ended(all, {}, 10);
  EXPECT_THAT(shown(merged), ElementsAre("a7", "b3", "a6", "b2"));
  EXPECT_FALSE(merged.contains("next"));
}

TEST(ActivityMergeTest, PagesGoOnWhereEachNodeWasLeft) {
  const std::vector<NodeAnswer> all = {rows("a", {row(7, 50), row(6, 45)}),
                                       rows("b", {row(3, 40), row(2, 10)}), rows("c", {})};
  const json merged = merge_ended(all, {}, 2);
  EXPECT_THAT(shown(merged), ElementsAre("a7", "a6"));
  // Nothing of b was taken, and c has nothing.
  EXPECT_EQ(merged["next"], "a:6");
}

TEST(ActivityMergeTest, ANodeWhoseClockWasSetBackKeepsItsOwnOrder) {
  const std::vector<NodeAnswer> all = {rows("a", {row(7, 10), row(6, 100)}),
                                       rows("b", {row(3, 40)})};
  EXPECT_THAT(shown(merge_ended(all, {}, 10)), ElementsAre("b3", "a7", "a6"));
}

TEST(ActivityMergeTest, WhatIsNoInvocationIsPassedOver) {
  const std::vector<NodeAnswer> all = {
      rows("a", {json(3), {{"sequence", "x"}, {"ended", 1}}, row(2, 5)}),
      {"b", json()},
      {"c", {{"invocations", "none"}}}};
  EXPECT_THAT(shown(merge_ended(all, {}, 10)), ElementsAre("a2"));
}

TEST(ActivityMergeTest, FiguresAreAddedAndPercentilesMadeOfAllLatencies) {
  FiguresPage own{.rows = {figures("f", {1, 1, 1}), figures("g", {5})}, .next = ""};
  const json other = {{"functions", {page_row(figures("f", {100, 100, 100, 100}))}}};
  const FiguresPage all = merge_functions(own, {{"b", other}, {"c", json()}});
  ASSERT_EQ(all.rows.size(), 2u);
  EXPECT_EQ(all.rows[0].activity.warm, 7u);
  EXPECT_NEAR(to_milliseconds(all.rows[0].activity.p50), 100, 20);
  EXPECT_EQ(all.rows[1], own.rows[1]);
}

TEST(ActivityMergeTest, AModelStaysOne) {
  FunctionFigures model = figures("m", {1});
  model.activity.kind = FunctionKind::kHttp;
  model.activity.serves_model = true;
  const FiguresPage all =
      merge_functions({.rows = {read_figures(page_row(model))}, .next = ""}, {});
  EXPECT_EQ(all.rows.at(0).activity.kind, FunctionKind::kHttp);
  EXPECT_TRUE(all.rows.at(0).activity.serves_model);
  EXPECT_FALSE(read_figures(page_row(figures("f", {}))).activity.serves_model);
}

TEST(ActivityMergeTest, APageEndsWhereAnotherNodesDoes) {
  FiguresPage own{.rows = {figures("a", {}), figures("m", {}), figures("z", {})}, .next = ""};
  const json other = {{"functions", {page_row(figures("a", {1}))}}, {"next", "k"}};
  const FiguresPage all = merge_functions(own, {{"b", other}});
  ASSERT_EQ(all.rows.size(), 1u);
  EXPECT_EQ(all.next, "k");
}

TEST(ActivityMergeTest, SettingsKeepTheirOwnAndHaveTheSums) {
  const json own = {{"functions", {{{"name", "f"}, {"completed", 2U}, {"memory_bytes", 5}}}}};
  const json other = {{"functions",
                       {{{"name", "f"}, {"completed", 3U}, {"queued", 1U}, {"memory_bytes", 9}},
                        {{"name", "of-b"}, {"completed", 3U}}}}};
  const json all = merge_function_status(own, {{"b", other}});
  ASSERT_EQ(all["functions"].size(), 1u);
  EXPECT_EQ(all["functions"][0]["completed"], 5);
  EXPECT_EQ(all["functions"][0]["queued"], 1);
  EXPECT_EQ(all["functions"][0]["memory_bytes"], 5);
}

TEST(ActivityMergeTest, OfARunOnEachOfTwoNodesTheLastCounts) {
  const std::vector<NodeAnswer> all = {{"a", row(1, 5)}, {"b", row(9, 7)}, {"c", json()}};
  EXPECT_EQ(last_ended(all)["node"], "b");
  EXPECT_TRUE(last_ended({{"a", json()}}).is_null());
}

TEST(ActivityMergeTest, ThoseThatWaitedLongestOfAllNodesAreShown) {
  const auto waits = [](const std::string& node, std::vector<double> seconds) {
    json list = json::array();
    for (const double each : seconds) list.push_back({{"waited_seconds", each}});
    return NodeAnswer{node, {{"invocations", list}, {"gpu_runs", {{{"gpu", "0"}}}}}};
  };
  const json all = merge_live({waits("a", {3, 1}), waits("b", {2})}, 2);
  ASSERT_EQ(all["invocations"].size(), 2u);
  EXPECT_EQ(all["invocations"][1]["node"], "b");
  EXPECT_EQ(all["gpu_runs"].size(), 2u);
  EXPECT_EQ(all["gpu_runs"][1]["node"], "b");
}

TEST(ActivityMergeTest, ThoseThatAreQueuedComeBeforeThoseThatRunForLonger) {
  const auto one = [](const std::string& node, const char* phase, double seconds) {
    return NodeAnswer{node, {{"invocations", {{{"phase", phase}, {"waited_seconds", seconds}}}}}};
  };
  const json all =
      merge_live({one("a", "running", 60), one("b", "queued", 1), one("c", "queued", 2)}, 2);
  ASSERT_EQ(all["invocations"].size(), 2u);
  EXPECT_EQ(all["invocations"][0]["node"], "c");
  EXPECT_EQ(all["invocations"][1]["node"], "b");
}

TEST(ActivityMergeTest, SandboxesBeyondTheLimitAreCounted) {
  const std::vector<NodeAnswer> all = {
      {"a", {{"sandboxes", {{{"id", 1}}, {{"id", 2}}}}, {"all", 9U}}},
      {"b", {{"sandboxes", {{{"id", 1}}}}}},  // a program of before does not count
      {"c", json()}};
  const json merged = merge_sandboxes(all, 2);
  EXPECT_EQ(merged["all"], 10);
  ASSERT_EQ(merged["sandboxes"].size(), 2u);
  EXPECT_EQ(merged["sandboxes"][1]["node"], "a");
}

TEST(ActivityMergeTest, ANodeThatCountsAgainIsSeen) {
  EXPECT_TRUE(began_again({{"newest", 3U}}, 9));
  EXPECT_FALSE(began_again({{"newest", 9U}}, 9));
  EXPECT_FALSE(began_again(json::object(), 9));
}

json schedule(const char* name, bool begins, const json& last, const json& invocation) {
  return {{"function", "f"},
          {"name", name},
          {"begins", begins},
          {"next", begins ? "2026-11-30T13:00:00Z" : "2026-11-30T12:59:00Z"},
          {"last", last},
          {"last_invocation", invocation},
          {"last_outcome", nullptr},
          {"begun", invocation.is_null() ? 0U : 2U},
          {"missed", 1U},
          {"error", ""}};
}

NodeAnswer with_schedules(const std::string& node, std::vector<json> list) {
  return {node, {{"schedules", std::move(list)}}};
}

TEST(ActivityMerge, ASchedulesLastRunIsThatOfTheNodeThatBeganItAndItsNextThatOfWhoBeginsIt) {
  const json merged =
      merge_schedules({with_schedules("b", {schedule("x", false, nullptr, nullptr)}),
                       with_schedules("a", {schedule("x", false, "2026-11-30T12:00:00Z", "i1")}),
                       with_schedules("c", {schedule("w", true, nullptr, nullptr),
                                            schedule("x", true, "2026-11-30T11:00:00Z", "i0")}),
                       {"d", json()}});
  ASSERT_EQ(merged["schedules"].size(), 2u);
  const json& row = merged["schedules"][1];
  EXPECT_EQ(merged["schedules"][0]["node"], "c");
  EXPECT_EQ(row["name"], "x");
  EXPECT_EQ(row["node"], "c");
  EXPECT_EQ(row["next"], "2026-11-30T13:00:00Z");
  EXPECT_EQ(row["last"], "2026-11-30T12:00:00Z");
  EXPECT_EQ(row["last_invocation"], "i1");
  EXPECT_EQ(row["begun"], 4);
  EXPECT_EQ(row["missed"], 3);
  EXPECT_EQ(row["begins"], true);
}

TEST(ActivityMerge, OfAScheduleThatNoNodeThatAnswersBeginsThereIsNoNode) {
  const json merged =
      merge_schedules({with_schedules("b", {schedule("x", false, nullptr, nullptr)}),
                       with_schedules("c", {"no row", 7})});
  ASSERT_EQ(merged["schedules"].size(), 1u);
  EXPECT_TRUE(merged["schedules"][0]["node"].is_null());
}

}  // namespace
}  // namespace lambent::frontend
