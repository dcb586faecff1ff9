#include "node/cluster/other_members.h"

#include <gtest/gtest.h>

namespace lambent::cluster {
namespace {

const FunctionName kFunction{kDefaultTenant, "f"};

// Node a of a, b and c.
class OtherMembersTest : public ::testing::Test {
 protected:
  OtherMembersTest() {
    ClusterTold told{.source = "file"};
    for (const std::string name : {"a", "b", "c"}) {
      told.members.push_back({.node = name, .address = "http://" + name + ":1"});
    }
    EXPECT_TRUE(table_.tell(told, Instant()).ok());
    table_.set_own_report(report("a"));
  }

  static NodeReport report(const std::string& node, Bytes gpu = Bytes()) {
    NodeReport report{.node = node, .version = "1"};
    report.pipelines.emplace();
    report.for_functions.emplace();
    if (gpu > Bytes()) report.for_functions->push_back(gpu);
    return report;
  }
  NodeReport serving(const std::string& node) {
    NodeReport said = report(node);
    said.pipelines->push_back(hash_of("team", kFunction));
    return said;
  }
  std::optional<std::string> taker() { return others_.taker_of("team", kFunction); }

  MemberTable table_{"a"};
  std::optional<NodeFacts::Known> known_ = NodeFacts::Known{.record = kFunction};
  NodeFacts facts_{
      .report = {}, .load = {}, .find = [this](const FunctionName&) { return known_; }};
  SeededRandom random_{1};
  OtherMembers others_{table_, facts_, random_, nullptr};
};

TEST_F(OtherMembersTest, AreNamedWithWhatTheySaidLast) {
  NodeReport said = report("b", Bytes::gib(16));
  said.slices = {{"1g", 14, Bytes::gib(10)}};
  said.tenants = {{.tenant = "team"}};
  table_.reported("b", said);
  table_.unreachable("c");
  const auto all = others_.all();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].node, "b");
  ASSERT_NE(all[0].tenants, nullptr);
  EXPECT_EQ(all[0].tenants->size(), 1U);
  EXPECT_EQ(all[1].tenants, nullptr);
  EXPECT_TRUE(all[1].is_lost);
  EXPECT_EQ(others_.way_to(all[1]).host, "c");
  const auto hardware = others_.hardware();
  EXPECT_EQ(hardware[0].gpus, std::vector{Bytes::gib(16)});
  EXPECT_EQ(hardware[0].slices, said.slices);
  EXPECT_FALSE(hardware[1].gpus);
}

TEST_F(OtherMembersTest, WhatThisNodeCanRunItTakes) {
  EXPECT_EQ(taker(), "a");
  known_.reset();
  EXPECT_EQ(taker(), "a") << "it says that there is no such function";
}

TEST_F(OtherMembersTest, AFunctionWithGpusIsTakenByOneThatHasThemOrWaitsForIt) {
  known_->needs = {.memory = Bytes::gib(8), .gpus = 1};
  EXPECT_EQ(taker(), std::nullopt) << "nothing was heard of the others";
  table_.reported("b", report("b"));
  table_.reported("c", report("c", Bytes::gib(16)));
  EXPECT_EQ(taker(), "c");
  NodeReport lost_gpu = report("c", Bytes::gib(16));
  lost_gpu.lost_for_functions = {Bytes::gib(16)};
  table_.reported("c", lost_gpu);
  EXPECT_EQ(taker(), std::nullopt) << "until its GPU is back";
  table_.unreachable("c");
  EXPECT_EQ(taker(), std::nullopt);
  table_.reported("c", report("c"));
  EXPECT_EQ(taker(), "a") << "no node could run it";
}

TEST_F(OtherMembersTest, APipelineIsTakenByOneWhoseSlicesAreThere) {
  known_->is_pipeline = true;
  table_.reported("b", report("b"));
  table_.reported("c", serving("c"));
  EXPECT_EQ(taker(), "c");
  NodeReport lost_slice = report("c");
  lost_slice.pipelines_later = {hash_of("team", kFunction)};
  table_.reported("c", lost_slice);
  EXPECT_EQ(taker(), std::nullopt);
  table_.reported("b", serving("b"));
  EXPECT_EQ(taker(), "b");
}

}  // namespace
}  // namespace lambent::cluster
