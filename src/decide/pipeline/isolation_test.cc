#include "decide/pipeline/isolation.h"

#include "decide/pipeline/testing/testing.h"

namespace lambent::pipeline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// 18 GiB in two components of 20 ms each on a 1g.10gb; on a whole device 4 ms in all.
PipelineFunction function_with(Duration slo) {
  auto function = function_of(chain_of(2), {20, 20}, {9, 9});
  function.ranked = rank_partitions(function, {}).value();
  function.slo = slo;
  return function;
}
const SharedDevice kDevice{.shape = {"A100", 140, Bytes::gib(80)}, .free = Bytes::gib(40)};

Result<IsolationChoice> choose(const PipelineFunction& function, const IsolationWish& wish,
                               const std::vector<SliceShape>& shapes,
                               std::optional<SharedDevice> device = kDevice) {
  return choose_isolation(function, wish, slices_of(shapes), device, {});
}

TEST(Isolation, AFunctionThatIsBusyHasSlicesOfItsOwn) {
  const auto choice = choose(function_with({}), {.arrivals_per_s = 20}, {k1g, k1g});
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->isolation, Isolation::kSlices);
  EXPECT_EQ(choice->placement->slices.size(), 2u);
  EXPECT_EQ(choice->latency, milliseconds(40));
  EXPECT_THAT(choice->reasons, ElementsAre("it would keep its slices busy for 40 % of the time, "
                                           "and there no neighbour matters"));
}

TEST(Isolation, AFunctionThatHardlyRunsSharesADevice) {
  const auto choice = choose(function_with({}), {.arrivals_per_s = 1}, {k1g, k1g});
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->isolation, Isolation::kShared);
  EXPECT_EQ(choice->placement, std::nullopt);
  EXPECT_EQ(choice->latency, milliseconds(4));
  EXPECT_THAT(choice->reasons,
              ElementsAre("slices of its own would be busy for 2 % of the time only; on the shared "
                          "device others use the rest"));
}

TEST(Isolation, WhereNothingIsKnownOfItsLoadNeighboursDoNotMatter) {
  const auto choice = choose(function_with({}), {}, {k1g, k1g});
  EXPECT_EQ(choice->isolation, Isolation::kSlices);
}

TEST(Isolation, WhatKeepsTheSloIsTaken) {
  const auto shared = choose(function_with(milliseconds(30)), {.arrivals_per_s = 20}, {k1g, k1g});
  EXPECT_EQ(shared->isolation, Isolation::kShared);
  EXPECT_THAT(shared->reasons[0], HasSubstr("only one keeps the SLO of 30.0 ms"));
  // Beside neighbours that take nine tenths it takes ten times as long.
  auto busy = kDevice;
  busy.utilisation = 0.9;
  const auto slices = choose(function_with(milliseconds(35)), {.arrivals_per_s = 1}, {k2g}, busy);
  EXPECT_EQ(slices->isolation, Isolation::kSlices);
  const auto neither = choose(function_with(milliseconds(3)), {.arrivals_per_s = 20}, {k1g, k1g});
  EXPECT_EQ(neither->isolation, Isolation::kShared);
  EXPECT_THAT(neither->reasons[0], HasSubstr("neither keeps the SLO"));
}

