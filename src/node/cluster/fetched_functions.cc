#include "node/cluster/fetched_functions.h"

#include <algorithm>

namespace lambent::cluster {

void FetchedFunctions::note(const std::vector<std::pair<uint64_t, routing::Warmth>>& warm,
                            Instant now) {
  for (const auto& [function, warmth] : warm) {
    const auto [place, is_new] = places_.try_emplace(function);
    if (!is_new) seen_.erase(place->second);
    place->second = seen_.insert(seen_.end(), {function, now});
  }
  while (!seen_.empty() && (seen_.size() > most_ || seen_.front().at + keeps_ < now)) {
    places_.erase(seen_.front().function);
    seen_.pop_front();
  }
}

std::vector<uint64_t> FetchedFunctions::list(
    const std::vector<std::pair<uint64_t, routing::Warmth>>& warm) const {
  std::vector<uint64_t> fetched;
  for (const Seen& each : seen_) {
    const auto at = std::lower_bound(warm.begin(), warm.end(),
                                     std::pair(each.function, routing::Warmth::kNone));
    if (at == warm.end() || at->first != each.function) fetched.push_back(each.function);
  }
  std::sort(fetched.begin(), fetched.end());
  return fetched;
}

}  // namespace lambent::cluster
