// The names by which nvcc registers kernels and variables, as modules for the host have them. Pure;
// used by the emulated runtime's registry and by lambent-bundle.
#pragma once

#include <cctype>
#include <string>
#include <string_view>

namespace lambent::cuda_abi {

// Behind `__nv_static_25__ec32f1a1_4_b_cu_297892b7_`: the number is the length of the file's mark.
inline std::string_view without_file(std::string_view name) {
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

// In a mangled name nvcc gives an unnamed namespace a name of its own for each file
// (33_GLOBAL__N__ec32f1a1_5_st_cu_main), behind a mark of the file for variables; lambent-bundle
// calls it lambent_unnamed in all of them. Where a program's files are linked by nvcc (-rdc), what
// is static in one of them has its mark in front. Other names stay as they are.
inline std::string name_in_host_code(std::string_view registered) {
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

}  // namespace lambent::cuda_abi
