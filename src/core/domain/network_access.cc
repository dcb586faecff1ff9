#include "core/domain/network_access.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "core/domain/closed_addresses.h"
#include "core/domain/limits.h"

namespace lambent {
namespace {

constexpr std::string_view kOutbound = "outbound";
constexpr std::string_view kPublicWord = "public";
constexpr std::string_view kNoneWord = "none";
constexpr size_t kDomainNameLength = 253;
constexpr size_t kLabelLength = 63;

constexpr const char* kForm =
    "; an entry is HOST:PORT, such as api.example.org:443, *.example.org:443, 10.1.2.3:5432, "
    "10.1.2.0/24:8000-8100, [fd00::5]:443 or *:443, or the word outbound";

Error invalid(std::string_view entry, const std::string& why) {
  return Error{ErrorCode::kInvalidArgument,
               "network: '" + std::string(entry.substr(0, 80)) + "' " + why};
}

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

bool parse_port(std::string_view text, uint16_t& to) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc() && end == text.data() + text.size() && to > 0;
}

bool parse_ports(std::string_view text, NetworkRule& rule) {
  if (text == "*") return true;
  const size_t dash = text.find('-');
  if (!parse_port(text.substr(0, dash), rule.first_port)) return false;
  rule.last_port = rule.first_port;
  if (dash == std::string_view::npos) return true;
  return parse_port(text.substr(dash + 1), rule.last_port) && rule.first_port <= rule.last_port;
}

bool is_label(std::string_view label) {
  const auto is_plain = [](unsigned char c) {
    return c < 128 && (std::isalnum(c) != 0 || c == '-' || c == '_');
  };
  return !label.empty() && label.size() <= kLabelLength && label.front() != '-' &&
         label.back() != '-' && std::ranges::all_of(label, is_plain);
}

// Two labels at least: a wildcard of a whole top-level domain is a mistake more often than a wish.
bool is_domain_name(std::string_view name, size_t least_labels) {
  if (name.size() > kDomainNameLength) return false;
  size_t labels = 0;
  for (size_t start = 0; start <= name.size(); ++labels) {
    const size_t end = std::min(name.find('.', start), name.size());
    if (!is_label(name.substr(start, end - start))) return false;
    start = end + 1;
  }
  // What ends in a number is an address that is written wrongly.
  const std::string_view last = name.substr(name.rfind('.') + 1);
  return labels >= least_labels && std::isdigit(static_cast<unsigned char>(last.front())) == 0;
}

Result<void> parse_host(std::string_view entry, std::string_view host, NetworkRule& rule) {
  if (host == "*") return {};
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string_view inner = bracketed ? host.substr(1, host.size() - 2) : host;
  const bool subdomains = host.starts_with("*.");
  std::string name(subdomains ? host.substr(2) : host);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (!bracketed && is_domain_name(name, subdomains ? 2 : 1)) {
    rule.host = subdomains ? NetworkRule::Host::kSubdomains : NetworkRule::Host::kName;
    rule.name = std::move(name);
    return {};
  }
  auto range = parse_ip_range(inner);
  if (!range.ok() || range->first.is_v4() == bracketed) {
    return invalid(entry, std::string("has no host name, address or range") + kForm);
  }
  rule.host = NetworkRule::Host::kRange;
  rule.range = *range;
  return {};
}

Error refused(const NetworkRule& rule, const std::string& why, const std::string& setting) {
  return Error{ErrorCode::kFailedPrecondition, "network: " + quoted(text_of(rule)) + " " + why +
                                                   "; its operator can: lambent serve --network " +
                                                   setting};
}

Result<void> check_range(const NetworkRule& rule, const NetworkBounds& bounds) {
  const auto contains = [&rule](const IpRange& opened) { return opened.contains(rule.range); };
  if (std::ranges::any_of(bounds.opened, contains)) return {};
  if (const auto closed = closed_within(rule.range)) {
    return refused(rule,
                   "is closed (" + std::string(closed->why) + ") and not opened by this worker",
                   (bounds.has_public ? "public," : "") + to_string(rule.range));
  }
  if (bounds.has_public) return {};
  return refused(rule, "is outside of what this worker opens (" + text_of(bounds) + ")", "public");
}

}  // namespace

std::string text_of(const NetworkRule& rule) {
  if (rule == NetworkRule()) return std::string(kOutbound);
  std::string text = "*";
  if (rule.host == NetworkRule::Host::kName) text = rule.name;
  if (rule.host == NetworkRule::Host::kSubdomains) text = "*." + rule.name;
  if (rule.host == NetworkRule::Host::kRange) {
    text = to_string(rule.range);
    if (!rule.range.first.is_v4()) text = "[" + text + "]";
  }
  if (rule.first_port == 1 && rule.last_port == 65535) return text + ":*";
  text += ":" + std::to_string(rule.first_port);
  if (rule.last_port != rule.first_port) text += "-" + std::to_string(rule.last_port);
  return text;
}

