// Tenants: the share and the quotas of each tenant, what it uses of them, and which of its flows
// have to wait for them. Owned by dispatch, on the loop thread; read by policies.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/base/ids.h"
#include "core/base/state_archive.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "decide/scheduling/flow.h"
#include "decide/scheduling/sliding_hour.h"
#include "decide/scheduling/wait_reason.h"

namespace lambent::scheduling {

// What a tenant may use at once, and in an hour. One that is not set does not limit.
struct RunQuotas {
  std::optional<uint64_t> concurrency;
  std::optional<Bytes> gpu_memory;
  std::optional<Duration> gpu_time_per_hour;
  std::optional<Bytes> host_memory;

  bool limit_memory() const { return gpu_memory || host_memory; }
  bool operator==(const RunQuotas&) const = default;
};

// Memory that sandboxes of a tenant are admitted with.
struct TenantMemory {
  Bytes gpu;   // on GPUs, all together
  Bytes host;  // the limits of what they may take of the host's

  bool operator==(const TenantMemory&) const = default;
};

struct TenantAccount {
  TenantId id;
  double weight = 1;
  RunQuotas quotas;
  uint64_t running = 0;  // invocations that were dispatched and are not over
  // Of sandboxes that start or work, and of idle ones; only while any tenant has a quota of memory.
  TenantMemory at_work, idle;
  SlidingHour hour;        // only from when its quotas were told first
  bool over_hour = false;  // it has used its GPU time
  bool told = false;       // of by an event, and not only by a function's profile
};

// A tenant has a slot, which counts from 0 in the order in which they came: flows keep it.
class Tenants {
 public:
  // ---- Questions

  size_t size() const { return accounts_.size(); }
  const TenantAccount& operator[](uint32_t slot) const { return accounts_[slot]; }
  std::optional<uint32_t> find(TenantId id) const;
  double weight(uint32_t slot) const {
    return slot < accounts_.size() ? accounts_[slot].weight : 1;
  }
  // Whether there is more than one, or one was told of: then what is kept of them is part of the
  // state. Once true it stays so.
  bool matter() const { return told_ || accounts_.size() > 1; }
  // Whether any ever had a quota of memory: what their sandboxes take is counted since.
  bool limit_memory() const { return limit_memory_; }
  bool limit_memory(uint32_t slot) const {
    return slot < accounts_.size() && accounts_[slot].quotas.limit_memory();
  }

  // Which quota keeps the flow from starting one more where it takes turns, or, as a CPU variant,
  // on the host; kNone: none does. A flow with an idle sandbox that it may use is never held by
  // memory, for that is counted already.
  WaitReason hold_of(const Flow& flow) const {
    return limited_ > 0 ? find_hold(flow, flow.whole_device_memory()) : WaitReason::kNone;
  }
  WaitReason hold_on_host(const Flow& flow) const {
    return limited_ > 0 ? find_hold(flow, Bytes(0)) : WaitReason::kNone;
  }
  // Whether none of its flows may start one more on a GPU, whatever memory it takes.
  bool hold_all(uint32_t slot) const {
    return limited_ > 0 && slot < accounts_.size() && holds_all(accounts_[slot]);
  }
  // Whether it has used the GPU time that it has in an hour.
  bool is_over_hour(uint32_t slot) const {
    return slot < accounts_.size() && accounts_[slot].over_hour;
  }
  // Which quota is too small for it even if the tenant uses nothing; kNone: it may wait.
  WaitReason never_allows(const Flow& flow) const;
  // Changes whenever an answer of hold_all(), limit_memory() or matter() does.
  uint64_t version() const { return version_; }
  // Visits the slots whose answers may be others than they were at that version; false if that is
  // no longer known: then any may be.
  template <typename Visit>
  bool for_each_changed(uint64_t since, Visit visit) const {
    if (since < all_changed_ || version_ - since > kRemembered) return false;
    for (uint64_t each = since + 1; each <= version_; ++each) visit(changed_[each % kRemembered]);
    return true;
  }
  // When time by itself ends a hold; kNever if it ends none.
  Instant next_release(Instant now) const;
  // Of which memory the tenant's quotas do not hold what its sandboxes have and `more`, while idle
  // sandboxes have some of it.
  struct Crowded {
    bool gpu = false;
    bool host = false;
  };
  Crowded crowded(uint32_t slot, TenantMemory more) const;

  // Whether its quotas do not hold `more` beside all that its sandboxes have.
  bool exceeds_memory(uint32_t slot, TenantMemory more) const;

  // ---- What dispatch did

  // The slot of the tenant, which is new if it is not known.
  uint32_t enter(TenantId id);
  void change(TenantId id, double weight, const RunQuotas& quotas, Instant now);
  // The present; GPU time that was used longer ago than an hour comes back.
  void set_time(Instant now);
  void run_started(uint32_t slot) { count_runs(slot, 1); }
  void run_ended(uint32_t slot) { count_runs(slot, ~uint64_t{0}); }
  // Counts the runs of all flows again: after one has become another tenant's, or was read.
  void count_again(const Flows& flows);
  void add_gpu_time(uint32_t slot, Duration time, Instant now);
  // Of a run about `age` ago, which a program before this one counted. False: it is not told of.
  bool remember_gpu_time(TenantId id, Duration time, Duration age, Instant now);
  void add_memory(uint32_t slot, bool at_work, TenantMemory memory);
  void take_memory(uint32_t slot, bool at_work, TenantMemory memory);

  // All but what follows from flows and sandboxes: runs and memory, which are counted again.
  void archive(StateArchive& archive);

 private:
  static bool holds_all(const TenantAccount& account) {
    const auto& most = account.quotas.concurrency;
    return account.over_hour || (most && account.running >= *most);
  }
  WaitReason find_hold(const Flow& flow, Bytes gpu_memory) const;
  void count_runs(uint32_t slot, uint64_t more);
  void note_hour(uint32_t slot);
  void note_limits();
  void note_change(uint32_t slot) { changed_[++version_ % kRemembered] = slot; }

  std::vector<TenantAccount> accounts_;
  std::unordered_map<TenantId, uint32_t> slots_;
  std::vector<uint32_t> over_hour_;  // those that have used their GPU time
  bool told_ = false;
  size_t limited_ = 0;  // how many have a quota
  bool limit_memory_ = false;
  uint64_t version_ = 1;
  uint64_t all_changed_ = 1;  // the last version at which any slot may have changed
  static constexpr size_t kRemembered = 64;
  std::array<uint32_t, kRemembered> changed_{};  // the slot, by version
};

}  // namespace lambent::scheduling
