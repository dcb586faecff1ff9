#include "gpu/mig/layouts.h"

#include <gtest/gtest.h>

#include <set>

namespace lambent::mig {
namespace {

const char* const kFamilyNames[] = {"a100-40gb", "a100-80gb", "h100-80gb", "h200"};

std::string text_of(const std::vector<Placement>& layout) {
  std::string text;
  for (const Placement& placement : layout) {
    text += std::string(placement.profile->name) + "@" + std::to_string(placement.start) + " ";
  }
  return text;
}

std::vector<Placement> layout_of(const MigFamily& family, std::vector<std::string> texts) {
  std::vector<Placement> layout;
  for (const std::string& text : texts) {
    Placement placement;
    EXPECT_TRUE(parse_placement(family, text, &placement)) << text;
    layout.push_back(placement);
  }
  return layout;
}

TEST(MigLayouts, EveryFamilyHasTheNineteenFullLayoutsOfTheGuide) {
  for (const char* name : kFamilyNames) {
    const MigFamily* family = find_mig_family(name);
    ASSERT_NE(family, nullptr) << name;
    EXPECT_EQ(full_layouts(*family, true).size(), 19u) << name;
  }
  EXPECT_EQ(find_mig_family("v100-16gb"), nullptr);
}

TEST(MigLayouts, EveryLayoutIsValidAndNoneIsListedTwice) {
  const MigFamily& family = *find_mig_family("h100-80gb");
  std::set<std::string> seen;
  for (const auto& layout : all_layouts(family)) {
    EXPECT_TRUE(valid_layout(family, layout)) << text_of(layout);
    EXPECT_TRUE(seen.insert(text_of(layout)).second) << text_of(layout);
    int slices = 0, memory_slices = 0, multiprocessors = 0;
    for (const Placement& placement : layout) {
      slices += placement.profile->slices;
      memory_slices += placement.profile->memory_slices;
      multiprocessors += placement.profile->multiprocessors;
    }
    EXPECT_LE(slices, kComputeSlices) << text_of(layout);
    EXPECT_LE(memory_slices, kMemorySlices) << text_of(layout);
    EXPECT_LE(multiprocessors, 132) << text_of(layout);
  }
  EXPECT_EQ(seen.size(), all_layouts(family).size());
}

TEST(MigLayouts, AnEnumeratedLayoutIsFoundWhateverTheOrderOfItsInstances) {
  const MigFamily& family = *find_mig_family("a100-80gb");
  EXPECT_TRUE(valid_layout(family, layout_of(family, {"3g.40gb@4", "4g.40gb@0"})));
  EXPECT_TRUE(valid_layout(family, layout_of(family, {"2g.20gb@4", "1g.10gb@6", "3g.40gb@0"})));
  EXPECT_FALSE(valid_layout(family, layout_of(family, {"3g.40gb@4", "2g.20gb@4"})));
  EXPECT_FALSE(valid_layout(family, layout_of(family, {"7g.80gb@0", "1g.10gb@0"})));
  EXPECT_FALSE(valid_layout(family, layout_of(family, {"1g.10gb+me@0", "1g.10gb+me@1"})));
}

TEST(MigLayouts, WhatIsTakenLimitsWhereOneMoreFits) {
  const MigFamily& family = *find_mig_family("a100-80gb");
  auto starts = [&](std::vector<std::string> taken, const char* name) {
    return free_starts(family, layout_of(family, taken), *find_profile(family, name));
  };
  EXPECT_EQ(starts({}, "2g.20gb"), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(starts({"1g.10gb@2"}, "2g.20gb"), (std::vector<int>{0, 4}));
  EXPECT_EQ(starts({"1g.10gb@2"}, "3g.40gb"), (std::vector<int>{4}));
  EXPECT_EQ(starts({"4g.40gb@0", "3g.40gb@4"}, "1g.10gb"), (std::vector<int>{}));
  EXPECT_EQ(starts({"4g.40gb@0", "2g.20gb@4"}, "1g.10gb"), (std::vector<int>{6}));
}

TEST(MigLayouts, APlacementIsAProfileAndPerhapsAStart) {
  const MigFamily& family = *find_mig_family("h200");
  Placement placement;
  EXPECT_TRUE(parse_placement(family, "3g.71gb", &placement));
  EXPECT_EQ(placement.start, -1);
  for (const char* text : {"3g.40gb", "3g.71gb@1", "3g.71gb@", "3g.71gb@44", "", "@0"}) {
    EXPECT_FALSE(parse_placement(family, text, &placement)) << text;
  }
}

}  // namespace
}  // namespace lambent::mig
