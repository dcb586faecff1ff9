// Rounds: how far a flow's virtual time may be ahead, where that follows what waits. Owned by
// FairQueuing, told of flows that wait, on the loop thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/state_archive.h"
#include "core/base/time.h"
#include "decide/scheduling/flow.h"

namespace lambent::scheduling {

// T is at most so many times what it was set to.
constexpr int kMostOverRuns = 10;
// Rounds::scale is at most that.
constexpr unsigned kMostScale = 3;

// In a round each flow of a tenant that waits has a turn: a cold start, a twentieth of T where it
// never had one, and what waits of it, together at most T. T becomes two rounds where that is more.
class Rounds {
 public:
  // `follows` false: T stays what it is. `unit`: in what scale() is counted; zero: neither what
  // waits nor scales are counted.
  Rounds(Duration over_run, bool follows, Duration unit)
      : over_run_(over_run), follows_(follows), unit_(unit) {}

  // By how much the tenant's T is now more than it was set to.
  Duration longer(uint32_t tenant) const {
    if (tenant >= rounds_.size()) return Duration(0);
    const Duration over_run = std::min(2 * rounds_[tenant], over_run_ * kMostOverRuns);
    return std::max(over_run - over_run_, Duration(0));
  }
  // The invocations that wait, of all tenants that are not held; zero where they are not counted.
  uint64_t waiting() const { return waiting_; }
  // Whether quotas hold all that waits of the tenant.
  void hold(uint32_t tenant, bool held);
  // How many units a device needs for half of what waits of the tenant: 1 to kMostScale, in whole
  // ones.
  unsigned scale(uint32_t tenant) const { return tenant < scales_.size() ? scales_[tenant] : 1; }
  // By what waits now, shared by so many devices. Whether it is another than before.
  bool scale_again(uint32_t tenant, size_t devices);
  // After every change of what waits of the flow, or of its tenant. `takes`: a run of it.
  void count(FunctionId function, const Flow& flow, Duration takes, uint32_t tenant);

  // The turns, and scales; the sums of each tenant are found again from the turns. Who is held is
  // told again.
  void archive(StateArchive& archive, size_t flows);
  void find_again(const std::vector<uint32_t>& tenants);

 private:
  Duration over_run_;
  bool follows_;
  Duration unit_;
  struct Turn {
    Duration length{};
    uint32_t tenant = 0;
    uint32_t pending = 0;  // where they are counted
    Duration work{};       // of those
  };
  Duration turn_of(const Flow& flow, Duration takes) const;
  void count_waiting(const Turn& turn, bool comes);
  void grow(uint32_t tenant);

  std::vector<Turn> turns_;                  // by FunctionId
  std::vector<Duration> rounds_, backlogs_;  // by the slot of the tenant
  std::vector<uint8_t> scales_;              // likewise
  std::vector<uint64_t> pending_;            // what waits, likewise
  std::vector<uint8_t> held_;                // likewise
  uint64_t waiting_ = 0;
};

}  // namespace lambent::scheduling
