#include "decide/scheduling/foresight.h"

#include <algorithm>
#include <cmath>

namespace lambent::scheduling {
namespace {

// How many gaps what is not known of a function weighs.
constexpr double kDoubt = 1;

}  // namespace

void Foresight::arrived(FunctionId function, const Flow& flow, Instant now) {
  if (!learns_) return;
  if (function.value >= known_.size()) known_.resize(function.value + 1);
  Known& known = known_[function.value];
  if (flow.last_arrival != kNever) known.gaps.learn(now - flow.last_arrival);
  // A look that an oracle had planned may be older than what is known here.
  if (!known.may_look && !oracle_) return;
  known.may_look = false;
  no_look(function);
}

void Foresight::forget(FunctionId function) {
  no_look(function);
  if (function.value < known_.size()) known_[function.value] = {};
  if (function.value < expected_.size()) expected_[function.value] = {};
}

const GapHistogram* Foresight::gaps_of(FunctionId function) const {
  return function.value < known_.size() ? &known_[function.value].gaps : nullptr;
}

double Foresight::chance(FunctionId function, const Flow& flow, Duration mean_gap, Duration ahead,
                         Instant now) const {
  if (oracle_) {
    const Instant next = oracle_(function, now);
    return next == kNever ? 0 : to_seconds(ahead) / std::max(to_seconds(next - now), 1e-3);
  }
  const Duration silence = flow.last_arrival == kNever ? Duration(0) : now - flow.last_arrival;
  const double gap_s = std::max({to_seconds(mean_gap), to_seconds(silence), 1e-3});
  const double without = 1 - std::exp(-to_seconds(ahead) / gap_s);
  const GapHistogram* gaps = gaps_of(function);
  if (gaps == nullptr || gaps->samples() < kLeastGaps) return without;
  const GapHistogram::Ends ends = gaps->ends(silence, ahead);
  return (ends.within + kDoubt * without) / (ends.longer + kDoubt);
}

Duration Foresight::reach(Duration cold_start, Duration silence) const {
  return cold_start + std::max(options_.window, from_seconds(kWindowShare * to_seconds(silence)));
}

Duration Foresight::horizon(Duration silence) const {
  return std::max({options_.horizon, from_seconds(kHorizonShare * to_seconds(silence)),
                   Duration(milliseconds(1))});
}

void Foresight::expect(FunctionId function, const Expectation& expectation) {
  if (function.value >= known_.size()) known_.resize(function.value + 1);
  if (function.value >= expected_.size()) expected_.resize(function.value + 1);
  expected_[function.value] = expectation;
}

void Foresight::plan_look(FunctionId function, const Flow& flow, Duration cold_start, Instant now) {
  if (!learns_) return;
  if (oracle_) {
    const Instant next = oracle_(function, now);
    if (next != kNever) look_at(function, std::max(now, next - cold_start));
    return;
  }
  if (flow.last_arrival == kNever) return;
  const GapHistogram* gaps = gaps_of(function);
  if (gaps == nullptr || gaps->samples() < kLeastGaps || gaps->out_of_bounds()) return;
  const auto ahead = [&](Duration silence) { return reach(cold_start, silence); };
  const auto is_likely = [&](Duration silence) {
    const GapHistogram::Ends ends = gaps->ends(silence, ahead(silence));
    return ends.within >= kLeastChance * (ends.longer + kDoubt);
  };
  const Duration silence = gaps->first_likely(now - flow.last_arrival, ahead, is_likely);
  if (silence != Duration::max()) look_at(function, flow.last_arrival + silence);
}

void Foresight::archive(StateArchive& archive) {
  if (!learns_) return;
  size_t next = 0;
  archive.list(known_, [&](Known& known) {
    known.gaps.archive(archive);
    if (next >= expected_.size()) expected_.resize(next + 1);
    Expectation& expectation = expected_[next++];
    archive.field(expectation.at);
    archive.field(expectation.silence);
    archive.field(expectation.within);
    archive.field(expectation.chance);
  });
  looks_.archive(archive);
  if (!archive.reading()) return;
  for (uint32_t id = 0; id < known_.size(); ++id) known_[id].may_look = looks_.of(id) != kNever;
}

}  // namespace lambent::scheduling
