// Names that an option takes, told to help and to the completion of shells. Used by mains.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>

namespace lambent::bin {

// For ->check() on an option whose variable is a name that another part judges, with words of its
// own: it lets all pass.
inline CLI::Validator shown_names(std::span<const std::string_view> names) {
  std::string list;
  for (const std::string_view name : names) list += (list.empty() ? "" : ",") + std::string(name);
  return CLI::Validator([](std::string&) { return std::string(); }, "{" + list + "}");
}

}  // namespace lambent::bin
