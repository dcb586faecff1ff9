#include "emulator/emulated_runtime/device_names.h"

#include <cctype>

namespace lambent::emulated_runtime {
namespace {

// Behind `__nv_static_25__ec32f1a1_4_b_cu_297892b7_`: the number is the length of the file's mark.
std::string_view without_file(std::string_view name) {
  constexpr std::string_view prefix = "__nv_static_";
  if (!name.starts_with(prefix)) return name;
  size_t at = prefix.size(), length = 0;
  while (at < name.size() && length < name.size() &&
         std::isdigit(static_cast<unsigned char>(name[at]))) {
    length = length * 10 + static_cast<size_t>(name[at++] - '0');
  }
  const size_t end = at + 1 + length;  // an underscore stands before the mark, and one behind
  if (end >= name.size() || name[at] != '_' || name[end] != '_') return name;
  return name.substr(end + 1);
}

}  // namespace

std::string name_in_host_code(std::string_view registered) {
  registered = without_file(registered);
  std::string name;
  for (size_t at = 0; at < registered.size();) {
    size_t digits = at;
    size_t length = 0;
    while (digits < registered.size() && length < registered.size() &&
           std::isdigit(static_cast<unsigned char>(registered[digits]))) {
      length = length * 10 + static_cast<size_t>(registered[digits++] - '0');
    }
    const std::string_view rest = registered.substr(digits);
    const bool component = digits > at && length > 0 && length <= rest.size();
    if (component && rest.starts_with("_GLOBAL__N__")) {
      name += "15lambent_unnamed";
    } else if (!component || !rest.starts_with("_INTERNAL_")) {
      // What follows a number may be no name (an array's size), so only the number is passed over.
      const size_t next = digits > at ? digits : at + 1;
      name += registered.substr(at, next - at);
      at = next;
      continue;
    }
    at = digits + length;
  }
  return name;
}

}  // namespace lambent::emulated_runtime
