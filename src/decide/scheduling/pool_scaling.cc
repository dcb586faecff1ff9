#include "decide/scheduling/pool_scaling.h"

#include <algorithm>

namespace lambent::scheduling {
namespace {

Bytes saturating_sum(Bytes a, Bytes b) {
  return b.count > UINT64_MAX - a.count ? Bytes(UINT64_MAX) : a + b;
}

Bytes rounded_up(Bytes bytes, Bytes granule) {
  const uint64_t unit = std::max<uint64_t>(1, granule.count);
  if (bytes.count > UINT64_MAX - unit) return bytes;
  return Bytes((bytes.count + unit - 1) / unit * unit);
}

bool runs(const RunningFunction& function) {
  return function.kernel < function.profile->kernels.size();
}

// What the functions ask of the pool under the rule.
Bytes asked_for(PoolRule rule, std::span<const RunningFunction> functions, Duration interval) {
  if (rule != PoolRule::kStatic) return demand_of(functions, interval);
  Bytes sum;
  for (const RunningFunction& function : functions) {
    if (runs(function)) sum = saturating_sum(sum, function.profile->whole);
  }
  return sum;
}

}  // namespace

void ProfileTable::add(uint32_t batch, Bytes input, MemoryProfile profile) {
  const auto at = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return std::pair(entry.batch, entry.input) >= std::pair(batch, input);
  });
  if (at != entries_.end() && at->batch == batch && at->input == input) {
    at->profile = std::move(profile);
  } else {
    entries_.insert(at, {batch, input, std::move(profile)});
  }
}

const MemoryProfile* ProfileTable::find(uint32_t batch, Bytes input) const {
  for (const Entry& entry : entries_) {
    if (entry.batch >= batch && entry.input >= input) return &entry.profile;
  }
  return nullptr;
}

std::string_view name_of(PoolRule rule) {
  switch (rule) {
    case PoolRule::kResilient:
      return "resilient";
    case PoolRule::kFineGrained:
      return "fine-grained";
    case PoolRule::kStatic:
      return "static";
  }
  return "?";
}

Duration scaling_interval(Duration allocate_200_mb, Duration free_200_mb) {
  return std::max<Duration>(allocate_200_mb + free_200_mb, milliseconds(1));
}

Bytes demand_of(const RunningFunction& function, Duration ahead) {
  if (!runs(function)) return Bytes();
  const std::vector<KernelMemory>& kernels = function.profile->kernels;
  Bytes most = kernels[function.kernel].live;
  // When the next kernel begins at the earliest.
  Duration begins = std::max(Duration(0), kernels[function.kernel].duration - function.elapsed);
  for (size_t at = function.kernel + 1; at < kernels.size() && begins <= ahead; ++at) {
    most = std::max(most, kernels[at].live);
    begins += kernels[at].duration;
  }
  return most;
}

Bytes demand_of(std::span<const RunningFunction> functions, Duration ahead) {
  Bytes sum;
  for (const RunningFunction& function : functions) {
    sum = saturating_sum(sum, demand_of(function, ahead));
  }
  return sum;
}

PoolStep scale_pool(const PoolOptions& options, Bytes size, Bytes in_use,
                    std::span<const RunningFunction> functions) {
  Bytes target = asked_for(options.rule, functions, options.interval);
  target = rounded_up(std::max({target, in_use, options.least}), options.granule);
  target = std::max(std::min(target, options.most), std::min(in_use, size));
  if (target > size) return {.grow = target - size, .shrink = Bytes()};
  if (options.rule != PoolRule::kResilient) return {};
  return {.grow = Bytes(), .shrink = size - target};
}

}  // namespace lambent::scheduling
