// LogFollowers: clients that watch a function's log as it grows; each gets what is new ten times a
// second. On the loop thread.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "core/domain/invocation_service.h"
#include "core/http/server.h"
#include "core/loop/event_loop.h"

namespace lambent::frontend {

class LogFollowers {
 public:
  // Follows until the client leaves, the function is removed, the client's token is worth nothing
  // any more, or `ready` is false (the worker drains). The service and the loop outlive the
  // followers.
  LogFollowers(InvocationService& service, loop::EventLoop& loop, std::function<bool()> ready);
  ~LogFollowers();
  LogFollowers(const LogFollowers&) = delete;
  LogFollowers& operator=(const LogFollowers&) = delete;

  // False, without touching the responder, if limits::kLogFollowers of the tenant watch already, or
  // 16 times as many of all. `may_read` is asked before each piece of the log.
  bool add(const FunctionName& function, uint64_t offset, std::function<bool()> may_read,
           http::Responder& responder);
  size_t count() const { return followers_.size(); }

 private:
  struct Follower {
    FunctionName function;
    uint64_t offset = 0;
    std::function<bool()> may_read;
    http::Responder responder;
    // Set by the connection, which may hear of the client's end while we write to it.
    std::shared_ptr<bool> left;
  };

  void schedule();
  void serve_all();
  bool serve(Follower& follower);

  InvocationService& service_;
  loop::EventLoop& loop_;
  const std::function<bool()> ready_;
  std::map<uint64_t, Follower> followers_;
  uint64_t next_ = 0;
  bool scheduled_ = false;
  loop::TimerId timer_;
};

}  // namespace lambent::frontend
