#include "node/worker/listening_places.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "core/base/fd.h"
#include "core/domain/ip_address.h"
#include "core/domain/limits.h"
#include "node/network/inner_network.h"

namespace lambent::worker {
namespace {

constexpr std::string_view kListens = "0A";  // the kernel's TCP_LISTEN
constexpr size_t kMostTable = 64 * 1024;
constexpr size_t kMostPlaces = 5;

// The next word of a line, which it is taken from.
std::string_view next_word(std::string_view& line) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  line.remove_prefix(begin);
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

template <typename Number>
std::optional<Number> hexadecimal(std::string_view text) {
  Number number{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  const bool is_whole = problem == std::errc() && end == text.data() + text.size();
  return is_whole && text.size() == 2 * sizeof(Number) ? std::optional(number) : std::nullopt;
}

// Words of 32 bits in the host's order, each of which holds four bytes in the network's.
std::optional<std::string> address_text(std::string_view digits) {
  constexpr size_t kDigits = 8;
  if (digits.size() != kDigits && digits.size() != 4 * kDigits) return std::nullopt;
  std::array<uint32_t, 4> words{};
  for (size_t i = 0; i * kDigits < digits.size(); ++i) {
    const auto word = hexadecimal<uint32_t>(digits.substr(i * kDigits, kDigits));
    if (!word) return std::nullopt;
    words[i] = *word;
  }
  if (digits.size() == kDigits) return to_string(IpAddress::v4(ntohl(words[0])));
  const IpAddress address = IpAddress::v6(words.data());
  return address.is_v4() ? to_string(address) : "[" + to_string(address) + "]";
}

// "ADDRESS:PORT" in digits.
std::optional<std::string> place_text(std::string_view digits) {
  const size_t colon = digits.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto address = address_text(digits.substr(0, colon));
  const auto port = hexadecimal<uint16_t>(digits.substr(colon + 1));
  if (!address || !port) return std::nullopt;
  return *address + ":" + std::to_string(*port);
}

// The Runtime API, and the relay of a sandbox with a network.
bool is_ours(const std::string& place) {
  return place == "127.0.0.1:" + std::to_string(limits::kRuntimeApiPort) ||
         place.starts_with(std::string(network::kSandboxV4) + ":") ||
         place.starts_with("[" + std::string(network::kSandboxV6) + "]:");
}

}  // namespace

std::vector<std::string> listening_places(std::string_view table) {
  std::vector<std::string> places;
  while (!table.empty()) {
    std::string_view line = table.substr(0, table.find('\n'));
    table.remove_prefix(std::min(line.size() + 1, table.size()));
    (void)next_word(line);  // its number
    const std::string_view here = next_word(line);
    (void)next_word(line);  // the other side
    if (next_word(line) != kListens) continue;
    const auto place = place_text(here);
    if (place && std::ranges::find(places, *place) == places.end()) places.push_back(*place);
  }
  return places;
}

std::vector<std::string> listening_places_of(pid_t pid) {
  std::vector<std::string> places;
  for (const char* name : {"tcp", "tcp6"}) {
    const auto table = read_file("/proc/" + std::to_string(pid) + "/net/" + name, kMostTable);
    if (!table.ok()) continue;
    for (std::string& place : listening_places(*table)) {
      if (!is_ours(place)) places.push_back(std::move(place));
    }
  }
  return places;
}

std::string why_not_ready(const HttpContract& http, const std::vector<std::string>& places) {
  const std::string port = std::to_string(http.port);
  std::string others;
  bool listens = false;
  for (size_t i = 0; i < places.size() && i < kMostPlaces; ++i) {
    listens = listens || places[i] == "127.0.0.1:" + port || places[i] == "0.0.0.0:" + port ||
              places[i] == "[::]:" + port;
    others += (others.empty() ? "" : ", ") + places[i];
  }
  if (!http.readiness.empty() && (listens || places.empty())) {
    return "the program does not answer GET " + http.readiness + " on port " + port +
           " with 2xx or 3xx";
  }
  return "the program does not listen on 127.0.0.1, port " + port + " (its PORT)" +
         (others.empty() || listens ? "" : ", but on " + others);
}

}  // namespace lambent::worker
