#include "decide/access/quota_share.h"

#include <algorithm>

namespace lambent::access {
namespace {

uint64_t nodes_of(const QuotaView& view) { return view.others.size() + 1; }

uint64_t or_one(uint64_t share, const QuotaView& view) {
  return std::max(share, std::min(view.unit, view.quota));
}

uint64_t used_elsewhere(const QuotaView& view) {
  uint64_t used = 0;
  for (const QuotaUse& each : view.others) used += std::min(each.used, UINT64_MAX - used);
  return used;
}

// What each has of `all` that is divided evenly among `nodes`; the first have the remainder.
uint64_t even_part(uint64_t all, uint64_t nodes, uint64_t rank) {
  return all / nodes + (rank < all % nodes ? 1 : 0);
}

uint64_t fair(const QuotaView& view) {
  std::vector<uint64_t> wanted{view.here.wanted};
  for (const QuotaUse& each : view.others) wanted.push_back(each.wanted);
  std::ranges::sort(wanted);
  uint64_t left = divided_quota(view);
  uint64_t nodes = nodes_of(view);
  // Who wants least is served first; what it does not want is the others'.
  for (const uint64_t least : wanted) {
    if (least > left / nodes) {
      if (view.here.wanted < least) break;
      uint64_t rank = 0;
      for (size_t i = 0; i < view.position && i < view.others.size(); ++i) {
        rank += view.others[i].wanted >= least ? 1 : 0;
      }
      return even_part(left, nodes, rank);
    }
    left -= least;
    --nodes;
  }
  // Where some lack, nothing is left.
  const uint64_t spare = nodes == 0 ? even_part(left, nodes_of(view), view.position) : 0;
  return view.here.wanted + spare;
}

uint64_t rest(const QuotaView& view) {
  const uint64_t all = divided_quota(view);
  return all - std::min(all, used_elsewhere(view));
}

}  // namespace

QuotaUse as_told(const QuotaUse& now, const QuotaUse& before) {
  return {.used = now.used, .wanted = std::max(now.used, std::min(now.wanted, before.wanted))};
}

uint64_t divided_quota(const QuotaView& view) {
  const uint64_t nodes = nodes_of(view);
  const uint64_t members = nodes + view.silent;
  if (2 * nodes > members) return view.quota;
  return view.quota / members * nodes + view.quota % members * nodes / members;
}

uint64_t fair_share(const QuotaView& view) { return or_one(fair(view), view); }

uint64_t rest_of_quota(const QuotaView& view) { return or_one(rest(view), view); }

uint64_t running_share(const QuotaView& view) {
  return or_one(std::min(fair(view), rest(view)), view);
}

}  // namespace lambent::access
