// Server: HTTP/1.1 on listening sockets that it is given, all on the loop thread. Keep-alive,
// pipelining answered in order, limits on everything, time-outs against slow senders.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/http/limits.h"
#include "core/http/message.h"
#include "core/http/stream.h"
#include "core/loop/event_loop.h"

namespace lambent::http {

class StreamedExchange;

// Answers one request, now or later, on the loop thread. Dropped without an answer, it sends 500.
class Responder {
 public:
  // What the server does for a responder; its connection may be gone by then.
  class Exchange;

  explicit Responder(std::shared_ptr<Exchange> exchange);
  Responder(Responder&&) noexcept = default;
  Responder& operator=(Responder&&) noexcept;
  ~Responder();

  void send(Response response);
  // Instead of send(): a chunked response. send_chunk is false once the client is gone or too slow
  // (more than 1 MiB unsent).
  void start_chunked(Response head);
  bool send_chunk(std::string_view data);
  void finish_chunked();
  // For a request that streams (ServerOptions::streams); else null. It ends with this responder.
  StreamedExchange* stream();
  // The same, but only for the answer, of any request: its client can hold the sender back.
  StreamedExchange* answer_stream();
  // Called once if the client is seen to go away before the answer was sent; not if this responder
  // is gone by then.
  void on_disconnect(std::function<void()> callback);

 private:
  // Shared between the connection and the responder: either may end first.
  std::shared_ptr<Exchange> exchange_;
};

struct ServerOptions {
  size_t max_connections = limits::kHttpConnections;
  // What one connection more gets: the place of those that have been idle longest, if there are
  // any; else, and if false, 503. False where a client counts on the one that it has.
  bool idle_ones_make_room = true;
  Bytes max_headers = limits::kHttpHeaders;
  // Larger bodies are answered 413, without being read. What a client sends after its last answer
  // is dropped for linger_timeout, and for so many bytes: twice this of one connection, four times
  // of all together; then the connection is closed.
  Bytes max_body = Bytes::mib(80);
  // What all connections together hold of bodies that are still arriving; the one that goes beyond
  // is answered 503. At least max_body.
  Bytes max_unfinished_bodies = Bytes::mib(512);
  Duration header_timeout = limits::kHttpHeaderTimeout;
  // Of a body that is kept, and a second more for each limits::kHttpBodyRate of it that came: a
  // slow client that goes on is waited for, one that sends a byte a minute is not.
  Duration body_timeout = limits::kHttpBodyTimeout;
  Duration time_for_body(size_t received) const {
    return body_timeout + seconds(static_cast<int64_t>(received / limits::kHttpBodyRate.count));
  }
  // Without any progress: of a body that streams and is wanted, and of an answer.
  Duration stream_timeout = limits::kHttpBodyTimeout;
  Duration handshake_timeout = limits::kHttpHeaderTimeout;
  Duration linger_timeout = limits::kHttpHeaderTimeout;
  Duration idle_timeout = limits::kHttpIdleTimeout;
  // A client that only closed its sending side still gets its answer; over TCP it cannot be told
  // from one that is gone until we write, so it is sent an interim answer (100) at once. False: the
  // end of its sending is a disconnect, as it is for an answer that streams once that has begun.
  bool serve_half_closed = true;
  // Bodies for the server's own answers (400, 408, 413, 431, 500, 503); status, reason and the
  // request as far as it came in, response out.
  std::function<Response(int status, std::string_view reason, const Request& partial)>
      error_response;
  // Requests, told by their heads, that are handled as soon as their heads are there: their bodies
  // are streams, without a limit of size (Responder::stream). Empty: none.
  std::function<bool(const Request& head)> streams;
  // A client went away in the middle of a body: the request as far as it came. May be empty.
  std::function<void(const Request& partial)> on_truncated;
};

// What another server, perhaps of another process, needs to go on with the clients of one.
struct HandedOverClients {
  std::vector<OwnedFd> listeners;
  std::vector<OwnedFd> resting;  // connections between two requests
  std::vector<OwnedFd> waiting;  // whose request has come whole; nothing of its answer was sent
};

class Server {
 public:
  using Handler = std::function<void(Request, Responder)>;

  Server(loop::EventLoop& loop, ServerOptions options, Handler handler);
  // Not from within one of its own callbacks. Responders that are still out become mute.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Takes a listening stream socket (TCP or Unix).
  Result<void> listen(OwnedFd listener);
  // The same for a TCP socket whose connections are encrypted. While a handshake goes on, limits
  // and time-outs are those of a request's head.
  Result<void> listen_encrypted(OwnedFd listener, StreamFactory encrypt);
  // Stops accepting; each connection closes once an answer is sent on it, and one without a request
  // may still send one. So no client finds a connection closed that it has just written to.
  void stop_accepting();
  // The same, and connections without a request are closed.
  void drain();
  // Gives up all listeners and connections, without a word to the clients; responders become mute.
  // None, and nothing has changed, if a connection is encrypted, closes after its answer, or is in
  // the middle of a request or an answer.
  std::optional<HandedOverClients> hand_over();
  // Goes on with a client of another server, from which `received` was read already.
  void take_over(OwnedFd connection, std::string_view received);
  size_t connection_count() const;
  // Connections that wait for more than their clients' end: a request or its answer is on its way,
  // or may still come.
  size_t open_exchanges() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A listening socket; port 0 asks for any. UNAVAILABLE if the address is in use.
Result<OwnedFd> listen_tcp(const std::string& address, uint16_t port);
// Replaces a stale socket file; mode and group are the file's.
Result<OwnedFd> listen_unix(const std::string& path, mode_t mode,
                            std::optional<gid_t> group = std::nullopt);
uint16_t port_of(const OwnedFd& listener);

}  // namespace lambent::http
