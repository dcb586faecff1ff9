#include "sim/cluster_simulator/cluster_run.h"

#include <gtest/gtest.h>

namespace lambent::cluster_simulator {
namespace {

const std::vector<FunctionModel> kFunctions(40, {.run = seconds(1),
                                                 .start = seconds(9),
                                                 .memory = Bytes::gib(1)});

std::vector<workload::Arrival> one_each(Duration apart, uint32_t rounds) {
  std::vector<workload::Arrival> arrivals;
  for (uint32_t each = 0; each < rounds * kFunctions.size(); ++each) {
    arrivals.push_back({apart * each, static_cast<uint32_t>(each % kFunctions.size())});
  }
  return arrivals;
}

ClusterFigures run(const ClusterOptions& options, std::vector<workload::Arrival> arrivals) {
  const auto source = workload::source_of(std::move(arrivals));
  return *run_cluster(options, kFunctions, *source);
}

TEST(ClusterRunTest, EachInvocationEndsOnce) {
  for (const std::string_view policy : routing::policy_names()) {
    EXPECT_EQ(run({.nodes = 5, .policy = std::string(policy)}, one_each(milliseconds(10), 20))
                  .invocations,
              800U);
  }
}

TEST(ClusterRunTest, OneNodeForwardsNothingAndTakesWhatItsModelSays) {
  const auto figures = run({.nodes = 1}, one_each(seconds(20), 10));
  EXPECT_EQ(figures.forwarded, 0);
  // Each function starts once, and all of them fit.
  EXPECT_DOUBLE_EQ(figures.cold, 0.1);
  EXPECT_DOUBLE_EQ(figures.mean_s, 1 + 0.1 * 9);
}

TEST(ClusterRunTest, FunctionsThatKeepTheirNodesStartOnce) {
  const auto sticky = run({.nodes = 8}, one_each(seconds(20), 20));
  const auto drawn = run({.nodes = 8, .policy = "random"}, one_each(seconds(20), 20));
  EXPECT_DOUBLE_EQ(sticky.cold, 0.05);
  EXPECT_GT(drawn.cold, 5 * sticky.cold);
  EXPECT_NEAR(sticky.forwarded, 7.0 / 8, 0.05);
}

TEST(ClusterRunTest, TheSameSeedGivesTheSame) {
  const ClusterOptions options{.nodes = 8, .policy = "two-choices", .seed = 9};
  EXPECT_EQ(run(options, one_each(milliseconds(20), 20)).mean_s,
            run(options, one_each(milliseconds(20), 20)).mean_s);
}

TEST(ModelledNodeTest, IdleMemoryMovesToTheHostAndThenEnds) {
  const NodeModel model{.gpus = 1, .gpu_memory = Bytes::gib(1), .host_memory = Bytes::gib(1)};
  ModelledNode node(model, kFunctions);
  const auto serve = [&](uint32_t function) {
    node.submit(0, function);
    const auto begun = node.begin();
    node.end(function);
    return begun->start;
  };
  EXPECT_EQ(serve(0), Start::kCold);
  EXPECT_EQ(serve(0), Start::kWarm);
  EXPECT_EQ(serve(1), Start::kCold);
  EXPECT_EQ(node.warmth(0), routing::Warmth::kSwappedOut);
  EXPECT_EQ(serve(0), Start::kSwapIn);
  EXPECT_EQ(serve(2), Start::kCold);
  EXPECT_EQ(serve(3), Start::kCold);
  EXPECT_EQ(node.warmth(0), routing::Warmth::kNone);
}

TEST(ModelledNodeTest, FilesThatWereReadLatelyAreNotReadAgain) {
  std::vector<FunctionModel> functions = kFunctions;
  for (FunctionModel& each : functions) {
    each.fetch = seconds(4);
    each.files = Bytes::gib(1);
  }
  // Room for one sandbox, and for the files of two functions.
  const NodeModel model{
      .gpus = 1, .gpu_memory = Bytes::gib(1), .host_memory = Bytes(), .page_cache = Bytes::gib(2)};
  ModelledNode node(model, functions);
  const auto takes = [&](uint32_t function) {
    node.submit(0, function);
    const auto begun = node.begin();
    node.end(function);
    return begun->takes;
  };
  EXPECT_EQ(takes(0), seconds(10));
  EXPECT_EQ(takes(1), seconds(10));
  EXPECT_EQ(node.warmth(0), routing::Warmth::kFetched);
  EXPECT_EQ(takes(0), seconds(6));
  EXPECT_EQ(takes(2), seconds(10));  // and the files of 1 go
  EXPECT_EQ(node.warmth(1), routing::Warmth::kNone);
  EXPECT_EQ(takes(1), seconds(10));
}

TEST(ClusterRunTest, AMistakeIsNamed) {
  const auto source = workload::source_of({});
  EXPECT_FALSE(run_cluster({.nodes = 0}, kFunctions, *source).ok());
  EXPECT_FALSE(run_cluster({.policy = "best"}, kFunctions, *source).ok());
  EXPECT_FALSE(run_cluster({}, {}, *source).ok());
}

}  // namespace
}  // namespace lambent::cluster_simulator
