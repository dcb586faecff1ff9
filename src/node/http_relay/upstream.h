// Upstream: one connection to the program of a sandbox, or to another node: connecting, writing
// what the other side is slow to take, reading. Owned by a Session or by node/cluster; loop thread.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/base/fd.h"
#include "core/http/stream.h"
#include "core/loop/event_loop.h"

namespace lambent::http_relay {

class Upstream {
 public:
  // A callback may destroy the Upstream.
  struct Events {
    std::function<void(bool connected)> on_connected;
    std::function<void()> on_readable;  // the end, or a failure, is readable too
    std::function<void()> on_room;      // all that was written has left
  };

  // The socket was made in the sandbox's network, and is not connected.
  Upstream(loop::EventLoop& loop, OwnedFd socket);
  ~Upstream();
  Upstream(const Upstream&) = delete;
  Upstream& operator=(const Upstream&) = delete;

  // None: nothing is told any more, such as between the end of a run and that of this.
  void set_events(Events events) { events_ = std::move(events); }
  // To a port of the sandbox's loopback; answered by on_connected, in a later turn.
  void connect(uint16_t port);
  // To an address of another node; with `encrypt`, on_connected comes once both sides have agreed.
  void connect(const sockaddr* address, socklen_t length, http::SecureConnector encrypt,
               std::string host);
  // The socket again, of one that could not connect. It is good for another try.
  OwnedFd take_socket();

  void write(std::string bytes);
  // What was written and has not left.
  size_t unsent() const { return unsent_; }
  // All of it has left or the program takes no more: then its sending side is closed.
  void finish_writing();
  http::Transfer read(std::span<char> into) { return stream_->read(into); }
  // On: on_readable is called while there is something to read.
  void watch_reads(bool reads);

 private:
  void on_ready(loop::Readiness ready);
  void begin_connecting(const sockaddr* address, socklen_t length);
  void check_connected();
  void tell_connected(bool connected);
  void agree();
  void flush();
  void watch_for(bool reads, bool writes);

  loop::EventLoop& loop_;
  Events events_;
  OwnedFd socket_;  // until it is connected
  http::SecureConnector encrypt_;
  std::string host_;
  std::unique_ptr<http::Stream> stream_;
  loop::Watch watch_;
  loop::TimerId soon_;
  bool reads_ = false;
  bool writes_ = false;
  bool finishing_ = false;
  bool hung_up_ = false;  // nothing is watched any more; received bytes can be read
  bool broken_ = false;   // nothing more is written
  std::deque<std::string> outbox_;
  size_t offset_ = 0;  // in the first one
  size_t unsent_ = 0;
};

}  // namespace lambent::http_relay
