#include "node/cluster/node_links.h"

#include <netdb.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/fd.h"

namespace lambent::cluster {
namespace {

using http_relay::Passage;
using http_relay::PassageEnd;
using http_relay::Upstream;

// Less than a server keeps idle connections (limits::kHttpIdleTimeout): what is used again is
// rarely closed in that moment.
constexpr Duration kIdleTime = seconds(30);
constexpr Duration kSweepPeriod = seconds(5);
constexpr Duration kAddressTime = seconds(60);
constexpr size_t kIdlePerNode = 64;

std::string key_of(const http::Endpoint& endpoint) { return http::to_string(endpoint); }

// Of a name it asks the system's resolver, which may take long.
bool look_up(const http::Endpoint& endpoint, int flags, sockaddr_storage& storage,
             socklen_t& length) {
  std::string host = endpoint.host;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found) != 0) {
    return false;
  }
  std::memcpy(&storage, found->ai_addr, found->ai_addrlen);
  length = found->ai_addrlen;
  freeaddrinfo(found);
  return true;
}

}  // namespace

NodeLinks::NodeLinks(loop::EventLoop& loop, Offload offload)
    : loop_(loop), offload_(std::move(offload)), self_(std::make_shared<NodeLinks*>(this)) {
  sweeper_ = loop_.call_after(kSweepPeriod, [this] { sweep(); });
}

NodeLinks::~NodeLinks() {
  *self_ = nullptr;
  loop_.cancel(sweeper_);
  if (reaping_) loop_.cancel(reaper_);
  for (auto& [id, flight] : flights_) {
    if (flight.has_timer) loop_.cancel(flight.timer);
  }
}

void NodeLinks::send(const http::Endpoint& endpoint,
                     std::shared_ptr<http_relay::RelayedRequest> request, Duration timeout,
                     std::function<void(LinkEnd)> on_end, Duration connect_time) {
  const uint64_t id = next_++;
  Flight& flight = flights_[id];
  flight.endpoint = endpoint;
  flight.request = std::move(request);
  flight.on_end = std::move(on_end);
  flight.connect_time = connect_time;
  if (timeout > Duration::zero()) {
    flight.has_timer = true;
    flight.timer = loop_.call_after(timeout, [this, id] {
      end(id, {LinkEnd::Kind::kLost, "it did not answer in time"});
    });
  }
  auto& idle = idle_[key_of(endpoint)];
  if (idle.empty()) return resolve(id);
  flight.upstream = std::move(idle.back().upstream);
  idle.pop_back();
  flight.reuses = true;
  begin(id);
}

void NodeLinks::resolve(uint64_t id) {
  const http::Endpoint& endpoint = flights_.at(id).endpoint;
  Address address;
  if (look_up(endpoint, AI_NUMERICHOST, address.storage, address.length)) {
    return connect(id, address);
  }
  const std::string key = key_of(endpoint);
  const auto known = addresses_.find(key);
  if (known != addresses_.end() && known->second.second > loop_.now()) {
    return connect(id, known->second.first);
  }
  // Shared between the thread that asks and the loop.
  auto found = std::make_shared<std::pair<Address, bool>>();
  const bool queued = offload_(
      [found, endpoint] {
        found->second = look_up(endpoint, 0, found->first.storage, found->first.length);
      },
      [this, self = self_, id, key, found] {
        if (*self == nullptr || !flights_.contains(id)) return;
        if (!found->second) {
          return end(id, {LinkEnd::Kind::kNotSent, "its name has no address"});
        }
        addresses_[key] = {found->first, loop_.now() + kAddressTime};
        connect(id, found->first);
      });
  if (!queued) end(id, {LinkEnd::Kind::kNotSent, "there is too much to do at once"});
}

void NodeLinks::connect(uint64_t id, const Address& address) {
  Flight& flight = flights_.at(id);
  if (flight.endpoint.encrypted && !flight.endpoint.encrypt) {
    return end(id, {LinkEnd::Kind::kNotSent, "this node has no certificate to show"});
  }
  OwnedFd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return end(id, {LinkEnd::Kind::kNotSent, std::strerror(errno)});
  flight.upstream = std::make_unique<Upstream>(loop_, std::move(fd));
  const auto limit = loop_.call_after(flight.connect_time, [this, id] {
    const auto found = flights_.find(id);
    if (found == flights_.end() || found->second.passage) return;
    end(id, {LinkEnd::Kind::kNotSent, "it does not accept connections in time"});
  });
  flight.upstream->set_events({.on_connected =
                                   [this, id, limit](bool connected) {
                                     loop_.cancel(limit);
                                     if (connected) return begin(id);
                                     end(id, {LinkEnd::Kind::kNotSent, "it accepts no connection"});
                                   },
                               .on_readable = {},
                               .on_room = {}});
  flight.upstream->connect(reinterpret_cast<const sockaddr*>(&address.storage), address.length,
                           flight.endpoint.encrypted ? flight.endpoint.encrypt : nullptr,
                           flight.endpoint.host);
}

