#include "node/cluster/node_report.h"

#include <gtest/gtest.h>

namespace lambent::cluster {
namespace {

using routing::Warmth;

TEST(NodeReportTest, WhatIsWrittenIsReadBack) {
  const NodeReport report{.node = "a",
                          .version = "0.1.0",
                          .life = "f00d",
                          .takes_work = false,
                          .silence = seconds(90),
                          .shares_objects = true,
                          .shares_versions = true,
                          .tells_not_begun = true,
                          .slots = 16,
                          .load = 3,
                          .memory_free = Bytes::gib(7),
                          .gpus = {{"T4", Bytes::gib(16)}},
                          .for_functions = std::vector{Bytes::gib(15)},
                          .lost_for_functions = {Bytes::gib(15)},
                          .slices = {{"2g.20gb", 28, Bytes::gib(20)}},
                          .pipelines = std::vector<uint64_t>{2, 8},
                          .pipelines_later = {3, 4},
                          .warm = {{5, Warmth::kSwappedOut}, {UINT64_MAX, Warmth::kResident}},
                          .fetched = {4, 7},
                          .absent = {3, 9},
                          .revoked = {"LAMB1"},
                          .tenants = {{.tenant = "team",
                                       .running = {1, 2},
                                       .gpu_memory = {3, 4},
                                       .host_memory = {5, 6},
                                       .requests = {7, 8},
                                       .gpu_time_in_hour = seconds(9),
                                       .objects = Bytes(10)}}};
  const auto read = parse_report(to_json(report));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->node, "a");
  EXPECT_EQ(read->version, "0.1.0");
  EXPECT_EQ(read->life, "f00d");
  EXPECT_FALSE(read->takes_work);
  EXPECT_EQ(read->silence, seconds(90));
  EXPECT_TRUE(read->shares_objects);
  EXPECT_TRUE(read->shares_versions);
  EXPECT_TRUE(read->tells_not_begun);
  EXPECT_EQ(read->tenants, report.tenants);
  EXPECT_EQ(read->slots, 16U);
  EXPECT_EQ(read->load, 3U);
  EXPECT_EQ(read->memory_free, Bytes::gib(7));
  EXPECT_EQ(read->gpus, report.gpus);
  EXPECT_EQ(read->for_functions, report.for_functions);
  EXPECT_EQ(read->lost_for_functions, report.lost_for_functions);
  EXPECT_EQ(read->slices, report.slices);
  EXPECT_EQ(read->pipelines, report.pipelines);
  EXPECT_EQ(read->pipelines_later, report.pipelines_later);
  EXPECT_EQ(read->warm, report.warm);
  EXPECT_EQ(read->fetched, report.fetched);
  EXPECT_EQ(read->absent, report.absent);
  EXPECT_EQ(read->revoked, report.revoked);
}

TEST(NodeReportTest, FunctionsFindWhatANodeSaysOrElseItsGpus) {
  NodeReport report{.node = "a", .gpus = {{"T4", Bytes::gib(16)}}};  // of a program before
  EXPECT_EQ(parse_report(to_json(report))->gpus_for_functions(), std::vector{Bytes::gib(16)});
  // All of its GPUs are kept for pipelines.
  report.for_functions.emplace();
  EXPECT_TRUE(parse_report(to_json(report))->gpus_for_functions().empty());
  report.for_functions = std::vector{Bytes(777)};
  const std::string text = to_json(report);
  for (const std::string wrong : {"-777", "7.5", "\"777\"", "18446744073709551615"}) {
    std::string changed = text;
    changed.replace(changed.find("777"), 3, wrong);
    EXPECT_FALSE(parse_report(changed).ok()) << wrong;
  }
}

TEST(NodeReportTest, GpusThatWereLostAreNotAtWork) {
  const Bytes small = Bytes::gib(8);
  const Bytes large = Bytes::gib(16);
  NodeReport report{.node = "a", .for_functions = std::vector{small, large, small}};
  EXPECT_EQ(report.gpus_at_work(), report.for_functions);
  report.lost_for_functions = {small, large, large};
  EXPECT_EQ(report.gpus_at_work(), std::vector{small}) << "one that it does not have is none";
  EXPECT_EQ(report.gpus_for_functions(), report.for_functions);
  report.lost_for_functions = {Bytes(777)};
  std::string text = to_json(report);
  EXPECT_FALSE(parse_report(text.replace(text.find("777"), 3, "-77")).ok());
}

TEST(NodeReportTest, SlicesThatCanNotBeAreNoReport) {
  const NodeReport report{
      .node = "a", .slices = {{"1g", 777, Bytes(888)}}, .pipelines = std::vector<uint64_t>{999}};
  const std::string text = to_json(report);
  for (const std::string number : {"777", "888", "999"}) {
    for (const std::string wrong : {"-777", "7.5", "\"777\"", "null"}) {
      std::string changed = text;
      changed.replace(changed.find(number), 3, wrong);
      EXPECT_FALSE(parse_report(changed).ok()) << number << " as " << wrong;
    }
  }
}

TEST(NodeReportTest, WhatNoTenantCanUseIsNoReport) {
  const NodeReport report{.node = "a", .tenants = {{.tenant = "team", .objects = Bytes(777)}}};
  const std::string text = to_json(report);
  for (const std::string wrong : {"-777", "7.5", "\"777\"", "9223372036854775808"}) {
    std::string changed = text;
    changed.replace(changed.find("777"), 3, wrong);
    EXPECT_FALSE(parse_report(changed).ok()) << wrong;
  }
}

TEST(NodeReportTest, WhatRanLatelyIsTheLeastThatANodeHasAndIsBounded) {
  NodeReport report{.warm = {{5, Warmth::kSwappedOut}}, .fetched = {4, 5}};
  EXPECT_EQ(report.warmth(4), Warmth::kFetched);
  EXPECT_EQ(report.warmth(5), Warmth::kSwappedOut);
  EXPECT_EQ(report.warmth(6), Warmth::kNone);
  report.fetched.assign(kMostFetched + 1, 7);
  EXPECT_EQ(parse_report(to_json(report))->fetched.size(), kMostFetched);
}

TEST(NodeReportTest, WhoseFilesAreNotThereIsLessThanNothingUnlessItIsWarm) {
  NodeReport report{.warm = {{5, Warmth::kSwappedOut}}, .fetched = {4}, .absent = {4, 5, 6}};
  EXPECT_EQ(report.warmth(4), Warmth::kAbsent);
  EXPECT_EQ(report.warmth(5), Warmth::kSwappedOut);
  EXPECT_EQ(report.warmth(6), Warmth::kAbsent);
  EXPECT_EQ(report.warmth(7), Warmth::kNone);
  report.absent.assign(kMostFetched + 1, 7);
  EXPECT_EQ(parse_report(to_json(report))->absent.size(), kMostFetched);
}

TEST(NodeReportTest, OfSeveralSandboxesTheBestCounts) {
  const NodeReport report{
      .warm = {{5, Warmth::kSwappedOut}, {5, Warmth::kResident}, {9, Warmth::kSwappedOut}}};
  EXPECT_EQ(report.warmth(5), Warmth::kResident);
  EXPECT_EQ(report.warmth(9), Warmth::kSwappedOut);
  EXPECT_EQ(report.warmth(4), Warmth::kNone);
  EXPECT_EQ(report.warmth(UINT64_MAX), Warmth::kNone);
}

TEST(NodeReportTest, AnOlderProgramSaysNothingOfObjectsAndAYoungerOneMaySayMore) {
  std::string text = to_json({.node = "a", .shares_objects = true, .tells_not_begun = true});
  text.replace(text.find("shares_objects"), 14, "shares_dreams!");
  text.replace(text.find("tells_not_begun"), 15, "tells_of_dreams");
  text.replace(text.find("fetched"), 7, "pleased");
  text.replace(text.find("revoked"), 7, "rewoken");
  const auto read = parse_report(text);
  ASSERT_TRUE(read.ok());
  EXPECT_FALSE(read->shares_objects);
  EXPECT_FALSE(read->tells_not_begun);
}

TEST(NodeReportTest, WhatCannotBeReadStillSaysOfWhichProgramItIs) {
  EXPECT_EQ(version_in_report(R"({"version": "9.1.0", "slots": "many"})"), "9.1.0");
  EXPECT_EQ(version_in_report(R"({"version": 9})"), "");
  EXPECT_EQ(version_in_report("what"), "");
}

TEST(NodeReportTest, WhatIsNoReportIsRefused) {
  const std::string good = to_json({.node = "a"});
  ASSERT_TRUE(parse_report(good).ok());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return parse_report(text.replace(at, from.size(), to)).ok();
  };
  EXPECT_FALSE(parse_report("").ok());
  EXPECT_FALSE(parse_report("[]").ok());
  EXPECT_FALSE(with("\"slots\":1", "\"slots\":0"));
  EXPECT_FALSE(with("\"slots\":1", "\"slots\":-1"));
  EXPECT_FALSE(with("\"slots\":1", "\"slots\":99999999"));
  EXPECT_FALSE(with("\"load\":0", "\"load\":1.5"));
  EXPECT_FALSE(with("\"load\":0", "\"load\":5000000000"));
  EXPECT_FALSE(with("\"warm\":[]", "\"warm\":[[1]]"));
  EXPECT_FALSE(with("\"warm\":[]", "\"warm\":{}"));
  EXPECT_FALSE(with("\"fetched\":[]", "\"fetched\":[-1]"));
  EXPECT_FALSE(with("\"fetched\":[]", "\"fetched\":{}"));
  EXPECT_FALSE(with("\"revoked\":[]", "\"revoked\":[1]"));
  EXPECT_FALSE(with("\"revoked\":[]", "\"revoked\":[\"" + std::string(65, 'x') + "\"]"));
  EXPECT_FALSE(with("\"gpus\":[]", "\"gpus\":[{}]"));
  EXPECT_FALSE(with("\"takes_work\":true", "\"takes_work\":1"));
}

