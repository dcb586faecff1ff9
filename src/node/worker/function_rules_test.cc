#include "node/worker/function_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lambent::worker {
namespace {

using testing::HasSubstr;

FunctionRules one_gpu() {
  FunctionRules rules;
  rules.device_memory = Bytes::mib(1000);
  rules.context_memory = Bytes::mib(100);
  rules.longest_gpu_run = seconds(60);
  return rules;
}

FunctionSpec function(FunctionKind kind, Bytes memory = Bytes(0)) {
  FunctionSpec spec;
  spec.name = {kDefaultTenant, "f"};
  spec.handler = "app.handler";
  spec.runtime = Runtime::kPython;
  spec.kind = kind;
  spec.gpu.memory = memory;
  spec.timeout = seconds(3);
  return spec;
}

void expect_refused(const FunctionSpec& spec, const FunctionRules& rules, ErrorCode code,
                    const std::string& words) {
  const auto checked = check_function(spec, rules);
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().code, code);
  EXPECT_THAT(checked.error().message, HasSubstr(words));
}

TEST(FunctionRules, AFunctionHasWhatTheContextLeavesOfTheLargestDevice) {
  EXPECT_TRUE(check_function(function(FunctionKind::kHandler, Bytes::mib(900)), one_gpu()).ok());
  expect_refused(function(FunctionKind::kHandler, Bytes::mib(901)), one_gpu(),
                 ErrorCode::kInvalidArgument, "the largest GPU here has 900 MiB");
}

TEST(FunctionRules, OneThatTakesSeveralGpusNeedsAsManyThatAreLargeEnough) {
  FunctionRules rules = one_gpu();
  rules.devices = {Bytes::mib(1000), Bytes::mib(500), Bytes::mib(1000)};
  FunctionSpec spec = function(FunctionKind::kHandler, Bytes::mib(900));
  spec.gpu.count = 2;
  EXPECT_TRUE(check_function(spec, rules).ok());
  spec.gpu.count = 3;
  expect_refused(spec, rules, ErrorCode::kInvalidArgument, "this worker has 2 GPUs with 900 MiB");
  spec.gpu.memory = Bytes::mib(400);
  EXPECT_TRUE(check_function(spec, rules).ok());
  EXPECT_EQ(profile_of(spec, 1, Bytes::mib(100), nullptr).gpu_count, 3U);
  EXPECT_TRUE(profile_of(spec, 1, Bytes::mib(100), nullptr).memory_moves);
  rules.no_gangs = "it has slices";
  expect_refused(spec, rules, ErrorCode::kFailedPrecondition, "gpu.count is 3, but it has slices");
}

TEST(FunctionRules, WhatIsTooLargeForThisNodeIsGoodWhereAnotherHasTheGpus) {
  FunctionRules rules = one_gpu();
  rules.devices = {Bytes::mib(1000)};
  OtherNodes others{.gpus = {{}, {Bytes::mib(2000), Bytes::mib(2000)}}};
  FunctionSpec spec = function(FunctionKind::kHandler, Bytes::mib(2000));
  spec.gpu.count = 2;
  EXPECT_TRUE(check_function(spec, rules, others).ok());
  EXPECT_FALSE(could_run_here(spec, rules));
  EXPECT_EQ(others.most(), Bytes::mib(2000));
  // What no node has, is refused with words of this one and of the others.
  spec.gpu.count = 3;
  auto refused = check_function(spec, rules, others);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("no other node of the cluster has what it takes"));
  spec = function(FunctionKind::kHandler, Bytes::mib(2001));
  refused = check_function(spec, rules, others);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("the largest GPU here has 900 MiB"));
  EXPECT_THAT(refused.error().message, HasSubstr("no other node of the cluster"));
  // A copy was judged by the node that took it.
  others.judged = true;
  EXPECT_TRUE(check_function(spec, rules, others).ok());
  EXPECT_TRUE(could_run_here(function(FunctionKind::kHandler, Bytes::mib(900)), rules));
}

TEST(FunctionRules, WhatGpusHaveForFunctionsIsWithoutTheirContexts) {
  FunctionRules rules = one_gpu();
  rules.devices = {Bytes::mib(1000), Bytes::mib(50)};
  ClusterGpus gpus(rules);
  EXPECT_EQ(gpus.own(), (std::vector{Bytes::mib(900), Bytes(0)}));
  EXPECT_TRUE(gpus.others().gpus.empty());
  gpus.regard_others([] { return OtherNodes{.gpus = {{Bytes::gib(1)}}}; });
  EXPECT_TRUE(gpus.others().could_run(Bytes::gib(1), 1));
  EXPECT_FALSE(gpus.others().could_run(Bytes::gib(2), 1));
}

TEST(FunctionRules, ANodeWithoutAGpuTakesFunctionsOfOthers) {
  FunctionRules rules;
  rules.longest_gpu_run = seconds(60);
  FunctionSpec spec = function(FunctionKind::kHandler, Bytes::mib(100));
  EXPECT_TRUE(check_function(spec, rules, {.gpus = {{Bytes::mib(100)}}}).ok());
  EXPECT_FALSE(check_function(spec, rules, {.gpus = {{}}}).ok());
  // Its own bounds hold all the same.
  spec.timeout = seconds(61);
  EXPECT_FALSE(check_function(spec, rules, {.gpus = {{Bytes::mib(100)}}}).ok());
}

