#include "decide/scheduling/tenant_order.h"

#include <algorithm>

#include "core/base/check.h"

namespace lambent::scheduling {

bool TenantOrder::comes_before(uint32_t one, uint32_t other) const {
  if (tenants_[one].virtual_time != tenants_[other].virtual_time) {
    return tenants_[one].virtual_time < tenants_[other].virtual_time;
  }
  return one < other;
}

void TenantOrder::set_working(uint32_t slot, bool works) {
  if (works == working_.contains(slot)) return;
  if (!works) {
    working_.erase(slot);
    return;
  }
  const bool waits = tenants_[slot].waits;
  set_waiting(slot, false);
  tenants_[slot].virtual_time = std::max(tenants_[slot].virtual_time, global_);
  set_waiting(slot, waits);
  working_.put(slot, tenants_[slot].virtual_time);
}

void TenantOrder::set_waiting(uint32_t slot, bool waits) {
  if (tenants_[slot].waits == waits) return;
  tenants_[slot].waits = waits;
  // Its virtual time is the one that it was put there with: charge() takes it out before a change.
  const auto at =
      std::lower_bound(waiting_.begin(), waiting_.end(), slot,
                       [&](uint32_t there, uint32_t added) { return comes_before(there, added); });
  if (waits) {
    waiting_.insert(at, slot);
  } else {
    CHECK(at != waiting_.end() && *at == slot, "who waits is among the waiting");
    waiting_.erase(at);
  }
}

void TenantOrder::charge(uint32_t slot, Duration service) {
  const bool waits = tenants_[slot].waits;
  set_waiting(slot, false);
  tenants_[slot].virtual_time += service;
  set_waiting(slot, waits);
  if (working_.contains(slot)) working_.put(slot, tenants_[slot].virtual_time);
}

void TenantOrder::advance() {
  if (!working_.empty()) global_ = std::max(global_, working_.top_key());
}

void TenantOrder::archive(StateArchive& archive) {
  archive.field(global_);
  archive.list(tenants_, [&](Tenant& tenant) { archive.field(tenant.virtual_time); });
  working_.archive(archive);
  if (!archive.reading()) return;
  waiting_.clear();
  for (size_t i = 0; i < working_.size(); ++i)
    archive.expect(working_.item_at(i) < tenants_.size());
}

}  // namespace lambent::scheduling
