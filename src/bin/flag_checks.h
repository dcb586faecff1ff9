// Checks of numbers and words on command lines. Used by mains.
#pragma once

#include <CLI/CLI.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace lambent::bin {

// From least to most, which CLI::Range takes NaN for as well.
inline CLI::Validator within(double least, double most) {
  std::ostringstream range;
  range << least << " to " << most;
  const std::string description = range.str();
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        double number = 0;
        if (!CLI::detail::lexical_cast(text, number) || !(number >= least && number <= most)) {
          return "Value " + text + " not in range " + description;
        }
        return "";
      },
      description);
}

// One of these words, in their order, which help shows as people write them; for ->transform() on
// an option whose variable is the enum.
template <typename Value>
CLI::Validator one_of(std::vector<std::pair<std::string, Value>> words) {
  std::string description;
  for (const auto& [word, value] : words) description += (description.empty() ? "" : ",") + word;
  return CLI::Validator(
      [words = std::move(words), description](std::string& text) -> std::string {
        for (const auto& [word, value] : words) {
          if (text != word) continue;
          text = std::to_string(static_cast<int>(value));
          return "";
        }
        return "'" + text + "' is none of " + description;
      },
      "{" + description + "}");
}

}  // namespace lambent::bin
