// Connection: the executor's socket to the worker: messages with descriptors, none of them lost
// when the socket is full. Of the loop thread.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "base/fd.h"
#include "loop/event_loop.h"
#include "protocol/executor_message.h"

namespace lambent::executor {

class Connection {
 public:
  using OnMessage = std::function<void(protocol::ExecutorMessage, std::vector<OwnedFd>)>;

  // `on_end` is called once, when the worker is gone or says what is no message.
  Connection(loop::EventLoop& loop, OwnedFd socket, OnMessage on_message,
             std::function<void()> on_end);

  // The descriptors are kept until the message is on its way.
  void send(protocol::ExecutorMessage message, std::vector<OwnedFd> fds = {});
  // Waits until all that was sent is on its way, or the worker is gone. For the very end.
  void flush();

 private:
  struct Waiting {
    std::string bytes;
    std::vector<OwnedFd> fds;
  };
  void read();
  // False if the socket is full; what is over or cannot be sent is gone from the queue.
  bool send_next();
  void end();

  OwnedFd socket_;
  OnMessage on_message_;
  std::function<void()> on_end_;
  std::deque<Waiting> waiting_;
  std::vector<char> buffer_;
  bool ended_ = false;
  loop::Watch watch_;
};

}  // namespace lambent::executor
