// NetworkAccess: where the program of a function may connect to; NetworkBounds: what the operator
// of a worker lets functions ask for. Values and pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/domain/ip_address.h"

namespace lambent {

// Destinations that are open, by TCP.
struct NetworkRule {
  enum class Host {
    kPublic,      // *: every address that is not closed
    kName,        // api.example.org
    kSubdomains,  // *.example.org: what is below it, not itself
    kRange,       // 10.1.2.3, 10.1.2.0/24
  };
  Host host = Host::kPublic;
  std::string name = {};  // of kName and kSubdomains, in lower case, without "*."
  IpRange range = {};     // of kRange
  uint16_t first_port = 1;
  uint16_t last_port = 65535;

  bool has_port(uint16_t port) const { return first_port <= port && port <= last_port; }

  bool operator==(const NetworkRule&) const = default;
};

struct NetworkAccess {
  std::vector<NetworkRule> rules;  // none: no network but the own loopback

  bool is_none() const { return rules.empty(); }

  bool operator==(const NetworkAccess&) const = default;
};

// As tags and the catalog have it: "", "outbound", "api.example.org:443,10.1.2.3:5432".
std::string text_of(const NetworkRule& rule);
std::string text_of(const NetworkAccess& access);
// INVALID_ARGUMENT that names the entry and says how entries are written.
Result<NetworkRule> parse_network_rule(std::string_view text);
// Of a text as text_of() writes it; "none" is none as well.
Result<NetworkAccess> parse_network_access(std::string_view text);
// Of such entries. INVALID_ARGUMENT also if there are too many.
Result<NetworkAccess> parse_network_entries(const std::vector<std::string>& entries);
// INVALID_ARGUMENT if it is longer than a tag may be.
Result<void> validate(const NetworkAccess& access);

// Whether a name, in lower case and without a dot at its end, is that of the rule.
bool matches_name(const NetworkRule& rule, std::string_view name);

// Why functions cannot reach an address unless the operator has opened it, such as "a private
// range"; none: it is public.
std::optional<std::string_view> why_closed(const IpAddress& address);

struct NetworkBounds {
  bool has_public = false;
  std::vector<IpRange> opened;  // among what is closed otherwise

  bool is_none() const { return !has_public && opened.empty(); }
  bool opens(const IpAddress& address) const;

  bool operator==(const NetworkBounds&) const = default;
};

std::string text_of(const NetworkBounds& bounds);
// "none", or a list of "public" and ranges: "public,10.1.2.0/24". INVALID_ARGUMENT otherwise.
Result<NetworkBounds> parse_network_bounds(std::string_view text);

// FAILED_PRECONDITION, saying what the operator can do, if a rule asks for more than the bounds.
Result<void> check_within(const NetworkAccess& access, const NetworkBounds& bounds);

}  // namespace lambent
