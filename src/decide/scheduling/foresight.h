// Foresight: when functions are likely to be called next, by how long they were silent before.
// Owned by Fleet, on the loop thread; eviction and dispatch's StartsAhead ask it.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/base/fetch_lines.h"
#include "core/base/ids.h"
#include "core/base/state_archive.h"
#include "core/base/time.h"
#include "decide/scheduling/deadlines.h"
#include "decide/scheduling/flow.h"
#include "decide/scheduling/gap_histogram.h"

namespace lambent::scheduling {

struct ForesightOptions {
  // Whether sandboxes are started, and memory brought in, ahead of calls that are likely soon.
  bool starts_ahead = false;
  // Within what time after a start a call has to be likely for it: this, or kWindowShare of how
  // long the function is silent already, whichever is more.
  Duration window = seconds(20);
  // Within what time a call counts when an idle sandbox is to be evicted (EvictionRule::kForeseen):
  // this, or kHorizonShare of the silence.
  Duration horizon = seconds(60);
  // After a look at a function that came to nothing: when the next one is.
  Duration look_again = seconds(5);
};

// It takes 150 bytes for each function that was called. Deterministic: plain arithmetic.
class Foresight {
 public:
  // Fewer gaps foretell nothing.
  static constexpr uint32_t kLeastGaps = 3;
  // So likely a call has to be for a start ahead of it.
  static constexpr double kLeastChance = 0.35;
  static constexpr double kWindowShare = 0.25;
  static constexpr double kHorizonShare = 0.5;

  // What was expected when a sandbox was started ahead of a call: for `why`.
  struct Expectation {
    Instant at{};        // when that was decided; zero: never
    Duration silence{};  // since its last call, then
    Duration within{};   // a call was expected within so long
    double chance = 0;
  };

  // `learns` false: nothing is followed.
  Foresight(const ForesightOptions& options, bool learns) : options_(options), learns_(learns) {}
  bool learns() const { return learns_; }

  // For what a simulation knows: when each function is called next after an instant, or kNever.
  // From then on that is what everything here goes by.
  using Oracle = std::function<Instant(FunctionId, Instant)>;
  void ask(Oracle oracle) { oracle_ = std::move(oracle); }

  // A call of it has come. `flow` knows the one before.
  void arrived(FunctionId function, const Flow& flow, Instant now);
  // The function is another one from now on.
  void forget(FunctionId function);

  // How likely it is called within `ahead` from now, having been silent since its last call. Where
  // its gaps say nothing, as if they were `mean_gap` long on average and without memory.
  double chance(FunctionId function, const Flow& flow, Duration mean_gap, Duration ahead,
                Instant now) const;
  // The time within which a start has to meet a call: what the start takes and the window after.
  Duration reach(Duration cold_start, Duration silence) const;
  Duration horizon(Duration silence) const;

  void expect(FunctionId function, const Expectation& expectation);
  // The last one of the function.
  Expectation expectation(FunctionId function) const {
    return function.value < expected_.size() ? expected_[function.value] : Expectation{};
  }

  // It has no sandbox whose memory is in: the next look at it is when a call is likely to come
  // soon after a start. None if that is never.
  void plan_look(FunctionId function, const Flow& flow, Duration cold_start, Instant now);
  void look_at(FunctionId function, Instant then) {
    looks_.put(function.value, then);
    if (function.value < known_.size()) known_[function.value].may_look = true;
  }
  void no_look(FunctionId function) { looks_.erase(function.value); }
  Instant earliest_look(Instant limit) { return looks_.earliest(limit); }
  bool any_look(Instant now) { return looks_.any_until(now); }
  FunctionId pop_look() { return FunctionId{looks_.pop()}; }

  // Into the caches, what arrived() of this one looks at.
  void fetch(FunctionId function) const {
    if (function.value < known_.size()) fetch_lines(known_[function.value], kCacheLine);
  }

  void archive(StateArchive& archive);

 private:
  // In lines of the processor's cache: a call looks at the first of its function's.
  struct alignas(64) Known {
    // False: no look at it was planned since the last call.
    bool may_look = false;
    GapHistogram gaps;
  };
  const GapHistogram* gaps_of(FunctionId function) const;

  ForesightOptions options_;
  bool learns_;
  Oracle oracle_;
  std::vector<Known> known_;           // by FunctionId
  std::vector<Expectation> expected_;  // the same
  Deadlines looks_;
};

}  // namespace lambent::scheduling