TEST(FunctionRules, AKernelFunctionLeavesTheWorkspaceOfCublas) {
  FunctionRules rules = one_gpu();
  EXPECT_EQ(most_device_memory(FunctionKind::kKernel, rules), Bytes::mib(900));
  rules.call_workspace = Bytes::mib(4);
  EXPECT_EQ(most_device_memory(FunctionKind::kKernel, rules), Bytes::mib(896));
  EXPECT_EQ(most_device_memory(FunctionKind::kHandler, rules), Bytes::mib(900));
}

TEST(FunctionRules, AWorkerWithoutAGpuSaysHowToGetOne) {
  FunctionRules rules;
  const FunctionSpec spec = function(FunctionKind::kHandler, Bytes::mib(1));
  expect_refused(spec, rules, ErrorCode::kFailedPrecondition, "--gpu");
  rules.has_slices = true;
  expect_refused(spec, rules, ErrorCode::kFailedPrecondition, "--pipeline-slices");
  EXPECT_TRUE(check_function(function(FunctionKind::kHandler), rules).ok());
}

TEST(FunctionRules, TheHostServesAFunctionWithACpuVariantWhereItMay) {
  FunctionRules rules;
  rules.longest_gpu_run = seconds(60);
  FunctionSpec spec = function(FunctionKind::kHandler, Bytes::mib(5000));
  spec.cpu_variant.emplace();
  spec.cpu_variant->handler = "app.on_cpu";
  EXPECT_FALSE(check_function(spec, rules).ok());
  rules.host_overflow = true;
  EXPECT_TRUE(check_function(spec, rules).ok());
}

TEST(FunctionRules, OnlyAFunctionThatTakesTurnsOnAGpuHasTheShorterTimeout) {
  FunctionSpec spec = function(FunctionKind::kHandler);
  spec.timeout = seconds(61);
  EXPECT_TRUE(check_function(spec, one_gpu()).ok());
  spec.gpu.memory = Bytes::mib(1);
  expect_refused(spec, one_gpu(), ErrorCode::kInvalidArgument, "61 s");
  EXPECT_FALSE(takes_turns_on_a_gpu(function(FunctionKind::kPipeline, Bytes::mib(1))));
  EXPECT_TRUE(takes_turns_on_a_gpu(function(FunctionKind::kKernel)));
}

TEST(FunctionRules, ASharedRuntimeNeedsItsDriver) {
  FunctionRules rules = one_gpu();
  FunctionSpec spec = function(FunctionKind::kHandler, Bytes::mib(1));
  spec.gpu.runtime = GpuRuntime::kShared;
  expect_refused(spec, rules, ErrorCode::kUnimplemented, "lib/forward");
  rules.shared_runtimes = true;
  EXPECT_TRUE(check_function(spec, rules).ok());
}

TEST(FunctionRules, APipelineHasNeitherAShareNorAWeight) {
  FunctionSpec spec = function(FunctionKind::kPipeline, Bytes::mib(1));
  EXPECT_TRUE(check_function(spec, one_gpu()).ok());
  spec.weight = 2;
  expect_refused(spec, one_gpu(), ErrorCode::kInvalidArgument, "weight");
  spec.weight = 1;
  spec.gpu.share = 50;
  expect_refused(spec, one_gpu(), ErrorCode::kInvalidArgument, "no share");
}

TEST(FunctionRules, TheContextCountsForAFunctionThatHasItsOwn) {
  const auto memory_of = [](const FunctionSpec& spec) {
    return profile_of(spec, 1, Bytes::mib(100), nullptr).device_memory;
  };
  FunctionSpec spec = function(FunctionKind::kHandler, Bytes::mib(10));
  EXPECT_EQ(memory_of(spec), Bytes::mib(110));
  EXPECT_TRUE(profile_of(spec, 1, Bytes(0), nullptr).memory_moves);
  spec.gpu.runtime = GpuRuntime::kShared;
  EXPECT_EQ(memory_of(spec), Bytes::mib(10));
  EXPECT_FALSE(profile_of(spec, 1, Bytes(0), nullptr).memory_moves);
  EXPECT_EQ(memory_of(function(FunctionKind::kHandler)), Bytes(0));
  EXPECT_EQ(memory_of(function(FunctionKind::kKernel, Bytes::mib(10))), Bytes::mib(10));
}

TEST(FunctionRules, WhatWasLearntBeforeIsInTheProfile) {
  catalog::FunctionStatistics learnt;
  learnt.mean_execution = milliseconds(7);
  learnt.executions = 42;
  learnt.mean_cold_start = seconds(2);
  learnt.cold_starts = 6;
  learnt.host_cold_starts = 4;
  const auto profile = profile_of(function(FunctionKind::kHandler), 5, Bytes(0), &learnt);
  EXPECT_EQ(profile.mean_execution, milliseconds(7));
  EXPECT_EQ(profile.completed, 42u);
  EXPECT_EQ(profile.mean_cold_start, seconds(2));
  EXPECT_EQ(profile.cold_starts, 6u);
  EXPECT_EQ(profile.host_cold_starts, 4u);
  EXPECT_EQ(profile.revision, 5u);
}

}  // namespace
}  // namespace lambent::worker
