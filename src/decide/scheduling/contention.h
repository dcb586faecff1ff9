// Contention: how much longer runs take beside others on their device, learnt from what they took.
// Owned by Fleet, on the loop thread; policies read it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "core/base/state_archive.h"
#include "core/base/time.h"
#include "decide/scheduling/sandbox.h"
#include "decide/scheduling/spread.h"

namespace lambent::scheduling {

// The model: with n runs at work on a device, one takes 1 + s (n - 1) times as long as by itself,
// where s is the slow-down of its function. s is 1 where contexts take turns, and less where their
// kernels run side by side.
//
// What is learnt from: of each run that ends, how long it took, and how long it was beside how many
// others. Within one function, those that were beside more others than its mean take longer by s
// times the difference; that is put together over all functions, and for each of them. So nothing
// has to run by itself for it, and functions of any length are compared with themselves only. The
// runs before weigh less with each that follows, so it follows a device that changes.
//
// If it weighs the spread, a run counts by 1 / (1 + v / 0.25^2), with v the mean square of how far,
// in shares of the mean, the function's runs were from what was expected. Where runs take one time
// now and five times that then, long ones come together and lie beside each other. That looks like
// a slow-down, and is none. So the prior, and what other functions tell, weigh more there. Of
// several: v is also at least the square of the mean over the last few runs, times how much less it
// is than that of one where each is off by chance. Where those that follow each other are off
// together, that is more.
//
// Deterministic: plain arithmetic on what it was told.
class Contention {
 public:
  // The slow-down that is assumed before anything was seen, and how much that weighs: as much as a
  // run that was beside one other more than the mean.
  static constexpr double kPrior = 0.2;
  static constexpr double kPriorWeight = 1;
  // What is learnt is never more than that.
  static constexpr double kMostSlowdown = 8;

  // By how much slow-downs are off the prior, mostly.
  static constexpr double kPriorSpread = 0.25;

  // `learns` false: nothing is followed, and the prior stays.
  Contention(size_t devices, bool learns, Spread spread = Spread::kIgnored)
      : learns_(learns), spread_(spread), clocks_(learns ? devices : 0) {}

  // The run in this sandbox is at work from now on: its memory is on the device.
  void begin(SandboxSlot slot, FunctionId function, uint32_t device, Instant now);
  // It is at work no longer; nothing happens if it was not. `answered`: its handler did, so that
  // the time that it took says something.
  void end(SandboxSlot slot, uint32_t device, bool answered, Instant now);
  // The function is another one from now on.
  void forget(FunctionId function);

  // Of all functions together, and of one: as all others are until its own runs tell.
  double slowdown() const { return common_; }
  double slowdown_of(FunctionId function) const;
  // What a run of the function takes by itself; nothing where none has ended.
  std::optional<Duration> unshared(FunctionId function) const;

  size_t at_work(uint32_t device) const { return learns_ ? clocks_[device].runs.size() : 0; }
  // Calls visit(FunctionId, Duration) for each run at work there, with how much it has done: the
  // time that it would have taken for that by itself.
  template <typename Visit>
  void for_each_at_work(uint32_t device, Instant now, Visit visit) const {
    if (!learns_) return;
    for (const Run& run : clocks_[device].runs) {
      const double slowdown = slowdown_of(run.function);
      visit(run.function, from_seconds(work_of(times_of(run, clocks_[device], now), slowdown)));
    }
  }

  void archive(StateArchive& archive);

 private:
  // How long with one, two, ... at work, in seconds; the last one also counts for more.
  static constexpr size_t kLevels = 8;
  using Times = std::array<double, kLevels>;

  struct Run {
    SandboxSlot slot = kNoSandbox;
    FunctionId function;
    Times before{};  // of its device, when it began
  };
  struct Clock {
    Instant since{};
    Times times{};  // up to then
    std::vector<Run> runs;
  };
  // What was seen of a function. The sums are of products of how much more others a run was beside
  // than the mean, with how much longer it took, and with what that would be at a slow-down of 1.
  struct Seen {
    uint64_t runs = 0;
    double mean_s = 0;
    double mean_others = 0;
    double longer = 0;
    double others = 0;
    double spread = 0;  // v; 0 where it is not weighed
    double drift = 0;   // how far the last ones were off on average, where that is weighed
  };

  static Times times_of(const Run& run, const Clock& clock, Instant now);
  static double work_of(const Times& times, double slowdown);
  static void advance(Clock& clock, Instant now);
  void learn(FunctionId function, const Times& times);
  double share_of_run(Seen& seen, double off) const;

  bool learns_;
  Spread spread_;
  std::vector<Clock> clocks_;  // by device
  std::vector<Seen> seen_;     // by FunctionId
  double longer_ = 0;          // over all functions
  double others_ = 0;
  double common_ = kPrior;  // slowdown(), by these two
};

}  // namespace lambent::scheduling