TEST(NodeReportTest, ANodeThatReportsMoreFreeMemoryThanItsGpusHaveIsNotBelieved) {
  NodeReport report{.node = "a", .memory_free = Bytes::gib(16), .gpus = {{"T4", Bytes::gib(16)}}};
  EXPECT_TRUE(parse_report(to_json(report)).ok());
  report.memory_free = Bytes::gib(17);
  const auto refused = parse_report(to_json(report));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("free GPU memory"), std::string::npos);
}

TEST(NodeReportTest, ANodeThatReportsMoreForAFunctionThanItsGpusHaveIsNotBelieved) {
  const Bytes size = Bytes::gib(16);
  NodeReport report{
      .node = "a", .gpus = {{"T4", size}, {"T4", size}}, .for_functions = std::vector{size}};
  EXPECT_TRUE(parse_report(to_json(report)).ok());
  report.for_functions = std::vector{size, size + Bytes(1)};
  const auto larger = parse_report(to_json(report));
  ASSERT_FALSE(larger.ok());
  EXPECT_NE(larger.error().message.find("the largest has 16 GiB"), std::string::npos);
  report.for_functions = std::vector{size, size, size};
  const auto more = parse_report(to_json(report));
  ASSERT_FALSE(more.ok());
  EXPECT_NE(more.error().message.find("3 GPUs for functions, and has 2"), std::string::npos);
}

}  // namespace
}  // namespace lambent::cluster
