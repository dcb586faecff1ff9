#include "core/base/units.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace lambent {

std::string to_string(Bytes bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double amount = static_cast<double>(bytes.count);
  size_t unit = 0;
  while (amount >= 1024 && unit + 1 < std::size(kUnits)) {
    amount /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), amount == std::floor(amount) ? "%.0f %s" : "%.1f %s", amount,
                kUnits[unit]);
  return text;
}

Result<Bytes> parse_bytes(std::string_view text) {
  const Error bad{ErrorCode::kInvalidArgument, "'" + std::string(text) +
                                                   "' is not an amount of memory; write it like "
                                                   "512M or 1.5GiB"};
  const std::string copy(text);
  char* end = nullptr;
  const double amount = std::strtod(copy.c_str(), &end);
  if (end == copy.c_str() || !(amount >= 0) || amount > 1e18) return bad;
  std::string_view unit = std::string_view(end);
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  double factor = 1;
  if (!unit.empty()) {
    switch (unit.front() & ~0x20) {
      case 'B':
        factor = 1;
        break;
      case 'K':
        factor = 0x1p10;
        break;
      case 'M':
        factor = 0x1p20;
        break;
      case 'G':
        factor = 0x1p30;
        break;
      case 'T':
        factor = 0x1p40;
        break;
      default:
        return bad;
    }
    const std::string_view rest = unit.substr(1);
    if (rest != "" && rest != "B" && rest != "b" && rest != "iB" && rest != "ib") return bad;
  }
  if (amount * factor > 1e18) return bad;
  return Bytes(static_cast<uint64_t>(amount * factor));
}

}  // namespace lambent
