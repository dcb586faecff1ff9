// The part of a tenant's quotas that this node has now, of what all nodes say that they use of
// them. Values and a pure function; used by main each second.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "core/base/units.h"
#include "core/domain/tenant.h"
#include "decide/access/quota_share.h"

namespace lambent::cluster {

// What a node says that a tenant uses of it.
struct TenantUse {
  std::string tenant;
  access::QuotaUse running;      // invocations
  access::QuotaUse gpu_memory;   // bytes of sandboxes at work
  access::QuotaUse host_memory;  // likewise
  access::QuotaUse requests;     // in a thousand seconds
  Duration gpu_time_in_hour{};
  Bytes objects;

  bool operator==(const TenantUse&) const = default;
};

// What one invocation of the tenant takes at most.
struct LargestRun {
  Bytes gpu_memory, host_memory;
};

// What the other nodes say.
struct ToldByOthers {
  std::vector<std::optional<TenantUse>> answers;  // of the tenant, if the node says anything of it
  size_t position = 0;  // of this node among them, in the order of their names
  unsigned silent = 0;  // members that do not answer
};

// Functions and the disk are counted by each node itself: all
// have the same.
TenantQuotas share_of(const TenantQuotas& quotas, const TenantUse& here, const LargestRun& largest,
                      const ToldByOthers& others);

}  // namespace lambent::cluster
