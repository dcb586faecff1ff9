#include "decide/scheduling/tenants.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/domain/function_limits.h"

namespace lambent::scheduling {

std::optional<uint32_t> Tenants::find(TenantId id) const {
  const auto found = slots_.find(id);
  return found == slots_.end() ? std::nullopt : std::optional(found->second);
}

WaitReason Tenants::find_hold(const Flow& flow, Bytes gpu_memory) const {
  if (flow.tenant_slot >= accounts_.size()) return WaitReason::kNone;
  const TenantAccount& account = accounts_[flow.tenant_slot];
  const RunQuotas& quotas = account.quotas;
  if (quotas.concurrency && account.running >= *quotas.concurrency) {
    return WaitReason::kTenantConcurrency;
  }
  const bool uses_gpu = gpu_memory.count > 0;
  if (uses_gpu && account.over_hour) return WaitReason::kTenantGpuTime;
  if (uses_gpu && quotas.gpu_memory && account.at_work.gpu + gpu_memory > *quotas.gpu_memory) {
    return WaitReason::kTenantGpuMemory;
  }
  if (quotas.host_memory && account.at_work.host + flow.host_memory > *quotas.host_memory) {
    return WaitReason::kTenantHostMemory;
  }
  return WaitReason::kNone;
}

WaitReason Tenants::never_allows(const Flow& flow) const {
  if (limited_ == 0 || flow.tenant_slot >= accounts_.size()) return WaitReason::kNone;
  const RunQuotas& quotas = accounts_[flow.tenant_slot].quotas;
  if (quotas.concurrency && *quotas.concurrency == 0) return WaitReason::kTenantConcurrency;
  if (quotas.host_memory && flow.host_memory > *quotas.host_memory) {
    return WaitReason::kTenantHostMemory;
  }
  if (flow.device_memory.count == 0) return WaitReason::kNone;
  if (quotas.gpu_time_per_hour && quotas.gpu_time_per_hour->count() <= 0) {
    return WaitReason::kTenantGpuTime;
  }
  if (quotas.gpu_memory && flow.whole_device_memory() > *quotas.gpu_memory) {
    return WaitReason::kTenantGpuMemory;
  }
  return WaitReason::kNone;
}

Instant Tenants::next_release(Instant now) const {
  Instant next = kNever;
  for (const uint32_t slot : over_hour_) {
    const TenantAccount& account = accounts_[slot];
    const Duration limit = *account.quotas.gpu_time_per_hour;
    next = std::min(next, account.hour.when_below(limit, Duration(0), now));
  }
  return next;
}

Tenants::Crowded Tenants::crowded(uint32_t slot, TenantMemory more) const {
  if (slot >= accounts_.size()) return {};
  const TenantAccount& account = accounts_[slot];
  const auto exceeds = [](const std::optional<Bytes>& quota, Bytes at_work, Bytes idle,
                          Bytes added) {
    return quota && idle > Bytes(0) && at_work + idle + added > *quota;
  };
  return {
      .gpu = exceeds(account.quotas.gpu_memory, account.at_work.gpu, account.idle.gpu, more.gpu),
      .host =
          exceeds(account.quotas.host_memory, account.at_work.host, account.idle.host, more.host)};
}

bool Tenants::exceeds_memory(uint32_t slot, TenantMemory more) const {
  if (slot >= accounts_.size()) return false;
  const TenantAccount& account = accounts_[slot];
  const auto exceeds = [](const std::optional<Bytes>& quota, Bytes has, Bytes added) {
    return quota && added > Bytes(0) && has + added > *quota;
  };
  return exceeds(account.quotas.gpu_memory, account.at_work.gpu + account.idle.gpu, more.gpu) ||
         exceeds(account.quotas.host_memory, account.at_work.host + account.idle.host, more.host);
}

uint32_t Tenants::enter(TenantId id) {
  const auto [at, is_new] = slots_.emplace(id, static_cast<uint32_t>(accounts_.size()));
  if (is_new) {
    accounts_.push_back({.id = id});
    note_change(at->second);
  }
  return at->second;
}

void Tenants::change(TenantId id, double weight, const RunQuotas& quotas, Instant now) {
  const uint32_t slot = enter(id);
  TenantAccount& account = accounts_[slot];
  account.weight = weight;
  limited_ -= account.quotas != RunQuotas{} ? 1 : 0;
  account.quotas = quotas;
  limited_ += quotas != RunQuotas{} ? 1 : 0;
  // What is counted from then on goes on being counted.
  limit_memory_ |= quotas.limit_memory();
  account.told = told_ = true;
  account.hour.expire(now);
  note_hour(slot);
  note_change(slot);
}

void Tenants::set_time(Instant now) {
  if (over_hour_.empty()) return;
  const std::vector<uint32_t> over = over_hour_;
  for (const uint32_t slot : over) {
    accounts_[slot].hour.expire(now);
    note_hour(slot);
  }
}

void Tenants::count_runs(uint32_t slot, uint64_t more) {
  if (slot >= accounts_.size()) return;
  TenantAccount& account = accounts_[slot];
  const bool held = limited_ > 0 && holds_all(account);
  account.running += more;
  if (limited_ > 0 && held != holds_all(account)) note_change(slot);
}

void Tenants::count_again(const Flows& flows) {
  for (TenantAccount& account : accounts_) account.running = 0;
  for (const Flow& flow : flows) {
    if (flow.tenant_slot >= accounts_.size()) continue;
    accounts_[flow.tenant_slot].running += flow.in_flight + flow.on_host;
  }
  all_changed_ = ++version_;
}

void Tenants::add_gpu_time(uint32_t slot, Duration time, Instant now) {
  if (slot >= accounts_.size() || !accounts_[slot].told) return;
  accounts_[slot].hour.add(time, now);
  note_hour(slot);
}

bool Tenants::remember_gpu_time(TenantId id, Duration time, Duration age, Instant now) {
  const auto slot = find(id);
  if (!slot || !accounts_[*slot].told) return false;
  accounts_[*slot].hour.remember(time, age, now);
  note_hour(*slot);
  return true;
}

void Tenants::add_memory(uint32_t slot, bool at_work, TenantMemory memory) {
  TenantMemory& of_it = at_work ? accounts_[slot].at_work : accounts_[slot].idle;
  of_it.gpu += memory.gpu;
  of_it.host += memory.host;
}

void Tenants::take_memory(uint32_t slot, bool at_work, TenantMemory memory) {
  TenantMemory& of_it = at_work ? accounts_[slot].at_work : accounts_[slot].idle;
  of_it.gpu -= memory.gpu;
  of_it.host -= memory.host;
}

// After a change of its hour or of its quota.
void Tenants::note_hour(uint32_t slot) {
  TenantAccount& account = accounts_[slot];
  const auto& limit = account.quotas.gpu_time_per_hour;
  const bool over = limit && account.hour.used() >= *limit;
  if (over == account.over_hour) return;
  account.over_hour = over;
  note_change(slot);
  if (over) {
    over_hour_.push_back(slot);
  } else {
    std::erase(over_hour_, slot);
  }
}

void Tenants::note_limits() {
  limited_ = 0;
  for (const TenantAccount& account : accounts_) {
    limited_ += account.quotas != RunQuotas{} ? 1 : 0;
    limit_memory_ |= account.quotas.limit_memory();
  }
}

void Tenants::archive(StateArchive& archive) {
  archive.list(accounts_, [&](TenantAccount& account) {
    archive.field(account.id);
    archive.field(account.weight);
    archive.field(account.quotas.concurrency);
    archive.field(account.quotas.gpu_memory);
    archive.field(account.quotas.gpu_time_per_hour);
    archive.field(account.quotas.host_memory);
    archive.field(account.told);
    account.hour.archive(archive);
    archive.expect(account.weight >= limits::kLeastWeight && account.weight <= limits::kMostWeight);
  });
  archive.field(limit_memory_);
  if (!archive.reading() || !archive.ok()) return;
  const bool limit_memory = limit_memory_;
  slots_.clear();
  over_hour_.clear();
  told_ = false;
  for (uint32_t slot = 0; slot < accounts_.size(); ++slot) {
    TenantAccount& account = accounts_[slot];
    archive.expect(slots_.emplace(account.id, slot).second);
    told_ |= account.told;
    account.running = 0;
    account.at_work = account.idle = {};
    account.over_hour = false;
    note_hour(slot);
  }
  note_limits();
  limit_memory_ = limit_memory;
  all_changed_ = ++version_;
}

}  // namespace lambent::scheduling