std::string text_of(const NetworkAccess& access) {
  std::string text;
  for (const NetworkRule& rule : access.rules) text += (text.empty() ? "" : ",") + text_of(rule);
  return text;
}

Result<NetworkRule> parse_network_rule(std::string_view text) {
  NetworkRule rule;
  if (text == kOutbound) return rule;
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos ||
      (text.starts_with('[') && !text.substr(0, colon).ends_with(']'))) {
    return invalid(text, std::string("has no port") + kForm);
  }
  if (!parse_ports(text.substr(colon + 1), rule)) {
    return invalid(text, std::string("has no port of 1 to 65535, range of ports or *") + kForm);
  }
  RETURN_IF_ERROR(parse_host(text, text.substr(0, colon), rule));
  return rule;
}

Result<NetworkAccess> parse_network_entries(const std::vector<std::string>& entries) {
  NetworkAccess access;
  for (const std::string& entry : entries) {
    ASSIGN_OR_RETURN(NetworkRule rule, parse_network_rule(entry));
    access.rules.push_back(std::move(rule));
  }
  RETURN_IF_ERROR(validate(access));
  return access;
}

Result<NetworkAccess> parse_network_access(std::string_view text) {
  if (text.empty() || text == kNoneWord) return NetworkAccess();
  std::vector<std::string> entries;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    entries.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parse_network_entries(entries);
}

Result<void> validate(const NetworkAccess& access) {
  if (access.rules.size() <= limits::kNetworkRules &&
      text_of(access).size() <= limits::kTagValueLength) {
    return {};
  }
  return Error{ErrorCode::kInvalidArgument,
               "network: a function has at most " + std::to_string(limits::kNetworkRules) +
                   " entries, with " + std::to_string(limits::kTagValueLength) +
                   " characters together; ranges and *.example.org take less"};
}

bool matches_name(const NetworkRule& rule, std::string_view name) {
  switch (rule.host) {
    case NetworkRule::Host::kPublic:
      return true;
    case NetworkRule::Host::kName:
      return name == rule.name;
    case NetworkRule::Host::kSubdomains:
      return name.size() > rule.name.size() + 1 && name.ends_with(rule.name) &&
             name[name.size() - rule.name.size() - 1] == '.';
    case NetworkRule::Host::kRange:
      return false;
  }
  return false;
}

std::optional<std::string_view> why_closed(const IpAddress& address) {
  const auto closed = closed_address(address);
  return closed ? std::optional(closed->why) : std::nullopt;
}

bool NetworkBounds::opens(const IpAddress& address) const {
  return std::ranges::any_of(opened, [&](const IpRange& each) { return each.contains(address); });
}

std::string text_of(const NetworkBounds& bounds) {
  if (bounds.is_none()) return std::string(kNoneWord);
  std::string text(bounds.has_public ? kPublicWord : "");
  for (const IpRange& range : bounds.opened) text += (text.empty() ? "" : ",") + to_string(range);
  return text;
}

Result<NetworkBounds> parse_network_bounds(std::string_view text) {
  NetworkBounds bounds;
  if (text == kNoneWord) return bounds;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string_view word = text.substr(start, end - start);
    start = end + 1;
    if (word == kPublicWord) {
      bounds.has_public = true;
      continue;
    }
    auto range = parse_ip_range(word);
    if (!range.ok()) {
      return Error{ErrorCode::kInvalidArgument,
                   "network is none, or a list of public and ranges such as "
                   "public,10.1.2.0/24; " +
                       range.error().message};
    }
    bounds.opened.push_back(*range);
  }
  if (bounds.opened.size() <= limits::kNetworkRules) return bounds;
  return Error{ErrorCode::kInvalidArgument,
               "network opens at most " + std::to_string(limits::kNetworkRules) + " ranges"};
}

Result<void> check_within(const NetworkAccess& access, const NetworkBounds& bounds) {
  for (const NetworkRule& rule : access.rules) {
    if (bounds.is_none()) {
      return refused(rule, "is not open: this worker gives functions no network", "public");
    }
    if (rule.host == NetworkRule::Host::kRange) RETURN_IF_ERROR(check_range(rule, bounds));
    if (rule.host == NetworkRule::Host::kPublic && !bounds.has_public) {
      return refused(rule, "asks for public addresses, which this worker does not open", "public");
    }
  }
  return {};
}

}  // namespace lambent
