// Checks of numbers and words on command lines. Used by mains.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
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
        if (!CLI::detail::lexical_cast(text, number)) {
          return "'" + text + "' is not a number from " + description;
        }
        const bool fits = number >= least && number <= most;
        return fits ? "" : "Value " + text + " not in range " + description;
      },
      description);
}

// Only digits: for an unsigned number CLI takes -1 for the largest that there is.
inline CLI::Validator whole_number() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const bool digits = text.find_first_not_of("0123456789") == std::string::npos;
        return digits && !text.empty() ? "" : "Value " + text + " is no whole number";
      },
      "");
}

// A file that can be written, so that no user waits for results that then have no place.
inline CLI::Validator output_file() {
  return CLI::Validator(
      [](std::string& path) -> std::string {
        struct stat there {};
        const bool exists = stat(path.c_str(), &there) == 0;
        if (exists && S_ISDIR(there.st_mode)) return path + " is a folder";
        const bool is_special = exists && !S_ISREG(there.st_mode);
        const size_t slash = path.rfind('/');
        const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
        if (access(is_special ? path.c_str() : folder.c_str(), is_special ? W_OK : W_OK | X_OK) ==
            0) {
          return "";
        }
        return "cannot write " + path + ": " + std::strerror(errno);
      },
      "");
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
