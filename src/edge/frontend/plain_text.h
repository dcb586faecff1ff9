// Plain text of requests, read piece by piece. Free functions; any thread.
#pragma once

#include <string_view>

namespace lambent::frontend {

// Without the spaces and tabs on both sides.
inline std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

}  // namespace lambent::frontend
