// The published formats, by a few rows of each.
#include "sim/workload/known_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/workload/testing/trace_text.h"

namespace lambent::workload {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;

std::vector<std::string> names_of(const Trace& trace) {
  std::vector<std::string> names;
  for (const TraceFunction& function : trace.functions) names.push_back(function.name);
  return names;
}

TEST(KnownTables, ReadAzuresRequestsToLanguageModels) {
  auto trace = read(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
      "2023-11-16 18:17:03.9799600,4808,10\n"
      "2023-11-16 18:17:04.0319600,3180,8\n");
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  EXPECT_EQ(trace->format, "azure_llm");
  EXPECT_THAT(names_of(*trace), ElementsAre("t"));
  const auto arrivals = drain(*trace->arrivals);
  ASSERT_EQ(arrivals.size(), 2u);
  EXPECT_EQ(arrivals[1].at, milliseconds(52));
  EXPECT_THAT(arrivals[0].execution_s, FloatNear(0.4808F + 0.2F, 1e-6F));
  EXPECT_THAT(trace->assumptions,
              Contains(HasSubstr("input tokens / 10000 and its output tokens / 50")));

  // 2024 has a zone, 2025 images; and rates are the user's.
  auto later = read(
      "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n"
      "2024-05-10 00:00:00.009930+00:00,1,2162,5\n"
      "2024-05-10 00:00:01+00:00,0,100,6\n",
      {.token_rates = {.input_per_s = 1000, .output_per_s = 1}});
  ASSERT_TRUE(later.ok()) << later.error().message;
  EXPECT_THAT(later->assumptions, Contains(HasSubstr("NumImages is not used")));
  EXPECT_THAT(drain(*later->arrivals)[0].execution_s, FloatNear(7.162F, 1e-5F));
}

TEST(KnownTables, ReadBurstGptAndMooncake) {
  auto burst = read(
      "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
      "5,ChatGPT,472,18,490,Conversation log\n"
      "45,GPT-4,1087,230,1317,API log\n");
  ASSERT_TRUE(burst.ok()) << burst.error().message;
  EXPECT_THAT(names_of(*burst), ElementsAre("ChatGPT", "GPT-4"));
  EXPECT_EQ(times_of(*burst), (std::vector<double>{0, 40}));

  auto mooncake = read(
      "{\"timestamp\": 0, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": [0, 1]}\n"
      "{\"timestamp\": 3000, \"input_length\": 7322, \"output_length\": 490, \"hash_ids\": [0]}\n");
  ASSERT_TRUE(mooncake.ok()) << mooncake.error().message;
  EXPECT_EQ(mooncake->format, "mooncake");
  const auto arrivals = drain(*mooncake->arrivals);
  EXPECT_EQ(arrivals[1].at, seconds(3));
  EXPECT_THAT(arrivals[0].execution_s, FloatNear(10.6758F, 1e-4F));
}

TEST(KnownTables, ReadAlibabasPods) {
  auto trace = read(
      "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
      "deletion_time,scheduled_time\n"
      "openb-pod-0000,12000,16384,1,1000,,LS,Running,0,100,5\n"
      "openb-pod-0001,6000,12288,8,1000,V100M16|V100M32,BE,Failed,20,30,20\n"
      "openb-pod-0002,6000,12288,0,0,,LS,Running,25,40,26\n"
      "openb-pod-0003,6000,12288,1,460,,LS,Pending,26,40,\n");
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  EXPECT_THAT(names_of(*trace), ElementsAre("1-1000-12000-16384", "8-1000-6000-12288"));
  EXPECT_EQ(trace->functions[1].gpu_count, 8u);
  EXPECT_EQ(trace->functions[0].recorded_s, 95);
  EXPECT_THAT(drain(*trace->arrivals),
              ElementsAre(Arrival{Duration(0), 0, 95.0F}, Arrival{seconds(20), 1, 10.0F}));
  EXPECT_THAT(trace->assumptions, Contains("1 rows are left out, which ask for no GPU"));
  EXPECT_THAT(trace->assumptions, Contains("1 rows are left out, which were never scheduled"));
}

