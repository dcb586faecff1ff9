#include "decide/scheduling/contention.h"

#include <algorithm>
#include <cmath>

namespace lambent::scheduling {
namespace {

// So much of the sums is left after each further run, and a mean follows as so many would make it.
constexpr double kKept = 1 - 1.0 / 256;
constexpr double kKeptOfFunction = 1 - 1.0 / 64;
constexpr uint64_t kWindow = 64;
// A function's mean is not trusted before so many runs.
constexpr uint64_t kLeastRuns = 3;
// Over about so many runs it is taken how far they are off together. The mean square of such a mean
// is that of one run by 2 n - 1, where each is off by chance.
constexpr double kDriftRuns = 8;
// A run that took longer than so many times the mean says no more than one that took so long.
constexpr double kMostRelative = 4;

// No run is further off what was expected, in shares of the mean.
constexpr double kMostOff = 100;

double factor(double slowdown, size_t others) { return 1 + slowdown * static_cast<double>(others); }

double estimate(double longer, double others, double prior) {
  const double weight = Contention::kPriorWeight;
  const double divisor = others + weight;
  if (divisor <= weight / 2) return prior;
  return std::clamp((longer + weight * prior) / divisor, 0.0, Contention::kMostSlowdown);
}

bool is_amount(double value) { return std::isfinite(value) && value >= 0; }

}  // namespace

double Contention::slowdown_of(FunctionId function) const {
  if (function.value >= seen_.size()) return slowdown();
  const Seen& seen = seen_[function.value];
  return estimate(seen.longer, seen.others, slowdown());
}

std::optional<Duration> Contention::unshared(FunctionId function) const {
  if (function.value >= seen_.size() || seen_[function.value].runs == 0) return std::nullopt;
  const Seen& seen = seen_[function.value];
  return from_seconds(seen.mean_s / (1 + slowdown_of(function) * seen.mean_others));
}

void Contention::begin(SandboxSlot slot, FunctionId function, uint32_t device, Instant now) {
  if (!learns_) return;
  if (function.value >= seen_.size()) seen_.resize(function.value + 1);
  Clock& clock = clocks_[device];
  advance(clock, now);
  clock.runs.push_back({slot, function, clock.times});
}

void Contention::end(SandboxSlot slot, uint32_t device, bool answered, Instant now) {
  if (!learns_) return;
  Clock& clock = clocks_[device];
  const auto run = std::find_if(clock.runs.begin(), clock.runs.end(),
                                [&](const Run& one) { return one.slot == slot; });
  if (run == clock.runs.end()) return;
  advance(clock, now);
  if (answered) learn(run->function, times_of(*run, clock, now));
  clock.runs.erase(run);
}

void Contention::forget(FunctionId function) {
  if (function.value < seen_.size()) seen_[function.value] = {};
}

void Contention::advance(Clock& clock, Instant now) {
  if (now <= clock.since) return;
  if (!clock.runs.empty()) {
    clock.times[std::min(clock.runs.size(), kLevels) - 1] += to_seconds(now - clock.since);
  }
  clock.since = now;
}

Contention::Times Contention::times_of(const Run& run, const Clock& clock, Instant now) {
  Times times = clock.times;
  times[std::min(clock.runs.size(), kLevels) - 1] += to_seconds(now - clock.since);
  for (size_t level = 0; level < kLevels; ++level) {
    times[level] = std::max(0.0, times[level] - run.before[level]);
  }
  return times;
}

double Contention::work_of(const Times& times, double slowdown) {
  double work = 0;
  for (size_t level = 0; level < kLevels; ++level) work += times[level] / factor(slowdown, level);
  return work;
}

// With m the mean of what the function's runs took, o that of the others beside them, and w what it
// takes by itself, m = w (1 + s o), and a run beside o' others takes m' = w (1 + s o'). Without w
// that is m' / m - 1 = s (o' - o m' / m). Both sides are multiplied by o' - o and summed up: the
// ratio of the sums is s. Where runs vary by themselves, long ones come together, so that o' - o
// has to do with the chance in m': such runs count less (share_of_run).
//
// The others that a run was beside are a mean by the work done beside them, as what it takes is
// linear in that.
void Contention::learn(FunctionId function, const Times& times) {
  const double slowdown = slowdown_of(function);
  double took_s = 0, beside = 0;
  for (size_t level = 0; level < kLevels; ++level) {
    took_s += times[level];
    beside += static_cast<double>(level) * times[level] / factor(slowdown, level);
  }
  const double work = work_of(times, slowdown);
  if (!(work > 0)) return;
  const double others = beside / work;
  Seen& seen = seen_[function.value];
  if (seen.runs >= kLeastRuns && seen.mean_s > 0) {
    const double relative = std::min(took_s / seen.mean_s, kMostRelative);
    const double more = others - seen.mean_others;
    const double expected = (1 + slowdown * others) / (1 + slowdown * seen.mean_others);
    const double share = share_of_run(seen, relative - expected);
    const double longer = share * more * (relative - 1);
    const double at_one = share * more * (others - seen.mean_others * relative);
    longer_ = longer_ * kKept + longer;
    others_ = others_ * kKept + at_one;
    common_ = estimate(longer_, others_, kPrior);
    seen.longer = seen.longer * kKeptOfFunction + longer;
    seen.others = seen.others * kKeptOfFunction + at_one;
  }
  const double weight = 1.0 / static_cast<double>(std::min(++seen.runs, kWindow));
  seen.mean_s += (took_s - seen.mean_s) * weight;
  seen.mean_others += (others - seen.mean_others) * weight;
}

// How much a run counts that took so much more of the mean than was expected.
double Contention::share_of_run(Seen& seen, double off) const {
  if (spread_ == Spread::kIgnored) return 1;
  double square = off * off;
  if (spread_ == Spread::kOfSeveral) {
    seen.drift += (off - seen.drift) / kDriftRuns;
    square = std::max(square, seen.drift * seen.drift * (2 * kDriftRuns - 1));
  }
  seen.spread += (square - seen.spread) / static_cast<double>(std::min(seen.runs, kWindow));
  return 1 / (1 + seen.spread / (kPriorSpread * kPriorSpread));
}

void Contention::archive(StateArchive& archive) {
  if (!learns_) return;
  archive.list(seen_, [&](Seen& seen) {
    archive.field(seen.runs);
    archive.field(seen.mean_s);
    archive.field(seen.mean_others);
    archive.field(seen.longer);
    archive.field(seen.others);
    if (spread_ != Spread::kIgnored) archive.field(seen.spread);
    if (spread_ == Spread::kOfSeveral) archive.field(seen.drift);
    archive.expect(is_amount(seen.mean_s) && is_amount(seen.mean_others) && is_amount(seen.spread));
    archive.expect(std::isfinite(seen.longer) && std::isfinite(seen.others));
    archive.expect(std::abs(seen.drift) <= kMostOff);
  });
  archive.field(longer_);
  archive.field(others_);
  archive.expect(std::isfinite(longer_) && std::isfinite(others_));
  common_ = estimate(longer_, others_, kPrior);
  archive.expect(archive.count(clocks_.size()) == clocks_.size());
  if (!archive.ok()) return;
  for (Clock& clock : clocks_) {
    archive.field(clock.since);
    for (double& time : clock.times) archive.field(time);
    archive.list(clock.runs, [&](Run& run) {
      archive.field(run.slot);
      archive.field(run.function);
      for (double& time : run.before) archive.field(time);
      archive.expect(run.function.value < seen_.size());
    });
    for (const double time : clock.times) archive.expect(is_amount(time));
  }
}

}  // namespace lambent::scheduling
