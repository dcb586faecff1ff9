#include "edge/frontend/model_tier.h"

#include <algorithm>

namespace lambent::frontend {
namespace {

ModelTier tier_of(const SandboxStatus& sandbox) {
  // One that starts has not loaded it yet; one that stops is as good as gone.
  if (sandbox.state != "idle" && sandbox.state != "busy") return ModelTier::kDisk;
  return sandbox.device_memory_place == "in" ? ModelTier::kDevice : ModelTier::kHost;
}

}  // namespace

std::string_view name_of(ModelTier tier) {
  switch (tier) {
    case ModelTier::kDisk:
      return "disk";
    case ModelTier::kHost:
      return "host";
    case ModelTier::kDevice:
      return "device";
  }
  return "";
}

std::map<std::string, ModelTier> tiers_of(const std::vector<SandboxStatus>& sandboxes) {
  std::map<std::string, ModelTier> tiers;
  for (const SandboxStatus& sandbox : sandboxes) {
    ModelTier& tier = tiers[sandbox.function.name];
    tier = std::max(tier, tier_of(sandbox));
  }
  return tiers;
}

}  // namespace lambent::frontend
