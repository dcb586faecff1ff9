#include "decide/scheduling/gain.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lambent::scheduling {
namespace {

// Of those that wait, how many gain what a device is done sooner.
constexpr double kShareThatGains = 0.5;
// Sums of times that differ by less are the same.
constexpr double kEqual_s = 1e-9;

struct Balance {
  double gain_s = 0;
  double cost_s = 0;
};

// At the run that has least left, which takes 1 + slow-down x others as long as by itself.
Balance balance_of(const Share& newcomer, std::span<const Share> at_work) {
  const auto first =
      std::min_element(at_work.begin(), at_work.end(),
                       [](const Share& one, const Share& other) { return one.left < other.left; });
  const auto others = static_cast<double>(at_work.size() - 1);
  Balance balance;
  balance.gain_s = to_seconds(first->left) * (1 + first->slowdown * others);
  balance.cost_s = to_seconds(std::min(first->left, newcomer.left)) * newcomer.slowdown;
  for (const Share& run : at_work) {
    balance.cost_s += to_seconds(std::min(run.left, newcomer.left)) * run.slowdown;
  }
  return balance;
}

// Of runs that share a device: the sum of the times until each has ended, and the time until all
// have.
struct Ends {
  double sum_s = 0;
  double last_s = 0;
};

// More at once than that are not followed: they count as if they were not there.
constexpr size_t kMostFollowed = 16;

// `late`, if there is one, begins when the first of the others ends.
Ends ends_of(std::span<const Share> runs, const Share* also, const Share* late) {
  struct Left {
    double s = 0;
    double slowdown = 0;
  };
  std::array<Left, kMostFollowed + 1> left;
  size_t count = 0;
  const auto add = [&](const Share& run) {
    if (count < left.size()) left[count++] = {to_seconds(run.left), run.slowdown};
  };
  for (const Share& run : runs.first(std::min(runs.size(), kMostFollowed - 1))) add(run);
  if (also != nullptr) add(*also);
  Ends ends;
  while (count > 0) {
    const auto others = static_cast<double>(count - 1);
    size_t first = 0;
    double step_s = left[0].s * (1 + left[0].slowdown * others);
    for (size_t i = 1; i < count; ++i) {
      const double end_s = left[i].s * (1 + left[i].slowdown * others);
      if (end_s < step_s) step_s = end_s, first = i;
    }
    for (size_t i = 0; i < count; ++i) {
      left[i].s = std::max(0.0, left[i].s - step_s / (1 + left[i].slowdown * others));
    }
    left[first] = left[--count];
    ends.last_s += step_s;
    ends.sum_s += ends.last_s;
    if (late != nullptr) add(*std::exchange(late, nullptr));
  }
  return ends;
}

// What n at work do together, of what one does by itself.
double rate(double slowdown, size_t n) {
  if (n == 0) return 0;
  return static_cast<double>(n) / (1 + slowdown * static_cast<double>(n - 1));
}

}  // namespace

bool gains_beside(const Share& newcomer, std::span<const Share> at_work) {
  const Balance balance = balance_of(newcomer, at_work);
  return balance.gain_s >= balance.cost_s;
}

bool gains_now(const Share& newcomer, std::span<const Share> at_work, double waiting) {
  const Ends now = ends_of(at_work, &newcomer, nullptr);
  const Ends after = ends_of(at_work, nullptr, &newcomer);
  const double sooner_s = after.last_s - now.last_s;
  return now.sum_s <= after.sum_s + kShareThatGains * waiting * std::max(0.0, sooner_s) + kEqual_s;
}

Duration slowed_by(const Share& newcomer, std::span<const Share> at_work) {
  double slowdowns = newcomer.slowdown;
  for (const Share& run : at_work) slowdowns += run.slowdown;
  return from_seconds(to_seconds(newcomer.left) * slowdowns);
}

Duration least_left_that_gains(const Share& newcomer, std::span<const Share> at_work) {
  const Balance balance = balance_of(newcomer, at_work);
  return balance.gain_s >= balance.cost_s ? Duration(0) : slowed_by(newcomer, at_work);
}

Duration left_of(Duration takes, Duration done) {
  const Duration difference = takes > done ? takes - done : done - takes;
  return std::max(difference, takes / 4);
}

bool gains_by_second(const SecondSandbox& second) {
  if (second.most_at_once <= second.at_work) return false;
  const double takes_s = to_seconds(second.takes);
  const double cold_start_s = to_seconds(second.cold_start);
  if (!(takes_s > 0)) return false;
  const double waiting = second.pending - cold_start_s / takes_s;
  const double before = std::max(1.0, rate(second.slowdown, second.at_work));
  const double after =
      rate(second.slowdown, second.at_work + 1) + (second.at_work == 0 ? 1.0 : 0.0);
  if (waiting <= 0 || after <= before) return false;
  const double saved_s = waiting * waiting * takes_s / 2 * (1 - before / after);
  return saved_s > kGainMargin * (cold_start_s + to_seconds(second.drives_out));
}

}  // namespace lambent::scheduling
