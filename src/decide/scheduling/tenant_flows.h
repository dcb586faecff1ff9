// TenantFlows: what fair queuing knows of the flows of each tenant. Owned by FairQueuing, on the
// loop thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "decide/scheduling/indexed_heap.h"
#include "decide/scheduling/tenants.h"
#include "decide/scheduling/waiting_order.h"

namespace lambent::scheduling {

// Orders candidates, the least first; of equals the lower FunctionId.
struct FairRank {
  uint64_t rule = 0;
  Duration time{};  // never negative
  bool operator==(const FairRank&) const = default;
  // One comparison of 128 bits has no branch in it.
  bool operator<(const FairRank& other) const { return word() < other.word(); }
  unsigned __int128 word() const {
    return static_cast<unsigned __int128>(rule) << 64 | static_cast<uint64_t>(time.count());
  }
};

// Where the flows of all tenants are in what each tenant has of its own.
struct FlowPlaces {
  HeapPositions working;
  WaitingPlaces candidates, throttled;
};

// The flows of one tenant.
struct TenantFlows {
  explicit TenantFlows(FlowPlaces& places)
      : working(places.working), candidates(places.candidates), throttled(places.throttled) {}

  Duration global{};  // virtual time
  Duration longer{};  // by so much T is more than it was set to
  // Flows with pending or running work that some healthy device could hold.
  IndexedHeap<Duration, true> working;
  // Flows that may start one more invocation: those within T, and those beyond.
  WaitingOrder<FairRank, true> candidates;
  WaitingOrder<Duration, true> throttled;
  size_t cold = 0;             // candidates without an idle sandbox, where that is known
  bool held = false;           // its quotas hold all of them
  bool limits_memory = false;  // they may hold some of them
  bool is_noted = false;       // it is among TenantTable::noted()

  // Whether a flow at that virtual time is ahead by more than T, which was set to `over_run`.
  bool throttles(Duration virtual_time, Duration over_run) const {
    return virtual_time > global + over_run + longer;
  }
  bool waits() const { return !candidates.empty() || !throttled.empty(); }
  bool has_notes() const { return !candidates.noted().empty() || !throttled.noted().empty(); }
  void notice_quotas(const Tenants& tenants, uint32_t slot) {
    held = tenants.hold_all(slot);
    limits_memory = tenants.limit_memory(slot);
  }
};

// By the slot of the tenant; there is always one.
class TenantTable {
 public:
  TenantTable() { grow(1); }
  TenantTable(const TenantTable&) = delete;
  TenantTable& operator=(const TenantTable&) = delete;

  size_t size() const { return tenants_.size(); }
  TenantFlows& operator[](size_t slot) { return tenants_[slot]; }
  const TenantFlows& operator[](size_t slot) const { return tenants_[slot]; }
  auto begin() { return tenants_.begin(); }
  auto end() { return tenants_.end(); }
  auto begin() const { return tenants_.begin(); }
  auto end() const { return tenants_.end(); }

  void grow(size_t size) {
    while (tenants_.size() < size) tenants_.emplace_back(places_);
  }
  // As it was at the beginning.
  void clear() {
    tenants_.clear();
    noted_.clear();
    places_ = {};
    grow(1);
  }

  // A walk along its flows begins, which takes notes.
  void note(TenantFlows& tenant) {
    if (std::exchange(tenant.is_noted, true)) return;
    noted_.push_back(static_cast<uint32_t>(&tenant - tenants_.data()));
  }
  // Those with notes; no others are looked at for them.
  const std::vector<uint32_t>& noted() {
    std::erase_if(noted_, [this](uint32_t slot) {
      tenants_[slot].is_noted = tenants_[slot].has_notes();
      return !tenants_[slot].is_noted;
    });
    return noted_;
  }

 private:
  FlowPlaces places_;
  std::vector<TenantFlows> tenants_;
  std::vector<uint32_t> noted_;  // and perhaps some that have none any more
};

}  // namespace lambent::scheduling