TEST(KnownTables, ReadAlibabasInstancesAndImages) {
  auto instances = read(
      "instance_sn,role,app_name,cpu_request,gpu_request,creation_time,scheduled_time,"
      "deletion_time\n"
      "instance_0,HN,app_0,12,1,,,\n"
      "instance_1,CN,app_1,64,0,10.0,10.0,20.0\n"
      "instance_2,HN,app_1,8,1,30.0,30.0,45.0\n"
      "instance_3,HN,app_0,8,1,NaN,NaN,45.0\n"
      "instance_4,HN,app_0,8,1,20.0,20.0,24.0\n");
  ASSERT_TRUE(instances.ok()) << instances.error().message;
  EXPECT_THAT(names_of(*instances), ElementsAre("app_1", "app_0"));
  EXPECT_THAT(drain(*instances->arrivals),
              ElementsAre(Arrival{Duration(0), 1, 4.0F}, Arrival{seconds(10), 0, 15.0F}));

  auto images = read(
      "gmt_create,predict_type,predict_status,exec_time_seconds,groupId,"
      "checkpoint_model_version_id,num_lora\n"
      "2024-11-15 16:57:50,TXT_2_IMG,SUCCEED,32.0,G0000,M0000,0\n"
      "2024-11-15 16:57:59,TXT_2_IMG,PENDING,0,G0000,M0001,0\n"
      "2024-11-15 16:58:00,TXT_2_IMG,FAILED,4.0,G0001,M0000,0\n");
  ASSERT_TRUE(images.ok()) << images.error().message;
  EXPECT_THAT(names_of(*images), ElementsAre("M0000"));
  EXPECT_EQ(times_of(*images), (std::vector<double>{0, 10}));
}

TEST(KnownTables, ReadHuaweisRequests) {
  auto trace = read(
      "time_worker,time_frontend,requestID,clusterName,funcName,podID,userID,totalCost_worker,"
      "workerCost,runtimeCost\n"
      "2600186.994,2600186.995,763f,1,296,pool22-300-128-0000618412,224,0.0237,0.0001,0.0236\n"
      "2600187.494,2600187.495,763e,1,296,pool22-300-128-0000618413,224,0.0237,0.0001,1.5\n");
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  EXPECT_THAT(names_of(*trace), ElementsAre("296---224---pool22-300-128"));
  const auto arrivals = drain(*trace->arrivals);
  EXPECT_EQ(arrivals[1].at, milliseconds(500));
  EXPECT_EQ(arrivals[1].execution_s, 1.5F);
}

TEST(KnownTables, SayWhatOfAReleaseHoldsInvocations) {
  EXPECT_THAT(wrong_with("timestamp_anon,value,container_ip\n1662859290.0,2639.0,0\n"),
              HasSubstr("lora_request_trace.csv"));
  EXPECT_THAT(
      wrong_with("sn,cpu_milli,memory_mib,gpu,model\nopenb-node-0000,64000,262144,2,P100\n"),
      HasSubstr("openb_pod_list_default.csv"));
  EXPECT_THAT(wrong_with("day,time,clusterName,funcName,userID,requestID,totalCost_cold_start\n"),
              HasSubstr("cold starts of Huawei's functions"));
  EXPECT_THAT(wrong_with("HashOwner,HashApp,HashFunction,Average,Count,Minimum\n"),
              HasSubstr("invocations_per_function_md.anon.d01.csv"));
  EXPECT_THAT(wrong_with("runtime\n0.0\n1.0\n"), HasSubstr("not when they came"));
  EXPECT_THAT(wrong_with("time,machineId,gpu0_util\n"), HasSubstr("cluster_job_log"));
}

TEST(KnownTables, SayWhatHelpsWithAHeaderThatNothingKnows) {
  EXPECT_THAT(wrong_with("a,b,c\n1,2,3\n"), HasSubstr("--column time=NAME and function=NAME"));
  EXPECT_THAT(wrong_with("1,2,3\n"), HasSubstr("--header NAME,NAME,..."));
}

}  // namespace
}  // namespace lambent::workload
