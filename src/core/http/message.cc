#include "core/http/message.h"

#include <strings.h>

#include <algorithm>

namespace lambent::http {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

void Headers::set(std::string_view name, std::string value) {
  std::erase_if(fields_, [&](const auto& field) { return same_name(field.first, name); });
  add(std::string(name), std::move(value));
}

std::string_view Headers::get(std::string_view name) const {
  for (const auto& [field, value] : fields_) {
    if (same_name(field, name)) return value;
  }
  return {};
}

bool Headers::contains(std::string_view name) const {
  return std::any_of(fields_.begin(), fields_.end(),
                     [&](const auto& field) { return same_name(field.first, name); });
}

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

std::string_view query_of(std::string_view target) {
  const size_t mark = target.find('?');
  return mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
}

bool percent_decode(std::string_view text, std::string& out) {
  out.clear();
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] != '%') {
      if (text[i] == '\0') return false;
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return false;
    const int high = hex_digit(text[i + 1]);
    const int low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0)) return false;
    out += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return true;
}

std::string percent_encode(std::string_view text) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  return out;
}

std::string query_value(std::string_view query, std::string_view name) {
  std::string decoded;
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const size_t equals = pair.find('=');
    if (!percent_decode(pair.substr(0, equals), decoded) || decoded != name) continue;
    if (equals == std::string_view::npos) return {};
    std::string value(pair.substr(equals + 1));
    std::replace(value.begin(), value.end(), '+', ' ');
    return percent_decode(value, decoded) ? decoded : std::string();
  }
  return {};
}

}  // namespace lambent::http
