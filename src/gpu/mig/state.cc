#include "gpu/mig/state.h"

#include <cstdlib>

namespace lambent::mig {
namespace {

constexpr const char* kFamilies[] = {"a100-40gb", "a100-80gb", "h100-80gb", "h200"};

bool alike(const MigProfile& profile, const ProfileFacts& facts) {
  return profile.slices == facts.slices && profile.multiprocessors == facts.multiprocessors &&
         std::abs(profile.memory_mib - facts.memory_mib) * 10 <= profile.memory_mib;
}

}  // namespace

const MigFamily* family_of(const std::vector<ProfileFacts>& profiles) {
  for (const char* name : kFamilies) {
    const MigFamily* family = find_mig_family(name);
    bool same = true;
    int known = 0;
    for (const ProfileFacts& facts : profiles) {
      const MigProfile* profile = find_profile(*family, facts.id);
      if (!profile) continue;
      ++known;
      same = same && alike(*profile, facts);
    }
    if (same && known > 0) return family;
  }
  return nullptr;
}

std::vector<Placement> layout_of(const MigFamily& family, const GpuState& gpu) {
  std::vector<Placement> layout;
  for (const InstanceState& instance : gpu.instances) {
    const MigProfile* profile = find_profile(family, instance.profile_id);
    if (profile) layout.push_back({profile, instance.start});
  }
  return layout;
}

}  // namespace lambent::mig
