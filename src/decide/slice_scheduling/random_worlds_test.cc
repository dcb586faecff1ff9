// Every policy of this module in worlds that go on at random.
#include <gtest/gtest.h>

#include "decide/slice_scheduling/fcfs_slices.h"
#include "decide/slice_scheduling/fluid_faas.h"
#include "decide/slice_scheduling/make_policy.h"
#include "decide/slice_scheduling/slo_policy.h"
#include "decide/slice_scheduling/testing/random_world.h"

namespace lambent::slice_scheduling::testing {
namespace {

TEST(RandomWorlds, FcfsKeepsEveryPromise) {
  expect_survives_random_worlds(
      [] { return std::make_unique<FcfsSlicesPolicy>(simple_placer(), FcfsSlicesOptions{}); }, 1,
      1000);
}

TEST(RandomWorlds, FluidFaasKeepsEveryPromise) {
  expect_survives_random_worlds(
      [] { return std::make_unique<FluidFaasPolicy>(simple_placer(), FluidFaasOptions{}); }, 1,
      1000);
}

TEST(RandomWorlds, SloKeepsEveryPromise) {
  expect_survives_random_worlds(
      [] { return std::make_unique<SloPolicy>(place_simply, SloPolicyOptions{}); }, 1, 1000);
}

TEST(RandomWorlds, EveryPolicyKeepsEveryPromiseWithThePlanner) {
  for (const std::string_view name : slice_policy_names()) {
    SCOPED_TRACE(name);
    const uint64_t with_replicas =
        expect_survives_random_worlds([&] { return make_slice_policy(name).value(); }, 5000, 100);
    if (name == "slo") {
      EXPECT_GE(with_replicas, 20U) << "few worlds tell anything of replicas";
    } else {
      EXPECT_EQ(with_replicas, 0U);
    }
  }
}

TEST(MakePolicy, NamesThoseThereAreForAnyOther) {
  for (const std::string_view name : slice_policy_names()) {
    EXPECT_EQ(make_slice_policy(name).value()->name(), name);
  }
  const auto unknown = make_slice_policy("best");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(unknown.error().message,
            "no slice policy 'best'; there are: esg, fcfs, fluidfaas, infless, slo");
}

}  // namespace
}  // namespace lambent::slice_scheduling::testing
