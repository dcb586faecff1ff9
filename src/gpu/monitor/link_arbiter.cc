#include "gpu/monitor/link_arbiter.h"

#include <algorithm>

namespace lambent::monitor {

void LinkArbiter::add(ClientId client, uint64_t sandbox, uint32_t device) {
  clients_[client] = {sandbox, device};
}

void LinkArbiter::remove(ClientId client) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  const auto [sandbox, device] = found->second;
  clients_.erase(found);
  for (auto& [key, link] : links_) {
    if (key.first != device) continue;
    std::erase_if(link.turns, [=](const Turn& turn) { return turn.client == client; });
    const auto waiting = link.wishes.find(sandbox);
    if (waiting == link.wishes.end()) continue;
    std::erase_if(waiting->second, [=](const Wish& wish) { return wish.client == client; });
    if (!waiting->second.empty()) continue;
    link.wishes.erase(waiting);
    std::erase(link.order, sandbox);
  }
}

bool LinkArbiter::want(ClientId client, protocol::LinkDirection direction, Bytes bytes) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return false;
  Link& link = links_[{found->second.device, direction}];
  const uint64_t sandbox = found->second.sandbox;
  std::deque<Wish>& wishes = link.wishes[sandbox];
  const auto open = std::count_if(wishes.begin(), wishes.end(),
                                  [=](const Wish& wish) { return wish.client == client; });
  if (open >= static_cast<long>(options_.turns)) return false;
  if (wishes.empty()) link.order.push_back(sandbox);
  wishes.push_back({client, std::min(bytes, options_.quantum)});
  return true;
}

void LinkArbiter::done(ClientId client, protocol::LinkDirection direction) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  Link& link = links_[{found->second.device, direction}];
  const auto turn = std::find_if(link.turns.begin(), link.turns.end(),
                                 [=](const Turn& each) { return each.client == client; });
  if (turn != link.turns.end()) link.turns.erase(turn);
}

std::vector<LinkArbiter::Grant> LinkArbiter::take_grants(Instant now) {
  std::vector<Grant> grants;
  for (auto& [key, link] : links_) {
    std::erase_if(link.turns, [=](const Turn& turn) { return turn.expires <= now; });
    while (!link.order.empty() && link.turns.size() < options_.turns) {
      const uint64_t sandbox = link.order.front();
      link.order.pop_front();
      std::deque<Wish>& wishes = link.wishes[sandbox];
      const Wish wish = wishes.front();
      wishes.pop_front();
      link.turns.push_back({wish.client, now + options_.grace_period});
      grants.push_back({wish.client, key.second, wish.bytes});
      if (wishes.empty()) {
        link.wishes.erase(sandbox);
      } else {
        link.order.push_back(sandbox);
      }
    }
  }
  return grants;
}

Instant LinkArbiter::next_expiry() const {
  Instant next = kNever;
  for (const auto& [key, link] : links_) {
    for (const Turn& turn : link.turns) next = std::min(next, turn.expires);
  }
  return next;
}

}  // namespace lambent::monitor
