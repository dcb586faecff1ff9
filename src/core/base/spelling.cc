#include "core/base/spelling.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace lambent {

size_t edit_distance(std::string_view a, std::string_view b) {
  // The last three rows of the table: steps from the first i letters of a to the first j of b.
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> above(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::optional<std::string_view> closest_word(std::string_view word,
                                             std::span<const std::string_view> known) {
  constexpr size_t kLongest = 64;
  if (word.size() > kLongest) return std::nullopt;
  std::optional<std::string_view> best;
  size_t best_distance = SIZE_MAX;
  for (const std::string_view candidate : known) {
    const size_t steps = edit_distance(word, candidate);
    if (steps < best_distance && steps <= std::max<size_t>(1, candidate.size() / 3)) {
      best = candidate;
      best_distance = steps;
    }
  }
  return best;
}

std::string suggestion(std::optional<std::string_view> meant, std::string_view prefix) {
  if (!meant) return "";
  return std::string(kSuggests) + "'" + std::string(prefix) + std::string(*meant) + "'?";
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known,
                         std::string_view prefix) {
  return suggestion(closest_word(word, known), prefix);
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known,
                         std::string_view prefix) {
  return did_you_mean(word, std::vector<std::string_view>(known.begin(), known.end()), prefix);
}

}  // namespace lambent
