// Checks of numbers on command lines. Used by mains.
#pragma once

#include <CLI/CLI.hpp>
#include <sstream>
#include <string>

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

}  // namespace lambent::bin
