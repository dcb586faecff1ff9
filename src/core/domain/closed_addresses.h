// Which addresses are of no public network, and why. Pure; any thread.
#pragma once

#include <optional>
#include <string_view>

#include "core/domain/ip_address.h"

namespace lambent {

struct ClosedAddress {
  std::string_view why;  // "a private range"
  // A cloud's metadata service, or link-local else: no one means such a one, while a private
  // address may be one's own server.
  bool is_never_meant = false;
};
// None: it is public.
std::optional<ClosedAddress> closed_address(const IpAddress& address);
// Of the first address of the range, or else of any that are in it.
std::optional<ClosedAddress> closed_within(const IpRange& range);

}  // namespace lambent
