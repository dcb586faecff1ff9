#include "core/http/hop_by_hop.h"

#include <algorithm>

#include "core/http/forward_service.h"
#include "core/http/forward_words.h"

namespace lambent::http {
namespace {

constexpr std::string_view kHopByHop[] = {"Connection",
                                          "Keep-Alive",
                                          "Proxy-Connection",
                                          "Proxy-Authenticate",
                                          "Proxy-Authorization",
                                          "TE",
                                          "Trailer",
                                          "Transfer-Encoding",
                                          "Upgrade",
                                          kNotBegun,
                                          kNotHere};

// What a message means stands in these, so no list takes them away.
constexpr std::string_view kNeverNamed[] = {"Host",         "Authorization",    "Cookie",
                                            "Content-Type", "Content-Encoding", "Content-Length"};

}  // namespace

bool list_contains(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, comma);
    while (!item.empty() && (item.front() == ' ' || item.front() == '\t')) item.remove_prefix(1);
    while (!item.empty() && (item.back() == ' ' || item.back() == '\t')) item.remove_suffix(1);
    if (same_name(item, word)) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

Headers end_to_end(const Headers& headers) {
  Headers kept;
  const bool names_some = headers.contains("Connection");
  for (const auto& [name, value] : headers.fields()) {
    const auto is_name = [&name = name](std::string_view other) { return same_name(name, other); };
    if (std::any_of(std::begin(kHopByHop), std::end(kHopByHop), is_name)) continue;
    const bool is_named =
        names_some && std::any_of(headers.fields().begin(), headers.fields().end(),
                                  [&name = name](const auto& field) {
                                    return same_name(field.first, "Connection") &&
                                           list_contains(field.second, name);
                                  });
    if (!is_named) {
      kept.add(name, value);
      continue;
    }
    const bool stays = std::any_of(std::begin(kNeverNamed), std::end(kNeverNamed), is_name);
    if (stays) kept.add(name, value);
  }
  return kept;
}

std::string upgrade_of(const Headers& headers) {
  for (const auto& [name, value] : headers.fields()) {
    if (same_name(name, "Connection") && list_contains(value, "upgrade")) {
      const std::string_view protocols = headers.get("Upgrade");
      // Offered by clients that go on without it (Java's); a relay of HTTP/1.1 that let it through
      // would no longer see the requests.
      if (list_contains(protocols, "h2c")) return {};
      return std::string(protocols);
    }
  }
  return {};
}

void put_ours(const Headers& ours, Headers& headers) {
  for (const auto& [name, value] : ours.fields()) {
    if (same_name(name, "Vary")) {
      headers.add(name, value);
    } else {
      headers.set(name, value);
    }
  }
}

}  // namespace lambent::http