TEST(Isolation, WhatIsNotAllowedOrHasNoRoomIsNotTaken) {
  const auto function = function_with({});
  EXPECT_EQ(
      choose(function, {.why_not_shared = "it may not", .arrivals_per_s = 1}, {k2g})->isolation,
      Isolation::kSlices);
  EXPECT_EQ(choose(function, {.why_not_slices = "it may not"}, {k2g})->isolation,
            Isolation::kShared);
  const auto no_slices = choose(function, {.arrivals_per_s = 20}, {k1g});
  EXPECT_EQ(no_slices->isolation, Isolation::kShared);
  EXPECT_THAT(no_slices->reasons[0], HasSubstr("no free slices hold it: it needs a slice with 18 "
                                               "GiB (2g.20gb)"));
  auto full = kDevice;
  full.free = Bytes::gib(10);
  const auto no_room = choose(function, {.arrivals_per_s = 1}, {k2g}, full);
  EXPECT_EQ(no_room->isolation, Isolation::kSlices);
  EXPECT_THAT(no_room->reasons,
              ElementsAre("the shared device has 10 GiB for a function, the function needs 18 "
                          "GiB"));
  const auto neither = choose(function, {}, {k1g}, std::nullopt);
  ASSERT_FALSE(neither.ok());
  EXPECT_EQ(neither.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(neither.error().message, HasSubstr("no device is shared here"));
}

TEST(Isolation, WhoHasSlicesLeavesThemForMoreThanALittle) {
  const auto function = function_with({});
  // Ten a second would keep them busy for 20 % of the time.
  const auto chosen = [&](std::optional<Isolation> current, double arrivals_per_s) {
    return choose(function, {.arrivals_per_s = arrivals_per_s, .current = current}, {k1g, k1g})
        ->isolation;
  };
  EXPECT_EQ(chosen(std::nullopt, 10), Isolation::kShared);
  EXPECT_EQ(chosen(Isolation::kShared, 10), Isolation::kShared);
  EXPECT_EQ(chosen(Isolation::kSlices, 10), Isolation::kSlices);
  EXPECT_EQ(chosen(Isolation::kSlices, 5), Isolation::kShared);
  EXPECT_EQ(chosen(Isolation::kShared, 20), Isolation::kSlices);
}

TEST(Isolation, ADeviceThatIsBusyIsSlowAndNoReasonToRefuse) {
  auto busy = kDevice;
  busy.utilisation = 1;
  const auto choice = choose(function_with({}), {.arrivals_per_s = 1}, {}, busy);
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->isolation, Isolation::kShared);
  EXPECT_GT(choice->latency, milliseconds(399));
}

TEST(Isolation, ItsOwnRunsOnTheSharedDeviceAreNotCountedAgainstIt) {
  // Two hundred a second of 4 ms are all of the 80 %.
  auto device = kDevice;
  device.utilisation = 0.8;
  const auto chosen = [&](std::optional<Isolation> current) {
    return choose(function_with(milliseconds(10)), {.arrivals_per_s = 200, .current = current},
                  {k1g, k1g}, device);
  };
  EXPECT_EQ(chosen(Isolation::kShared)->isolation, Isolation::kShared);
  EXPECT_EQ(chosen(Isolation::kShared)->latency, milliseconds(4));
  EXPECT_EQ(chosen(Isolation::kSlices)->latency, milliseconds(20)) << "these are others";
}

TEST(Isolation, WhatItHasIsNotLeftForALittleSlack) {
  // The slices take 40 ms; the shared device 4 ms by itself, and so long as is asked for here.
  const auto chosen = [&](Duration slo, std::optional<Isolation> current, double shared_ms) {
    auto device = kDevice;
    device.utilisation = 1 - 4 / shared_ms;
    return choose(function_with(slo), {.current = current}, {k1g, k1g}, device)->isolation;
  };
  // Neither keeps it.
  EXPECT_EQ(chosen(milliseconds(3), Isolation::kSlices, 36), Isolation::kSlices);
  EXPECT_EQ(chosen(milliseconds(3), Isolation::kSlices, 30), Isolation::kShared);
  EXPECT_EQ(chosen(milliseconds(3), Isolation::kShared, 44), Isolation::kShared);
  EXPECT_EQ(chosen(milliseconds(3), Isolation::kShared, 60), Isolation::kSlices);
  EXPECT_EQ(chosen(milliseconds(3), std::nullopt, 36), Isolation::kShared);
  // What keeps it is taken all the same.
  EXPECT_EQ(chosen(milliseconds(38), Isolation::kSlices, 36), Isolation::kShared);
  EXPECT_EQ(chosen(milliseconds(42), Isolation::kShared, 44), Isolation::kSlices);
}

TEST(Isolation, WhatIsPromisedDecidesBeforeAllElse) {
  const auto function = function_with({});
  EXPECT_EQ(
      choose(function, {.needs_fault_isolation = true, .arrivals_per_s = 1}, {k2g})->isolation,
      Isolation::kSlices);
  EXPECT_EQ(
      choose(function, {.needs_memory_isolation = true, .arrivals_per_s = 1}, {k2g})->isolation,
      Isolation::kSlices);
  // Slices that are none in truth, such as those of a device without MIG.
  auto pretended = slices_of({k2g});
  pretended[0].fault_isolated = false;
  const auto neither =
      choose_isolation(function, {.needs_fault_isolation = true}, pretended, kDevice, {});
  ASSERT_FALSE(neither.ok());
  EXPECT_THAT(neither.error().message, HasSubstr("no free slices that are isolated as it needs"));
  EXPECT_THAT(neither.error().message, HasSubstr("may end all who share it"));
}

}  // namespace
}  // namespace lambent::pipeline
