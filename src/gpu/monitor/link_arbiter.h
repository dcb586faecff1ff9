// LinkArbiter: whose turn it is to copy over a device's link, each direction by itself. Pure: the
// caller brings the time; used by MemoryService on its thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "core/base/time.h"
#include "core/base/units.h"
#include "core/protocol/memory_message.h"

namespace lambent::monitor {

struct LinkOptions {
  Bytes quantum = Bytes::mib(32);  // of one turn at most: 0.6 ms at 55 GB/s
  // Turns under way at once: with two the link has the next copy queued when one ends.
  unsigned turns = 2;
  // A turn that is not over after this time is not waited for any longer.
  Duration grace_period = seconds(2);
};

// Sandboxes take turns, each one quantum; the processes of one sandbox take turns among themselves.
class LinkArbiter {
 public:
  using ClientId = uint64_t;

  struct Grant {
    ClientId client = 0;
    protocol::LinkDirection direction{};
    Bytes bytes;
    bool operator==(const Grant&) const = default;
  };

  explicit LinkArbiter(LinkOptions options) : options_(options) {}

  // `sandbox` is whom the client's turns count for. A client is added once.
  void add(ClientId client, uint64_t sandbox, uint32_t device);
  // What it waited for and held is free again.
  void remove(ClientId client);

  // One more turn wanted. False if the client is unknown or has as many wishes open already as
  // there are turns: it does not keep to the protocol.
  bool want(ClientId client, protocol::LinkDirection direction, Bytes bytes);
  // The client's oldest turn in this direction is over. Nothing if it has none: it took so long
  // that it was given up.
  void done(ClientId client, protocol::LinkDirection direction);

  // The turns that begin now, in their order.
  std::vector<Grant> take_grants(Instant now);
  // When the next turn that is under way is given up; kNever if there is none.
  Instant next_expiry() const;

 private:
  struct Wish {
    ClientId client = 0;
    Bytes bytes;
  };
  struct Turn {
    ClientId client = 0;
    Instant expires{};
  };
  struct Link {
    std::deque<uint64_t> order;  // sandboxes that wait, the next first
    std::map<uint64_t, std::deque<Wish>> wishes;
    std::vector<Turn> turns;  // under way, oldest first
  };
  struct Client {
    uint64_t sandbox = 0;
    uint32_t device = 0;
  };
  using LinkKey = std::pair<uint32_t, protocol::LinkDirection>;

  LinkOptions options_;
  std::map<ClientId, Client> clients_;
  std::map<LinkKey, Link> links_;
};

}  // namespace lambent::monitor