void NodeLinks::begin(uint64_t id) {
  Flight& flight = flights_.at(id);
  if (flight.request->client_is_gone) return end(id, {LinkEnd::Kind::kClientLeft});
  flight.passage = std::make_unique<Passage>(
      flight.request, [this, id](PassageEnd how) { passed(id, std::move(how)); });
  // The node sees that who asked is gone, and ends what runs for it.
  flight.request->on_client_gone = [this, id] { end(id, {LinkEnd::Kind::kClientLeft}); };
  flight.passage->begin(*flight.upstream);
}

void NodeLinks::passed(uint64_t id, PassageEnd how) {
  // Who read the answer may have dropped the node because of it.
  const auto found = flights_.find(id);
  if (found == flights_.end()) return;
  Flight& flight = found->second;
  http_relay::RelayedRequest& request = *flight.request;
  if (how.may_be_repeated && flight.reuses && !request.client_is_gone) {
    // The node had closed the connection in the meantime, and this may be sent twice. Its end stays
    // readable until it is reaped, and what relays the request may be gone by then.
    flight.upstream->set_events({});
    closed_.push_back(std::move(flight.upstream));
    flight.reuses = false;
    loop_.call_after(Duration::zero(), [self = self_, id] {
      NodeLinks* links = *self;
      if (links == nullptr || !links->flights_.contains(id)) return;
      links->flights_.at(id).passage.reset();
      links->reap_soon();
      links->resolve(id);
    });
    return;
  }
  if (request.client_is_gone) return end(id, {LinkEnd::Kind::kClientLeft});
  if (how.connection_is_lost || how.error_type == "Http.BadAnswer") {
    return end(id, {LinkEnd::Kind::kLost, how.message});
  }
  if (how.may_be_cut_off && !request.kept) {
    if (http::StreamedExchange* client = request.responder.stream()) client->finish();
  }
  if (how.keeps_connection) {
    flight.upstream->set_events({});
    rest(key_of(flight.endpoint), std::move(flight.upstream));
  }
  end(id, {});
}

void NodeLinks::end(uint64_t id, LinkEnd how) {
  const auto found = flights_.find(id);
  if (found == flights_.end()) return;
  Flight over = std::move(found->second);
  flights_.erase(found);
  if (over.has_timer) loop_.cancel(over.timer);
  if (over.upstream) over.upstream->set_events({});
  // Who hears of the end may destroy the client's side.
  if (over.passage) over.passage->abandon();
  const std::function<void(LinkEnd)> tell = std::move(over.on_end);
  // A time-out may find it in the middle of its work.
  ended_.push_back(std::move(over));
  reap_soon();
  tell(std::move(how));
}

void NodeLinks::drop(const http::Endpoint& endpoint) {
  const std::string key = key_of(endpoint);
  std::vector<uint64_t> lost;
  for (const auto& [id, flight] : flights_) {
    if (key_of(flight.endpoint) == key) lost.push_back(id);
  }
  for (Idle& each : idle_[key]) closed_.push_back(std::move(each.upstream));
  idle_.erase(key);
  reap_soon();
  for (const uint64_t id : lost) {
    end(id, {LinkEnd::Kind::kLost, "it does not answer any more"});
  }
}

void NodeLinks::rest(const std::string& key, std::unique_ptr<Upstream> upstream) {
  auto& idle = idle_[key];
  if (idle.size() >= kIdlePerNode) {
    closed_.push_back(std::move(upstream));
    return;
  }
  Upstream* const resting = upstream.get();
  // Whatever comes now is the end of it.
  resting->set_events({.on_connected = {},
                       .on_readable =
                           [this, key, resting] {
                             std::erase_if(idle_[key], [&](Idle& each) {
                               if (each.upstream.get() != resting) return false;
                               resting->watch_reads(false);
                               closed_.push_back(std::move(each.upstream));
                               return true;
                             });
                             reap_soon();
                           },
                       .on_room = {}});
  idle.push_back({std::move(upstream), loop_.now()});
  resting->watch_reads(true);
}

void NodeLinks::reap_soon() {
  if (std::exchange(reaping_, true)) return;
  reaper_ = loop_.call_after(Duration::zero(), [this] {
    reaping_ = false;
    // In this order: the relay of a request refers to its connection.
    for (Flight& flight : ended_) flight.passage.reset();
    ended_.clear();
    closed_.clear();
  });
}

void NodeLinks::sweep() {
  for (auto& [key, idle] : idle_) {
    while (!idle.empty() && idle.front().since + kIdleTime <= loop_.now()) {
      closed_.push_back(std::move(idle.front().upstream));
      idle.pop_front();
    }
  }
  std::erase_if(idle_, [](const auto& each) { return each.second.empty(); });
  reap_soon();
  sweeper_ = loop_.call_after(kSweepPeriod, [this] { sweep(); });
}

}  // namespace lambent::cluster
