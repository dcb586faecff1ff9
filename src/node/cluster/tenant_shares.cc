#include "node/cluster/tenant_shares.h"

#include <algorithm>
#include <functional>

namespace lambent::cluster {
namespace {

using access::QuotaUse;
using access::QuotaView;

constexpr double kRequestsInQuota = 1000;
constexpr double kLeastRate = 0.001;
constexpr double kMostRate = 1e12;

QuotaUse all_at_work(uint64_t used) { return {.used = used, .wanted = used}; }

uint64_t nanoseconds(Duration time) {
  return static_cast<uint64_t>(std::max(time, Duration::zero()).count());
}

}  // namespace

TenantQuotas share_of(const TenantQuotas& quotas, const TenantUse& here, const LargestRun& largest,
                      const ToldByOthers& others) {
  const auto view = [&](uint64_t quota, uint64_t unit, auto use_of) {
    QuotaView seen{.quota = quota,
                   .here = use_of(here),
                   .others = {},
                   .position = others.position,
                   .silent = others.silent,
                   .unit = std::max<uint64_t>(unit, 1)};
    for (const auto& each : others.answers)
      seen.others.push_back(each ? use_of(*each) : QuotaUse{});
    return seen;
  };
  TenantQuotas share = quotas;
  if (quotas.concurrency) {
    share.concurrency = access::running_share(
        view(*quotas.concurrency, 1, [](const TenantUse& use) { return use.running; }));
  }
  if (quotas.gpu_memory) {
    share.gpu_memory =
        Bytes(access::running_share(view(quotas.gpu_memory->count, largest.gpu_memory.count,
                                         [](const TenantUse& use) { return use.gpu_memory; })));
  }
  if (quotas.host_memory) {
    share.host_memory =
        Bytes(access::running_share(view(quotas.host_memory->count, largest.host_memory.count,
                                         [](const TenantUse& use) { return use.host_memory; })));
  }
  if (quotas.gpu_time_per_hour) {
    share.gpu_time_per_hour = Duration(static_cast<int64_t>(access::rest_of_quota(view(
        nanoseconds(*quotas.gpu_time_per_hour), 1,
        [](const TenantUse& use) { return all_at_work(nanoseconds(use.gpu_time_in_hour)); }))));
  }
  if (quotas.objects) {
    // A node that is full must not have one more: an object is no run that ends.
    QuotaView seen = view(quotas.objects->count, 1,
                          [](const TenantUse& use) { return all_at_work(use.objects.count); });
    seen.unit = 0;
    share.objects = Bytes(access::rest_of_quota(seen));
  }
  if (quotas.requests_per_second) {
    const double quota = std::min(*quotas.requests_per_second, kMostRate) * kRequestsInQuota;
    const uint64_t part = access::fair_share(
        view(static_cast<uint64_t>(quota), 1, [](const TenantUse& use) { return use.requests; }));
    share.requests_per_second = std::max(static_cast<double>(part) / kRequestsInQuota, kLeastRate);
  }
  return share;
}

}  // namespace lambent::cluster
