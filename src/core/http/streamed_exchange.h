// StreamedExchange: a request whose body comes, and whose answer goes, in pieces; after a change of
// protocols, bytes both ways. Of a Responder whose request ServerOptions::streams chose. Both sides
// can hold the other back. Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "core/http/message.h"

namespace lambent::http {

class StreamedExchange {
 public:
  // Receives what the client sends. Either may end the exchange.
  struct Sink {
    std::function<void(std::string_view)> on_bytes;
    std::function<void()> on_end;  // of the body; or, after switch_protocols(), of its sending
  };
  // From on_end on, until the exchange ends: the fields that came behind the body.
  virtual Headers trailers() const { return {}; }

  // The client's body from now on, without its framing, beginning at once with what came with its
  // head; what it sends after switch_protocols() as it comes. Before this nothing more of the body
  // is read, and a client that waits for leave to send it is not given that. A body that is
  // malformed, ends early or does not go on for ServerOptions::stream_timeout is a disconnect.
  virtual void receive(Sink sink) = 0;
  // While held, nothing is read from the client.
  virtual void hold(bool held) = 0;
  // From true until false, the body is to end within ServerOptions::time_for_body(), as that of a
  // request which does not stream: for those who keep what comes. Later it is answered 408.
  virtual void expect_whole(bool expects) = 0;

  // Instead of Responder::send(): the answer's head, then send_bytes(), then finish(). The head
  // leaves with what comes next, which may be no bytes. With a size the client is told it, and gets
  // at most as many bytes; without, the answer is chunked.
  virtual void start(Response head, std::optional<uint64_t> size) = 0;
  // Instead of start(): 101, and from now on bytes as they are, both ways, until finish().
  virtual void switch_protocols(Response head) = 0;
  // False: the client is behind or gone; what was given is taken, and on_room's callback tells when
  // to go on.
  virtual bool send_bytes(std::string_view bytes) = 0;
  // Called whenever all that was sent has left.
  virtual void on_room(std::function<void()> callback) = 0;
  // An answer that is shorter than was said, and one whose responder goes without this, is cut off
  // so that its client sees it.
  virtual void finish() = 0;
  // Of an answer that may rest for long: once it has begun, the end of the client's sending is a
  // disconnect, for nothing else may tell that the client is gone. So it is of a request that
  // streams in any case.
  virtual void end_at_half_close() {}

 protected:
  ~StreamedExchange() = default;
};

}  // namespace lambent::http
