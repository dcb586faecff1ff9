#include "decide/scheduling/gain.h"

#include <algorithm>

namespace lambent::scheduling {
namespace {

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

Duration least_left_that_gains(const Share& newcomer, std::span<const Share> at_work) {
  const Balance balance = balance_of(newcomer, at_work);
  if (balance.gain_s >= balance.cost_s) return Duration(0);
  double slowdowns = newcomer.slowdown;
  for (const Share& run : at_work) slowdowns += run.slowdown;
  return from_seconds(to_seconds(newcomer.left) * slowdowns);
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
