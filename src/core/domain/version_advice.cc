#include "core/domain/version_advice.h"

#include <charconv>
#include <cstdint>

namespace lambent {

int compare_versions(std::string_view one, std::string_view other) {
  const auto take_number = [](std::string_view& text) {
    uint32_t number = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), number).ptr;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.starts_with('.')) text.remove_prefix(1);
    return number;
  };
  // What follows the numbers, such as "-dev", orders nothing.
  for (int part = 0; part < 3; ++part) {
    const uint32_t a = take_number(one);
    const uint32_t b = take_number(other);
    if (a != b) return a < b ? -1 : 1;
  }
  return 0;
}

std::string version_advice(std::string_view own, std::string_view node, std::string_view version) {
  if (own.empty() || version.empty() || own == version) return "";
  const std::string name = "node '" + std::string(node) + "'";
  const int order = compare_versions(own, version);
  const std::string what = order < 0 ? "upgrade this node" : "upgrade that node";
  return "this node has version " + std::string(own) + " and " + name + " version " +
         std::string(version) + ": " + (order == 0 ? "run one program on both" : what);
}

}  // namespace lambent
