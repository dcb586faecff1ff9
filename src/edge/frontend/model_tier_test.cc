#include "edge/frontend/model_tier.h"

#include <gtest/gtest.h>

namespace lambent::frontend {
namespace {

SandboxStatus sandbox(const std::string& function, const std::string& state,
                      const std::string& place = "") {
  SandboxStatus status;
  status.function.name = function;
  status.state = state;
  status.device_memory_place = place;
  return status;
}

TEST(ModelTier, IsTheNearestOfTheSandboxesOfAVersion) {
  const auto tiers = tiers_of({sandbox("a", "idle", "out"), sandbox("a", "busy", "in"),
                               sandbox("b", "idle", "out with context"), sandbox("b:3", "busy"),
                               sandbox("c", "starting"), sandbox("d", "stopping", "in")});
  const auto tier = [&](const char* name) { return name_of(tiers.at(name)); };
  EXPECT_EQ(tier("a"), "device");
  EXPECT_EQ(tier("b"), "host");
  EXPECT_EQ(tier("b:3"), "host");
  EXPECT_EQ(tier("c"), "disk");
  EXPECT_EQ(tier("d"), "disk");
  EXPECT_FALSE(tiers.contains("e"));
}

}  // namespace
}  // namespace lambent::frontend
