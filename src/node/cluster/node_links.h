// NodeLinks: connections to other nodes, kept for the next requests. Each request has one for
// itself while it is under way. Loop thread.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/http/client.h"
#include "core/loop/event_loop.h"
#include "node/http_relay/passage.h"
#include "node/http_relay/relayed_request.h"
#include "node/http_relay/upstream.h"

namespace lambent::cluster {

struct LinkEnd {
  enum class Kind {
    kAnswered,
    kNotSent,     // no connection came about: the node has seen nothing of it
    kLost,        // the connection ended, or the time, before the answer was whole
    kClientLeft,  // who asked is gone
  };
  Kind kind = Kind::kAnswered;
  std::string why = {};
};

class NodeLinks {
 public:
  // Until a connection has come about, with its handshake.
  static constexpr Duration kConnectTime = seconds(2);

  // Runs `work` on another thread, and then `completion` on the loop; false: it has too much to do.
  using Offload = std::function<bool(std::function<void()> work, std::function<void()> completion)>;

  NodeLinks(loop::EventLoop& loop, Offload offload);
  ~NodeLinks();
  NodeLinks(const NodeLinks&) = delete;
  NodeLinks& operator=(const NodeLinks&) = delete;

  // `timeout` zero: the request may take as long as it takes. `on_end` comes once, in this turn or
  // a later one.
  void send(const http::Endpoint& endpoint, std::shared_ptr<http_relay::RelayedRequest> request,
            Duration timeout, std::function<void(LinkEnd)> on_end,
            Duration connect_time = kConnectTime);
  // All that is under way there is lost, and its connections are closed.
  void drop(const http::Endpoint& endpoint);

 private:
  struct Address {
    sockaddr_storage storage{};
    socklen_t length = 0;
  };
  struct Flight {
    http::Endpoint endpoint;
    // Shared with what forwards it: see RelayedRequest.
    std::shared_ptr<http_relay::RelayedRequest> request;
    std::function<void(LinkEnd)> on_end;
    std::unique_ptr<http_relay::Upstream> upstream;
    std::unique_ptr<http_relay::Passage> passage;
    loop::TimerId timer;
    Duration connect_time = kConnectTime;
    bool has_timer = false;
    bool reuses = false;
  };
  struct Idle {
    std::unique_ptr<http_relay::Upstream> upstream;
    Instant since{};
  };

  void resolve(uint64_t id);
  void connect(uint64_t id, const Address& address);
  void begin(uint64_t id);
  void passed(uint64_t id, http_relay::PassageEnd how);
  void end(uint64_t id, LinkEnd how);
  void rest(const std::string& key, std::unique_ptr<http_relay::Upstream> upstream);
  void reap_soon();
  void sweep();

  loop::EventLoop& loop_;
  const Offload offload_;
  std::map<uint64_t, Flight> flights_;
  std::map<std::string, std::deque<Idle>> idle_;
  // Of names, until they are asked for again.
  std::map<std::string, std::pair<Address, Instant>> addresses_;
  uint64_t next_ = 1;
  // What has ended in its own callback; destroyed in the next turn.
  std::vector<Flight> ended_;
  std::vector<std::unique_ptr<http_relay::Upstream>> closed_;
  bool reaping_ = false;
  loop::TimerId reaper_;
  loop::TimerId sweeper_;
  // Points to this until it ends. Shared with callbacks.
  std::shared_ptr<NodeLinks*> self_;
};

}  // namespace lambent::cluster
