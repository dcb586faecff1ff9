// TenantOrder: the virtual time of each tenant, and which tenant's flows go first. A part of fair
// queuing; owned by FairQueuing, on the loop thread.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/state_archive.h"
#include "core/base/time.h"
#include "decide/scheduling/indexed_heap.h"

namespace lambent::scheduling {

// The virtual time of a tenant is the service that its flows were charged, divided by its weight.
// Global virtual time is the least of the tenants with work, and never goes back. A tenant that
// joins these starts there: idle time earns no credit. Tenants are known by their slots.
class TenantOrder {
 public:
  // `over_run`: T, by which a tenant may be ahead of the global virtual time.
  explicit TenantOrder(Duration over_run) : over_run_(over_run) {}

  size_t size() const { return tenants_.size(); }
  // Slots below `size` exist from then on, without work.
  void grow(size_t size) {
    if (tenants_.size() < size) tenants_.resize(size);
  }
  Duration global() const { return global_; }
  Duration virtual_time(uint32_t slot) const {
    return slot < tenants_.size() ? tenants_[slot].virtual_time : Duration(0);
  }
  bool is_ahead(uint32_t slot) const { return virtual_time(slot) > global_ + over_run_; }
  // Tenants of which something waits, the one least charged first; of equals the lower slot.
  const std::vector<uint32_t>& waiting() const { return waiting_; }

  // Whether it has pending or running work, and may start some.
  void set_working(uint32_t slot, bool works);
  void set_waiting(uint32_t slot, bool waits);
  void charge(uint32_t slot, Duration service);
  // After these: global virtual time follows the least of those that work now.
  void advance();

  // Virtual times, and who works; who waits is told again.
  void archive(StateArchive& archive);

 private:
  struct Tenant {
    Duration virtual_time{};
    bool waits = false;
  };

  bool comes_before(uint32_t one, uint32_t other) const;

  const Duration over_run_;
  Duration global_{};
  std::vector<Tenant> tenants_;    // by slot
  IndexedHeap<Duration> working_;  // by virtual time
  std::vector<uint32_t> waiting_;  // in order
};

}  // namespace lambent::scheduling
