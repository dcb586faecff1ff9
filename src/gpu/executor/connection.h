// Connection: the executor's socket to the worker: messages with descriptors, none of them lost
// when the socket is full, or without an answer when one cannot be carried. Of the loop thread.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "core/base/fd.h"
#include "core/loop/event_loop.h"
#include "core/protocol/executor_message.h"

namespace lambent::executor {

class Connection {
 public:
  using OnMessage = std::function<void(protocol::ExecutorMessage, std::vector<OwnedFd>)>;

  // `on_end` is called once, when the worker is gone, says what is no message, or cannot be told
  // what it waits for. What comes without some of its descriptors, because the process may not
  // have more open, is answered here with RESOURCE_EXHAUSTED; an object that comes so has that
  // error.
  Connection(loop::EventLoop& loop, OwnedFd socket, OnMessage on_message,
             std::function<void()> on_end);

  // The descriptors are kept until the message is on its way. In place of a Finished or
  // InstanceFailed that the socket does not take goes a short one: its error, cut, or else
  // RESOURCE_EXHAUSTED.
  void send(protocol::ExecutorMessage message, std::vector<OwnedFd> fds = {});
  // The same, of a message that is encoded already.
  void send(std::string bytes, std::vector<OwnedFd> fds = {});
  // For whole messages of other threads, which go before those that wait here.
  int socket() const { return socket_.get(); }
  // Waits until all that was sent is on its way, or the worker is gone. For the very end.
  void flush();

 private:
  struct Waiting {
    std::string bytes;
    std::vector<OwnedFd> fds;
    bool is_short = false;  // stands for another that could not be sent
  };
  void read();
  void refuse(protocol::ExecutorMessage message);
  // False if the socket is full; what is over is gone from the queue.
  bool send_next();
  void end();

  OwnedFd socket_;
  OnMessage on_message_;
  std::function<void()> on_end_;
  std::deque<Waiting> waiting_;
  std::vector<char> buffer_;
  bool ended_ = false;
  bool waits_for_room_ = false;  // in the socket
  loop::Watch watch_;
};

}  // namespace lambent::executor
