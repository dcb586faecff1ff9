#include "node/worker/tenant_hours.h"

#include <algorithm>
#include <utility>

namespace lambent::worker {
namespace {

// A worker that is killed forgets at most what ended within it.
constexpr Duration kSavePeriod = seconds(5);

}  // namespace

TenantHours::TenantHours(loop::EventLoop& loop, LogSink& log, catalog::Catalog& catalog,
                         const dispatch::Dispatcher& dispatcher)
    : loop_(loop), log_(log), catalog_(catalog), dispatcher_(dispatcher) {
  timer_ = loop_.call_after(kSavePeriod, [this] { save(); });
}

TenantHours::~TenantHours() {
  loop_.cancel(timer_);
  auto changed = take_changed();
  if (!changed.empty()) catalog_.save_gpu_times(std::move(changed), [](Result<void>) {});
}

// Instants of before this boot have no place on the loop's clock, so that ages are told.
void TenantHours::restore(const std::vector<catalog::GpuTimeRecord>& records,
                          DispatchDriver& driver) {
  const Duration now = loop_.clock().wall_now();
  for (const catalog::GpuTimeRecord& record : records) {
    for (const catalog::GpuTimeRecord::Used& each : record.used) {
      const Duration age = std::max(Duration(0), now - each.at);
      if (age >= scheduling::SlidingHour::kHour) continue;
      driver.handle(dispatch::GpuTimeUsed{.tenant = record.tenant, .time = each.time, .age = age});
    }
  }
}

void TenantHours::save() {
  auto changed = take_changed();
  if (!changed.empty()) {
    catalog_.save_gpu_times(std::move(changed), [this](Result<void> saved) {
      if (!saved.ok()) log_.warning("gpu_times_not_saved", {{"error", to_string(saved.error())}});
    });
  }
  timer_ = loop_.call_after(kSavePeriod, [this] { save(); });
}

std::vector<catalog::GpuTimeRecord> TenantHours::take_changed() {
  std::vector<catalog::GpuTimeRecord> changed;
  // What is saved counts from the Unix epoch.
  const Duration since_epoch = loop_.clock().wall_now() - loop_.clock().now().time_since_epoch();
  const scheduling::Tenants& tenants = dispatcher_.tenants();
  for (uint32_t slot = 0; slot < tenants.size(); ++slot) {
    const scheduling::TenantAccount& account = tenants[slot];
    const auto last = account.hour.last_used();
    if (!last) continue;
    const auto [saved, is_new] = saved_.try_emplace(account.id, *last);
    if (!is_new && saved->second == *last) continue;
    saved->second = *last;
    catalog::GpuTimeRecord& record = changed.emplace_back();
    record.tenant = account.id;
    for (const scheduling::SlidingHour::Used& each : account.hour.all_used()) {
      record.used.push_back({since_epoch + each.at.time_since_epoch(), each.time});
    }
  }
  return changed;
}

}  // namespace lambent::worker
