#include "bin/node_quotas.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace lambent {
namespace {

constexpr Duration kPeriod = seconds(1);

access::QuotaUse memory_of(const MemoryDemand& demand) {
  return {.used = demand.at_work.count, .wanted = (demand.at_work + demand.waiting).count};
}

uint64_t in_thousand_seconds(uint64_t count, Duration time) {
  return static_cast<uint64_t>(static_cast<double>(count) * 1000 / to_seconds(time));
}

// What one node said of a tenant.
std::optional<cluster::TenantUse> find(const std::vector<cluster::TenantUse>& told,
                                       const std::string& tenant) {
  const auto found = std::ranges::find(told, tenant, &cluster::TenantUse::tenant);
  return found == told.end() ? std::nullopt : std::optional(*found);
}

std::vector<TenantId> ids_of(const std::vector<Tenant>& tenants) {
  std::vector<TenantId> ids;
  for (const Tenant& tenant : tenants) ids.push_back(tenant.id);
  return ids;
}

}  // namespace

NodeQuotas::NodeQuotas(Dependencies dependencies)
    : uses_(std::move(dependencies)), looked_at_(uses_.loop.now()) {
  timer_ = uses_.loop.call_after(Duration::zero(), [this] { look(); });
}

NodeQuotas::~NodeQuotas() { uses_.loop.cancel(timer_); }

std::vector<Tenant> NodeQuotas::limited_tenants() const {
  std::vector<Tenant> limited = uses_.access.list_tenants("", SIZE_MAX);
  std::erase_if(limited, [](const Tenant& tenant) { return tenant.quotas == TenantQuotas{}; });
  return limited;
}

std::vector<cluster::TenantUse> NodeQuotas::uses() const {
  const std::vector<Tenant> tenants = limited_tenants();
  const auto usages = uses_.worker.usages_of(ids_of(tenants));
  std::vector<cluster::TenantUse> uses;
  for (const Tenant& tenant : tenants) uses.push_back(use_of(tenant, usages.at(tenant.id)));
  return uses;
}

cluster::TenantUse NodeQuotas::use_of(const Tenant& tenant, const TenantUsage& usage) const {
  const auto requests = requests_.find(tenant.id);
  return cluster::TenantUse{
      .tenant = tenant.name,
      .running = {.used = usage.running, .wanted = usage.running + usage.waiting},
      .gpu_memory = memory_of(usage.gpu_demand),
      .host_memory = memory_of(usage.host_demand),
      .requests = requests == requests_.end() ? access::QuotaUse{} : requests->second.rate,
      .gpu_time_in_hour = usage.gpu_time_in_hour,
      .objects = usage.objects};
}

void NodeQuotas::note_requests(const Tenant& tenant, Duration since) {
  const access::RequestCounts now = uses_.access.request_counts(tenant.id);
  Requests& known = requests_[tenant.id];
  // A tenant that was made again counts from the start.
  const bool goes_on = now.asked >= known.counts.asked && now.taken >= known.counts.taken;
  const access::RequestCounts before = goes_on ? known.counts : access::RequestCounts{};
  known.counts = now;
  if (since <= Duration::zero()) return;
  known.rate = {.used = in_thousand_seconds(now.taken - before.taken, since),
                .wanted = in_thousand_seconds(now.asked - before.asked, since)};
}

void NodeQuotas::look() {
  timer_ = uses_.loop.call_after(kPeriod, [this] { look(); });
  const Duration since = uses_.loop.now() - std::exchange(looked_at_, uses_.loop.now());
  const Told told = uses_.others();
  const auto silent = static_cast<unsigned>(std::ranges::count(told.nodes, nullptr));
  const std::vector<Tenant> tenants = limited_tenants();
  const auto usages = uses_.worker.usages_of(ids_of(tenants));
  for (const Tenant& tenant : tenants) {
    if (tenant.quotas.requests_per_second) note_requests(tenant, since);
    const TenantUsage& usage = usages.at(tenant.id);
    const cluster::TenantUse now = use_of(tenant, usage);
    const cluster::TenantUse before = std::exchange(before_[tenant.id], now);
    cluster::TenantUse here = now;
    for (const auto part : {&cluster::TenantUse::running, &cluster::TenantUse::gpu_memory,
                            &cluster::TenantUse::host_memory, &cluster::TenantUse::requests}) {
      here.*part = access::as_told(now.*part, before.*part);
    }
    cluster::ToldByOthers others{.answers = {}, .position = told.position, .silent = silent};
    for (const auto* node : told.nodes) {
      if (node != nullptr) others.answers.push_back(find(*node, tenant.name));
    }
    const cluster::LargestRun largest{usage.gpu_demand.largest, usage.host_demand.largest};
    uses_.access.set_share(tenant.id, share_of(tenant.quotas, here, largest, others));
  }
}

}  // namespace lambent
