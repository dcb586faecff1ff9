// How messages repeat the names of a foreign zip.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.h"

namespace lambent::archive {

// Printable ASCII, and not all of a long one.
inline std::string shown_name(std::string_view name) {
  constexpr size_t kMost = 200;
  std::string text;
  for (const char c : name.substr(0, kMost)) text += c >= ' ' && c < 127 ? c : '?';
  return text;
}

inline Error refused_entry(std::string_view name, std::string_view why) {
  return Error{ErrorCode::kInvalidArgument,
               "entry '" + shown_name(name) + "' of the zip is refused: " + std::string(why)};
}

}  // namespace lambent::archive
