#include "node/network/gate.h"

#include <algorithm>

#include "node/network/limits.h"

namespace lambent::network {

using Host = NetworkRule::Host;

bool Gate::is_named_alone(const IpAddress& address) const {
  return std::ranges::any_of(bounds_.opened, [&](const IpRange& range) {
    return range.is_one_address() && range.first == address;
  });
}

std::optional<std::string> Gate::closed(const IpAddress& address, Route route) const {
  // A range that the operator opens is a network of others; this host is in many of them.
  if (route == Route::kOwn && !is_named_alone(address)) return "an address of the host itself";
  if (route == Route::kBroadcast) return "no address of one host";
  if (bounds_.opens(address)) return std::nullopt;
  if (const auto why = why_closed(address)) return std::string(*why) + ", which is closed";
  if (!bounds_.has_public) return "outside of what the worker opens";
  return std::nullopt;
}

std::optional<std::string> Gate::refuse(const IpAddress& address, uint16_t port, Route route,
                                        Instant now) const {
  if (auto why = closed(address, route)) return why;
  const bool is_public = !why_closed(address) && bounds_.has_public;
  for (size_t i = 0; i < access_.rules.size(); ++i) {
    const NetworkRule& rule = access_.rules[i];
    if (!rule.has_port(port)) continue;
    if (rule.host == Host::kPublic && is_public) return std::nullopt;
    if (rule.host == Host::kRange && rule.range.contains(address)) return std::nullopt;
    const auto found = learnt_.find({address, i});
    if (found != learnt_.end() && now < found->second) return std::nullopt;
  }
  return "not in the function's network list";
}

bool Gate::may_ask(std::string_view name) const {
  return std::ranges::any_of(access_.rules,
                             [&](const NetworkRule& rule) { return matches_name(rule, name); });
}

std::optional<std::string> Gate::refuse_answer(const IpAddress& address, Route route) const {
  return closed(address, route);
}

Duration Gate::learn(std::string_view name, const IpAddress& address, Duration life, Instant now) {
  life = std::clamp(life, limits::kLeastNameLife, limits::kMostNameLife);
  for (size_t i = 0; i < access_.rules.size(); ++i) {
    const NetworkRule& rule = access_.rules[i];
    if (rule.host == Host::kPublic || !matches_name(rule, name)) continue;
    Instant& until = learnt_[{address, i}];
    until = std::max(until, now + life);
  }
  std::erase_if(learnt_, [now](const auto& entry) { return entry.second <= now; });
  while (learnt_.size() > limits::kNetworkNames) {
    learnt_.erase(std::ranges::min_element(
        learnt_, [](const auto& one, const auto& other) { return one.second < other.second; }));
  }
  return life;
}

}  // namespace lambent::network
