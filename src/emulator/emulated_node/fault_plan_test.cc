#include "emulator/emulated_node/fault_plan.h"

#include <gtest/gtest.h>

#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_node {
namespace {

std::string mistake_in(const std::string& text) {
  std::vector<Fault> plan;
  std::string error;
  return parse_fault_plan(text, &plan, &error) ? "" : error;
}

TEST(FaultPlan, LinesBecomeFaults) {
  std::vector<Fault> plan;
  std::string error;
  ASSERT_TRUE(
      parse_fault_plan("# nothing\n fail cuMemAlloc call 3 with CUDA_ERROR_OUT_OF_MEMORY # why\n\n"
                       "delay cuLaunchKernel every 2 by 1.5ms;fail cuInit from 1 with "
                       "CUDA_ERROR_NO_DEVICE",
                       &plan, &error))
      << error;
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(plan[0].call, "cuMemAlloc");
  EXPECT_EQ(plan[0].number, 3u);
  EXPECT_EQ(plan[0].code, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(plan[1].action, FaultAction::kDelay);
  EXPECT_EQ(plan[1].delay_ns, 1'500'000);
  EXPECT_EQ(plan[2].when, FaultWhen::kFrom);
}

TEST(FaultPlan, DevicesAreStruckAtOnceOrOnACall) {
  std::vector<Fault> plan;
  std::string error;
  ASSERT_TRUE(parse_fault_plan("lose device 3\nslow device 0 by 2.5 on cuLaunchKernel call 7",
                               &plan, &error))
      << error;
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0].action, FaultAction::kLose);
  EXPECT_EQ(plan[0].device, 3);
  EXPECT_EQ(plan[0].call, "");
  EXPECT_EQ(plan[1].factor, 2.5);
  EXPECT_EQ(plan[1].call, "cuLaunchKernel");
  EXPECT_EQ(plan[1].number, 7u);
  EXPECT_EQ(mistake_in("lose device x"), "fault 1: 'x' is no number of a device");
  EXPECT_EQ(mistake_in("slow device 0 by 0"), "fault 1: '0' is no factor");
  EXPECT_EQ(mistake_in("stick device 0 when"), "fault 1: 'on' is missing before 'when'");
}

TEST(FaultPlan, AFaultStrikesAtTheCallsItNames) {
  auto struck = [](FaultWhen when) {
    Fault fault;
    fault.when = when;
    fault.number = 3;
    std::string calls;
    for (uint64_t call = 1; call <= 7; call++) calls += strikes(fault, call) ? 'x' : '.';
    return calls;
  };
  EXPECT_EQ(struck(FaultWhen::kCall), "..x....");
  EXPECT_EQ(struck(FaultWhen::kEvery), "..x..x.");
  EXPECT_EQ(struck(FaultWhen::kFrom), "..xxxxx");
}

TEST(FaultPlan, MistakesAreNamed) {
  EXPECT_EQ(mistake_in("\nbreak everything"), "fault 2: 'break' is no action");
  EXPECT_EQ(mistake_in("fail malloc call 1 with CUDA_ERROR_UNKNOWN"),
            "fault 1: 'malloc' is no function of the driver");
  EXPECT_EQ(mistake_in("fail cuInit call 0 with CUDA_ERROR_UNKNOWN"),
            "fault 1: '0' is no positive number");
  EXPECT_EQ(mistake_in("fail cuInit call 1 with CUDA_SUCCESS"),
            "fault 1: 'CUDA_SUCCESS' is no error of the driver");
  EXPECT_EQ(mistake_in("fail cuInit call 1"), "fault 1: it ends where 'with' is missing");
  EXPECT_EQ(mistake_in("delay cuInit call 1 by 3 s"),
            "fault 1: '3' is no duration such as 200us, at most an hour");
  EXPECT_EQ(mistake_in("delay cuInit call 1 by 3s or"), "fault 1: 'or' is too much");
  EXPECT_NE(mistake_in(std::string(5000, ' ')), "");
}

}  // namespace
}  // namespace lambent::emulated_node
