// The part of a tenant's quota that one node of a cluster has now: a function of what it uses, of
// what the others said that they use, and of which of them answer. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lambent::access {

// What a node uses of a quota, and what it would use if there were none: at least as much.
struct QuotaUse {
  uint64_t used = 0;
  uint64_t wanted = 0;

  bool operator==(const QuotaUse&) const = default;
};

// What a node counts as its own use: it wants no more than it told the others a period ago. So in a
// burst that comes to all nodes at once none takes the part of others that seem to want nothing.
QuotaUse as_told(const QuotaUse& now, const QuotaUse& before);

struct QuotaView {
  uint64_t quota = 0;
  QuotaUse here;
  std::vector<QuotaUse> others;  // of the nodes that answer, in an order that all nodes have
  size_t position = 0;           // of this node in that order: so many others come before it
  unsigned silent = 0;           // members that do not
  // Of what is taken at once: no share is less, as far as the quota goes, so that a node may always
  // have one.
  uint64_t unit = 1;
};

// What all nodes that answer may divide: the quota if they are most of the members, else the part
// that their number has of it. So two halves of a cluster that is cut never have more than it.
uint64_t divided_quota(const QuotaView& view);

// Divides it by what each wants: none has more than it wants while others lack some. What is left
// is divided evenly, for what comes next. For what is used up at once, such as requests.
uint64_t fair_share(const QuotaView& view);
// What the others do not use. For what does not come back soon, such as memory of objects.
uint64_t rest_of_quota(const QuotaView& view);
// The lesser of both: a fair share, of which others may still have some. For what runs.
uint64_t running_share(const QuotaView& view);

}  // namespace lambent::access
