// ObjectSocket: where clients on the same machine put sealed memfds and get them, without a copy
// (core/protocol/object_message.h). On the loop thread; main gives it its listener.
#pragma once

#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "core/base/fd.h"
#include "core/base/log.h"
#include "core/base/packet.h"
#include "core/base/random.h"
#include "core/loop/event_loop.h"
#include "core/protocol/object_message.h"
#include "node/objects/object_store.h"

namespace lambent::objects {

class ObjectSocket {
 public:
  // All that is given outlives it. A client that may connect is `tenant`.
  ObjectSocket(loop::EventLoop& loop, LogSink& log, ObjectStore& store, Random& random,
               TenantId tenant, OwnedFd listener);
  ~ObjectSocket();
  ObjectSocket(const ObjectSocket&) = delete;
  ObjectSocket& operator=(const ObjectSocket&) = delete;

  size_t connections() const { return connections_.size(); }

 private:
  using ConnectionId = uint64_t;
  struct Connection {
    OwnedFd fd;
    loop::Watch watch;
    std::unordered_map<uint64_t, WaitId> waits;  // by a number of ours
  };

  void accept();
  void pause_accepting();
  void receive(ConnectionId id);
  void answer(ConnectionId id, protocol::PutObject put, std::vector<OwnedFd> fds);
  void answer(ConnectionId id, const protocol::GetObject& get);
  void reply(ConnectionId id, const protocol::ObjectReply& reply, int memfd);
  // Ends it: its peer left, sent nonsense, or does not read.
  void close(ConnectionId id);

  loop::EventLoop& loop_;
  LogSink& log_;
  ObjectStore& store_;
  Random& random_;
  const TenantId tenant_;
  const OwnedFd listener_;
  loop::Watch watch_;
  loop::TimerId accept_pause_;
  std::unordered_map<ConnectionId, Connection> connections_;
  uint64_t next_ = 1;
};

}  // namespace lambent::objects
