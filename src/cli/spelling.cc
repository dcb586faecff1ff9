#include "cli/spelling.h"

#include <algorithm>
#include <vector>

namespace lambent::cli {
namespace {

// Insertions, deletions, changes and swaps of neighbours that turn `a` into `b`.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> steps(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) steps[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) steps[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      steps[i][j] = std::min({steps[i - 1][j] + 1, steps[i][j - 1] + 1,
                              steps[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        steps[i][j] = std::min(steps[i][j], steps[i - 2][j - 2] + 1);
      }
    }
  }
  return steps[a.size()][b.size()];
}

}  // namespace

std::optional<std::string_view> closest_word(std::string_view word,
                                             std::span<const std::string_view> known) {
  constexpr size_t kLongest = 64;
  if (word.size() > kLongest) return std::nullopt;
  std::optional<std::string_view> best;
  size_t best_distance = SIZE_MAX;
  for (const std::string_view candidate : known) {
    const size_t steps = distance(word, candidate);
    if (steps < best_distance && steps <= std::max<size_t>(1, candidate.size() / 3)) {
      best = candidate;
      best_distance = steps;
    }
  }
  return best;
}

}  // namespace lambent::cli
