#include "bench/paper_streambox/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "bench/paper_streambox/experiments.h"

namespace lambent::paper_streambox {
namespace {

std::vector<double> every(double seconds, size_t count) {
  std::vector<double> moments;
  for (size_t each = 0; each < count; ++each)
    moments.push_back(seconds * static_cast<double>(each));
  return moments;
}

class ClusterModel : public testing::Test {
 protected:
  ClusterResult run(ClusterSetup setup, const std::vector<double>& moments) {
    return run(setup, moments, workflow_);
  }
  ClusterResult run(const ClusterSetup& setup, const std::vector<double>& moments,
                    const Workflow& workflow) {
    const auto arrivals = draw_arrivals(constants_, setup.node.tenants, moments, 3);
    return *run_cluster(constants_, models_, workflow, setup, arrivals, 60);
  }

  const Constants constants_;
  const Models models_ = make_models(constants_);
  const Workflow& workflow_ = workflows()[2];
};

TEST_F(ClusterModel, OneNodeIsTheNodeByItself) {
  for (const System system : kSystems) {
    const auto moments = every(0.05, 400);
    const RunResult alone =
        run_once(constants_, models_, workflow_, best_setup(system), moments, 60, 3);
    const ClusterResult one = run({.node = best_setup(system), .nodes = 1}, moments);
    EXPECT_EQ(one.requests, alone.requests) << name_of(system);
    EXPECT_EQ(one.in_time, alone.in_time) << name_of(system);
    EXPECT_NEAR(one.mean_s, alone.mean_s, 1e-9) << name_of(system);
    EXPECT_NEAR(one.memory_bytes, alone.memory_bytes, 1) << name_of(system);
    EXPECT_EQ(one.forwarded, 0) << name_of(system);
  }
}

TEST_F(ClusterModel, EachRequestRunsOnceUnderEachPolicy) {
  for (const std::string_view policy : routing::policy_names()) {
    const ClusterResult four =
        run({.node = best_setup(System::kStreamBox), .nodes = 4, .policy = std::string(policy)},
            every(0.01, 1000));
    EXPECT_EQ(four.requests, 1000u) << policy;
    EXPECT_EQ(four.latencies_s.size(), 1000u) << policy;
    EXPECT_EQ(std::accumulate(four.by_node.begin(), four.by_node.end(), uint64_t{0}), 1000u);
  }
}

TEST_F(ClusterModel, MoreThanANodeCanDoInTimeIsDoneBySeveral) {
  ClusterSetup setup{.node = best_setup(System::kStreamBox), .nodes = 1};
  setup.node.drop_late = true;
  // So long that starts count little: a node does some 140 of these a second in time.
  const auto moments = every(0.004, 10'000);
  const ClusterResult one = run(setup, moments, workflows()[0]);
  setup.nodes = 4;
  const ClusterResult four = run(setup, moments, workflows()[0]);
  EXPECT_GT(one.in_time, 0u);
  EXPECT_GT(four.in_time, 2 * one.in_time);
  EXPECT_GT(*std::ranges::min_element(four.by_node), 0u);
}

// A minute of more image requests than eight nodes can answer in time. Each node knows how the
// others were a second ago, ten times as long as a request takes.
TEST_F(ClusterModel, TheDefaultAnswersAsManyInTimeAsChanceWhereAllNodesAreBusy) {
  ClusterSetup setup{.node = best_setup(System::kStreamBox), .nodes = 8};
  setup.node.drop_late = true;
  const auto moments = every(0.0007, 80'000);
  const ClusterResult ours = run(setup, moments, workflows()[0]);
  for (const std::string_view other : {"random", "two-choices", "least-loaded"}) {
    setup.policy = other;
    const ClusterResult theirs = run(setup, moments, workflows()[0]);
    EXPECT_GE(static_cast<double>(ours.in_time), 0.98 * static_cast<double>(theirs.in_time))
        << other;
  }
  for (const uint64_t requests : ours.by_node) {
    EXPECT_GT(requests, ours.requests / 8 * 8 / 10);
    EXPECT_LT(requests, ours.requests / 8 * 12 / 10);
  }
}

TEST_F(ClusterModel, AMistakeIsNamed) {
  EXPECT_FALSE(run_cluster(constants_, models_, workflow_, {.nodes = 0}, {}, 1).ok());
  EXPECT_FALSE(run_cluster(constants_, models_, workflow_, {.nodes = 2, .entries = 3}, {}, 1).ok());
  EXPECT_FALSE(run_cluster(constants_, models_, workflow_, {.policy = "best"}, {}, 1).ok());
}

}  // namespace
}  // namespace lambent::paper_streambox
