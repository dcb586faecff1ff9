#include "gpu/mig/change.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/mig/state.h"

namespace lambent::mig {
namespace {

const MigFamily& kFamily = *find_mig_family("a100-80gb");

std::vector<Placement> layout(const std::vector<std::string>& texts) {
  std::vector<Placement> placements;
  for (const std::string& text : texts) {
    Placement placement;
    EXPECT_TRUE(parse_placement(kFamily, text, &placement)) << text;
    placements.push_back(placement);
  }
  return placements;
}
std::vector<const MigProfile*> wanted(const std::vector<std::string>& names) {
  std::vector<const MigProfile*> profiles;
  for (const std::string& name : names) profiles.push_back(find_profile(kFamily, name));
  return profiles;
}

TEST(PlanChange, MakesTheWantedSlicesOnAnEmptyDevice) {
  const auto change = plan_change(kFamily, {}, wanted({"1g.10gb", "2g.20gb", "4g.40gb"}));
  ASSERT_TRUE(change);
  EXPECT_EQ(text_of(change->create), "4g.40gb@0 2g.20gb@4 1g.10gb@6");
  EXPECT_TRUE(change->keep.empty());
  EXPECT_TRUE(change->destroy.empty());
}

TEST(PlanChange, KeepsWhatCanStay) {
  const auto change =
      plan_change(kFamily, layout({"3g.40gb@4", "2g.20gb@0"}), wanted({"4g.40gb", "3g.40gb"}));
  ASSERT_TRUE(change);
  EXPECT_EQ(text_of(change->keep), "3g.40gb@4");
  EXPECT_EQ(text_of(change->destroy), "2g.20gb@0");
  EXPECT_EQ(text_of(change->create), "4g.40gb@0");
  // A small one in the way of a large one has to go, though it is wanted as well.
  const auto moved = plan_change(kFamily, layout({"1g.10gb@1"}), wanted({"4g.40gb", "1g.10gb"}));
  EXPECT_EQ(text_of(moved->destroy), "1g.10gb@1");
  EXPECT_EQ(text_of(moved->create), "4g.40gb@0 1g.10gb@4");
}

TEST(PlanChange, NothingIsWantedThenAllGoes) {
  const auto change = plan_change(kFamily, layout({"2g.20gb@0", "2g.20gb@2"}), {});
  EXPECT_EQ(text_of(change->destroy), "2g.20gb@0 2g.20gb@2");
}

TEST(PlanChange, WhatIsNoLayoutIsRefused) {
  EXPECT_FALSE(plan_change(kFamily, {}, wanted({"4g.40gb", "4g.40gb"})));
  EXPECT_FALSE(plan_change(kFamily, {}, wanted({"7g.80gb", "1g.10gb"})));
  EXPECT_FALSE(plan_change(kFamily, {}, std::vector(100, find_profile(kFamily, "1g.10gb"))));
}

TEST(PlanChange, ItAgreesWithTheListOfAllLayouts) {
  const auto ids = [](const std::vector<Placement>& placements) {
    std::vector<int> found;
    for (const Placement& each : placements) found.push_back(each.profile->id);
    std::sort(found.begin(), found.end());
    return found;
  };
  const std::vector<Placement> current = layout({"2g.20gb@2", "1g.10gb@4", "1g.10gb@6"});
  for (const auto& each : full_layouts(kFamily, true)) {
    std::vector<const MigProfile*> profiles;
    for (const Placement& placement : each) profiles.push_back(placement.profile);
    const auto change = plan_change(kFamily, current, profiles);
    ASSERT_TRUE(change) << text_of(each);
    std::vector<Placement> made = change->keep;
    made.insert(made.end(), change->create.begin(), change->create.end());
    EXPECT_TRUE(valid_layout(kFamily, made)) << text_of(made);
    EXPECT_EQ(ids(made), ids(each));
    size_t most = 0;
    for (const auto& other : all_layouts(kFamily)) {
      if (ids(other) != ids(each)) continue;
      most = std::max<size_t>(most, std::count_if(current.begin(), current.end(), [&](auto& one) {
                                return std::find(other.begin(), other.end(), one) != other.end();
                              }));
    }
    EXPECT_EQ(change->keep.size(), most) << text_of(each);
  }
}

TEST(FamilyOf, IsKnownByItsProfiles) {
  for (const char* name : {"a100-40gb", "a100-80gb", "h100-80gb", "h200"}) {
    std::vector<ProfileFacts> facts;
    for (const MigProfile& profile : find_mig_family(name)->profiles) {
      facts.push_back(
          {profile.id, profile.slices, profile.multiprocessors, profile.memory_mib + 100});
    }
    facts.push_back({99, 1, 1, 1});  // one that we do not know
    ASSERT_NE(family_of(facts), nullptr);
    EXPECT_STREQ(family_of(facts)->name, name);
  }
  EXPECT_EQ(family_of({}), nullptr);
  EXPECT_EQ(family_of({{19, 1, 20, 9728}}), nullptr);
}

TEST(LayoutOf, IsWhatTheDeviceHas) {
  GpuState gpu;
  gpu.instances = {{.id = 1, .profile_id = 5, .start = 0}, {.id = 2, .profile_id = 99, .start = 4}};
  EXPECT_EQ(text_of(layout_of(kFamily, gpu)), "4g.40gb@0");
}

}  // namespace
}  // namespace lambent::mig
