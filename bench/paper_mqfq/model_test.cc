// The bench's own arithmetic: workloads that ask for what they say, settings that are candidates,
// fairness as defined. Its experiments are held by keys_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "bench/paper_mqfq/fairness.h"
#include "bench/paper_mqfq/other_orders.h"
#include "bench/paper_mqfq/own_traces.h"
#include "bench/paper_mqfq/run.h"
#include "bench/paper_mqfq/unseen.h"

namespace lambent::paper_mqfq {
namespace {

workload::Catalogue catalogue() {
  return std::move(workload::open_catalogue(std::string(LAMBENT_SOURCE_DIR) +
                                            "/share/catalogue/mqfq_table1.csv"))
      .value();
}

TEST(ServiceGap, is_the_difference_between_functions_that_have_work_throughout) {
  // Both have work for 30 s: the one is on the device for 20 s of it, the other for 10.
  EXPECT_DOUBLE_EQ(10, service_gap({{0, 0, 0, 20}, {0, 0, 30, 30}, {1, 0, 20, 30}}, 2));
}

TEST(ServiceGap, is_zero_where_one_function_has_work_alone) {
  EXPECT_DOUBLE_EQ(0, service_gap({{0, 0, 0, 60}, {1, 10, 40, 50}}, 2));
}

TEST(Settings, name_a_candidate_of_every_system_that_is_swept) {
  const auto best = open_best(std::string(LAMBENT_SOURCE_DIR) + "/bench/paper_mqfq/settings.txt");
  ASSERT_TRUE(best.ok()) << best.error().message;
  EXPECT_EQ(swept().size(), best->size());
}

TEST(Settings, of_a_file_that_names_something_else_are_an_error) {
  EXPECT_FALSE(open_best(std::string(LAMBENT_SOURCE_DIR) + "/README.md").ok());
}

// Two functions of one length whose invocations are all there from the start: 140 of the first, and
// then 60 of the second.
Workload backlog(const workload::Catalogue& catalogue) {
  Workload workload{.name = "backlog", .family = "test", .length_s = 1};
  for (const char* name : {"first", "second"}) {
    workload.functions.push_back({.name = name, .catalogue_entry = name});
    workload.entries.push_back(catalogue.front());
    workload.entries.back().name = name;
    workload.entries.back().gpu_warm_s = 1;
  }
  for (uint32_t i = 0; i < 200; ++i) workload.arrivals.push_back({milliseconds(i), i / 140});
  return workload;
}

Figures of_backlog(const std::string& system) {
  return run_once(backlog(catalogue()), system_named(system), Site{.tokens = 1}, Constants(), 1);
}

TEST(Systems, that_are_fair_serve_two_backlogged_functions_alike_and_the_others_do_not) {
  // The longer queue may be ahead by T, which is 10 s, in the first of four windows of 30 s; then
  // by the run that it has begun.
  EXPECT_LT(of_backlog("mqfq").service_gap_s, 10.0 / 4 + 1);
  for (const char* system : {"fcfs", "batch"}) {
    EXPECT_GT(of_backlog(system).service_gap_s, 20) << system << " serves the first to its end";
  }
}

TEST(Systems, of_fcfs_move_memory_off_after_each_run_or_leave_it) {
  const Workload workload = generated(catalogue(), "g", 0.5, 3, 120);
  const auto gpu_cold = [&](const char* system) {
    return run_once(workload, system_named(system), Site(), Constants(), 1).gpu_cold;
  };
  EXPECT_GT(gpu_cold("fcfs"), 0.4);
  EXPECT_LT(gpu_cold("fcfs-stays"), 0.1);
  EXPECT_LT(gpu_cold("mqfq"), 0.1);
  // The next run waits for the memory of the one before where that holds the token.
  EXPECT_GT(of_backlog("fcfs-holds").mean_s, 1.1 * of_backlog("fcfs").mean_s);
}

TEST(Systems, that_may_have_second_containers_run_a_function_beside_itself) {
  Workload workload = backlog(catalogue());
  std::erase_if(workload.arrivals, [](const auto& each) { return each.function == 1; });
  const auto mean_s = [&](const char* system) {
    return run_once(workload, system_named(system), Site{.tokens = 2}, Constants(), 1).mean_s;
  };
  // Two at once take 1.2 times as long each: 0.6 of the time, and a cold start more.
  EXPECT_LT(mean_s("mqfq"), 0.7 * mean_s("mqfq-nodup"));
  EXPECT_GT(mean_s("mqfq"), 0.6 * mean_s("mqfq-nodup"));
}

TEST(Workloads, of_the_generator_ask_for_about_their_load) {
  const Workload workload = generated(catalogue(), "g", 0.6, 3);
  EXPECT_NEAR(0.6, workload.load(), 0.06);
}

TEST(Runs, give_the_same_for_the_same_seed_and_every_invocation_succeeds) {
  const Workload workload = generated(catalogue(), "g", 0.5, 3, 60);
  const Figures one = run_once(workload, system_named("mqfq"), Site(), Constants(), 1);
  const Figures same = run_once(workload, system_named("mqfq"), Site(), Constants(), 1);
  EXPECT_EQ(one.mean_s, same.mean_s);
  EXPECT_EQ(0, one.failed);
  EXPECT_GT(one.mean_s, 0);
}

TEST(Runs, find_every_invocation_cold_without_a_pool) {
  const Workload workload = generated(catalogue(), "g", 0.3, 3, 60);
  EXPECT_EQ(1, run_once(workload, system_named("naive"), Site(), Constants(), 1).cold);
}

TEST(GeometricMeans, are_of_each_seed_over_the_traces) {
  EXPECT_THAT(geometric_means({{1, 4}, {4, 9}}),
              testing::ElementsAre(testing::DoubleEq(2), testing::DoubleEq(6)));
}

TEST(UnseenFamilies, AreTheSameForTheSameSeedAndHaveArrivalsInOrder) {
  for (const UnseenFamily& family : unseen_families()) {
    const UnseenSite site = unseen_site(family.name, 3, 1);
    const auto one = unseen_workload(family.name, 3, site, catalogue());
    const auto same = unseen_workload(family.name, 3, site, catalogue());
    const auto other = unseen_workload(family.name, 4, site, catalogue());
    ASSERT_TRUE(one.ok() && same.ok() && other.ok()) << family.name;
    EXPECT_EQ(one->base.arrivals, same->base.arrivals) << family.name;
    EXPECT_EQ(one->takes_s, same->takes_s) << family.name;
    EXPECT_TRUE(std::ranges::is_sorted(one->base.arrivals)) << family.name;
    EXPECT_GT(one->base.arrivals.size() + one->clients.size(), 10u) << family.name;
    if (one->clients.empty()) {
      EXPECT_NE(one->base.arrivals, other->base.arrivals) << family.name;
    }
  }
  EXPECT_EQ(unseen_workload("none", 1, {}, catalogue()).error().code, ErrorCode::kNotFound);
}

// Where clients give up, they call again until they are served, and their latency is since their
// first call: two calls of 5 s on one token, of which the second gives up after 1.4 s.
TEST(UnseenFamilies, ClientsThatGiveUpCallAgainUntilTheyAreServed) {
  UnseenWorkload workload;
  workload.base.entries = {catalogue().front()};
  workload.base.entries[0].gpu_warm_s = 5;
  workload.base.entries[0].gpu_cold_s = 5.5;
  workload.base.functions = {{.name = "f"}};
  workload.base.length_s = 60;
  workload.base.arrivals.push_back({from_seconds(0), 0});
  const UnseenSite site{.site = {.tokens = 1}};
  const double first_s = run_unseen(workload, system_named("fcfs-pool"), site).mean_s;
  ASSERT_GT(first_s, 5.4);
  ASSERT_LT(first_s, 5.8);
  workload.base.arrivals.push_back({from_seconds(1), 0});
  const UnseenFigures waits = run_unseen(workload, system_named("fcfs-pool"), site);
  workload.gives_up_after_s = 1.4;
  const UnseenFigures again = run_unseen(workload, system_named("fcfs-pool"), site);
  for (const UnseenFigures& figures : {waits, again}) {
    EXPECT_EQ(figures.invocations, 2u);
    EXPECT_EQ(figures.failed, 0u);
  }
  EXPECT_EQ(waits.given_up, 0u);
  // Beside these a call has some milliseconds of its own.
  constexpr double kOwn = 0.02;
  EXPECT_NEAR(waits.mean_s, (first_s + first_s + 5 - 1) / 2, kOwn);
  // It calls at 1, 3.4 and 5.8 s, when the first is done, and is served at once.
  EXPECT_EQ(again.given_up, 2u);
  EXPECT_NEAR(again.mean_s, (first_s + 5.8 + 5 - 1) / 2, kOwn);
}

TEST(UnseenFamilies, LengthsThatFollowEachOtherAreAlike) {
  const UnseenSite site = unseen_site("one-model", 2, 1);
  const auto drawn = unseen_workload("one-model", 2, site, catalogue());
  ASSERT_GT(drawn->takes_s.size(), 200u);
  double same = 0, all = 0, mean = 0;
  std::vector<double> logarithms;
  for (const double takes_s : drawn->takes_s) logarithms.push_back(std::log(takes_s));
  for (const double one : logarithms) mean += one / static_cast<double>(logarithms.size());
  for (size_t i = 1; i < logarithms.size(); ++i) {
    same += (logarithms[i] - mean) * (logarithms[i - 1] - mean);
    all += (logarithms[i] - mean) * (logarithms[i] - mean);
  }
  EXPECT_GT(same / all, 0.8);
}

TEST(UnseenFamilies, OfWorkflowsCallEachFunctionAFixedTimeAfterTheOneBefore) {
  const auto drawn = unseen_workload("workflows", 1, unseen_site("workflows", 1, 0), catalogue());
  std::vector<double> first_s, second_s;
  for (const workload::Arrival& arrival : drawn->base.arrivals) {
    if (arrival.function == 0) first_s.push_back(to_seconds(arrival.at));
    if (arrival.function == 1) second_s.push_back(to_seconds(arrival.at));
  }
  ASSERT_GT(second_s.size(), 3u);
  // There is a gap by which, to a tenth, each of the second comes after one of the first.
  const auto explained = [&](double gap_s) {
    return std::ranges::count_if(second_s, [&](double at_s) {
      return std::ranges::any_of(
          first_s, [&](double from_s) { return std::abs((at_s - from_s) / gap_s - 1) < 0.11; });
    });
  };
  bool found = false;
  for (const double from_s : first_s) {
    const double gap_s = second_s.front() - from_s;
    found |= gap_s > 0 && explained(gap_s) == static_cast<int64_t>(second_s.size());
  }
  EXPECT_TRUE(found);
}

TEST(UnseenFamilies, OfClosedLoopsSendTheNextCallOnceTheLastIsAnswered) {
  UnseenWorkload workload{.base = backlog(catalogue())};
  workload.base.arrivals.clear();
  workload.base.length_s = 100;
  workload.clients = {{.function = 0, .first_s = 0, .think_s = 9}};
  const UnseenFigures figures = run_unseen(workload, system_named("fcfs-pool"), {});
  // A run takes about a second, so a call comes every ten.
  EXPECT_NEAR(10, static_cast<double>(figures.invocations), 1);
  EXPECT_EQ(0u, figures.failed);
}

TEST(UnseenFamilies, OfHeavyTailsRunForAsLongAsWasDrawn) {
  UnseenWorkload workload{.base = backlog(catalogue())};
  workload.base.arrivals.resize(2);
  workload.base.arrivals[1].at = seconds(50);
  workload.takes_s = {1, 20};
  const UnseenFigures figures = run_unseen(workload, system_named("fcfs-pool"), {});
  EXPECT_GE(figures.p99_s, 20);
  EXPECT_LT(figures.p50_s, 25);
  EXPECT_EQ(2u, figures.invocations);
}

TEST(OtherOrders, ServeTheShortestFirstOrShareTheDevice) {
  // All of a long function's calls are there before those of a short one.
  UnseenWorkload workload{.base = backlog(catalogue())};
  workload.base.entries[1].gpu_warm_s = 0.1;
  const auto of = [&](const char* system) {
    return run_unseen(workload, system_named(system), {.site = {.tokens = 1}});
  };
  EXPECT_LT(of("sjf-pool").mean_s, 0.8 * of("fcfs-pool").mean_s);
  EXPECT_LT(of("eevdf-pool").mean_s, 0.8 * of("fcfs-pool").mean_s);
  EXPECT_LT(of("eevdf-pool").worst_slowdown, of("fcfs-pool").worst_slowdown);
  EXPECT_EQ(nullptr, make_other_order("none"));
}

// A folder of traces that somebody brought.
class OwnTraces : public testing::Test {
 protected:
  OwnTraces() { std::filesystem::create_directories(folder_ + "/own"); }
  ~OwnTraces() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/own/" + name) << text;
  }
  const std::string folder_ = testing::TempDir() + "own_traces";
};

TEST_F(OwnTraces, are_judged_as_they_are_with_the_entries_that_they_name) {
  write("mine-0.5.csv", "t_ms,func\n500,a\n1500,b\n");
  write("mine-0.5_functions.csv", "func,gpu_function\na,FFT\nb,Lud\n");
  const auto traces = open_own_traces(folder_, catalogue());
  ASSERT_TRUE(traces.ok()) << traces.error().message;
  ASSERT_EQ(1u, traces->size());
  const Workload& mine = traces->front();
  EXPECT_EQ("mine-0.5", mine.name);
  EXPECT_EQ(Use::kJudged, mine.use);
  EXPECT_EQ(2, mine.length_s);
  EXPECT_EQ(2u, mine.arrivals.size());
  // Of two seconds FFT's 0.897 s and Lud's 2.050 s.
  EXPECT_DOUBLE_EQ((0.897 + 2.050) / 2, mine.load());
}

TEST_F(OwnTraces, that_name_no_entry_of_the_catalogue_are_an_error) {
  write("mine.csv", "t_ms,func\n500,a\n");
  write("mine_functions.csv", "func,gpu_function\na,Nothing\n");
  EXPECT_FALSE(open_own_traces(folder_, catalogue()).ok());
}

TEST_F(OwnTraces, without_invocations_are_an_error) {
  write("mine.csv", "t_ms,func\n");
  EXPECT_FALSE(open_own_traces(folder_, catalogue()).ok());
}

TEST_F(OwnTraces, are_none_where_there_is_no_such_folder) {
  const auto traces = open_own_traces(folder_ + "/elsewhere", catalogue());
  ASSERT_TRUE(traces.ok());
  EXPECT_TRUE(traces->empty());
}

}  // namespace
}  // namespace lambent::paper_mqfq
