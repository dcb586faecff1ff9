// Gate: decides where a sandbox may connect to and which names it may ask for, and remembers which
// addresses its names have. Pure, with the time as an argument; used by one Relay.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/time.h"
#include "core/domain/network_access.h"

namespace lambent::network {

// Where an address leads from the host, as the kernel's routes have it.
enum class Route {
  kOut,        // to another host
  kOwn,        // to this host itself
  kNone,       // nowhere
  kBroadcast,  // to all of a network, or another thing that is no host
};

class Gate {
 public:
  Gate(NetworkAccess access, NetworkBounds bounds)
      : access_(std::move(access)), bounds_(std::move(bounds)) {}

  // Why a connection is refused; none: it is open.
  std::optional<std::string> refuse(const IpAddress& address, uint16_t port, Route route,
                                    Instant now) const;

  // `name` as name_message.h reads it.
  bool may_ask(std::string_view name) const;
  // Why an address is not among a name's answers: it lies where no name leads.
  std::optional<std::string> refuse_answer(const IpAddress& address, Route route) const;
  // An address is open under the rules of its name for a while: returns for how long.
  Duration learn(std::string_view name, const IpAddress& address, Duration life, Instant now);

  size_t known_names() const { return learnt_.size(); }

 private:
  // Only by its address: where nothing of a list can lead.
  std::optional<std::string> closed(const IpAddress& address, Route route) const;
  bool is_named_alone(const IpAddress& address) const;

  const NetworkAccess access_;
  const NetworkBounds bounds_;
  // An address may have several names, of which each opens ports of its own.
  std::map<std::pair<IpAddress, size_t>, Instant> learnt_;  // with the rule, until when
};

}  // namespace lambent::network
