// Session: the requests of one sandbox whose program listens: waits until it is ready, and relays
// to it what it is given. Connections come from sockets that were made in the sandbox's network, so
// that no process stands between. Used by the worker on its loop thread; one session per sandbox.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/fd.h"
#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/loop/event_loop.h"
#include "node/http_relay/passage.h"
#include "node/http_relay/relayed_request.h"
#include "node/http_relay/upstream.h"

namespace lambent::http_relay {

struct SessionOptions {
  uint16_t port = 8080;
  std::string readiness;  // a path; empty: it is ready once it listens
  std::string warm_up;    // the path of a request before its first one; empty: none
  // How many requests it is given at once. As many connections may rest: a program with one thread
  // serves the only one that it has.
  unsigned concurrency = 1;
  bool ready =
      false;  // it serves already: nothing is asked of it first, and on_ready is not called
};

struct Callbacks {
  // The warm-up is over, once, before on_ready: with the status that the program answered, or 0
  // where it gave no answer, and how long that took. May be empty.
  std::function<void(int status, Duration took)> on_warm = {};
  // The program is ready: once.
  std::function<void()> on_ready;
  // What was given is over, its answer passed on as far as there was one. May destroy the session.
  std::function<void(InvocationId, PassageEnd)> on_end;
};

class Session {
 public:
  // Gets so many sockets of the sandbox's network that are not connected; later, on the loop. It is
  // asked again where that fails: the sandbox ends, or there will be descriptors again.
  using Sockets =
      std::function<void(unsigned count, std::function<void(Result<std::vector<OwnedFd>>)>)>;

  Session(loop::EventLoop& loop, Sockets sockets, SessionOptions options, Callbacks callbacks);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // It is ready and has nothing to answer.
  bool rests() const { return ready_ && running_.empty(); }
  // Answered by on_end.
  void give(InvocationId id, std::shared_ptr<RelayedRequest> request);
  // Ends one that was given: its connection is closed, and nothing more is heard of it.
  void abandon(InvocationId id);
  // Those given of which the program has seen nothing; they are this session's no more.
  std::vector<InvocationId> take_unseen();

 private:
  struct Running {
    // Shared with what relays it, and with the worker's table: see RelayedRequest.
    std::shared_ptr<RelayedRequest> request;
    std::unique_ptr<Upstream> upstream;
    std::unique_ptr<Passage> passage;
    bool reuses = false;  // a connection that served before
    bool repeats = false;
    bool began = false;  // the program may have seen it
  };

  // With a socket, in this turn or a later one.
  void with_socket(std::function<void(OwnedFd)> then);
  void fetch_sockets();
  void fetch_again();
  void look();
  void look_again(OwnedFd socket);
  // A request on the connection that looks; 0: it has no answer.
  void ask(const std::string& path, const char* agent, std::function<void(int status)> then);
  void warm_up();
  void warmed_up(int status);
  void become_ready();
  void run(InvocationId id);
  void connect(InvocationId id);
  void begin(InvocationId id);
  void ended(InvocationId id, PassageEnd how);
  void tell_end(InvocationId id, PassageEnd how);
  void reap_soon();
  void rest(std::unique_ptr<Upstream> upstream);

  loop::EventLoop& loop_;
  const Sockets sockets_;
  const SessionOptions options_;
  const Callbacks callbacks_;
  bool ready_ = false;
  bool fetching_ = false;
  loop::TimerId look_timer_;
  Instant warm_up_began_{};
  std::unique_ptr<Upstream> looking_;
  std::unique_ptr<http::ResponseParser> readiness_answer_;
  std::vector<OwnedFd> spare_;
  std::deque<std::function<void(OwnedFd)>> waiting_;  // for sockets
  std::deque<std::unique_ptr<Upstream>> idle_;        // kept alive by both sides
  std::unordered_map<InvocationId, Running> running_;
  // What has ended in its own callback; destroyed in the next turn.
  std::vector<Running> ended_;
  std::vector<std::unique_ptr<Upstream>> closed_;
  bool reaping_ = false;
  loop::TimerId reaper_;
  // Points to this until the session ends. Shared with callbacks.
  std::shared_ptr<Session*> self_;
};

}  // namespace lambent::http_relay
