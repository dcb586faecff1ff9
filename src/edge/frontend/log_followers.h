// LogFollowers: clients that watch a function's log as it grows; each gets what is new ten times a
// second, of the other nodes of a cluster a few times a second. On the loop thread.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "core/http/server.h"
#include "core/loop/event_loop.h"
#include "edge/frontend/log_reader.h"
#include "edge/frontend/log_view.h"

namespace lambent::frontend {

class LogFollowers {
 public:
  // Follows until the client leaves, the function is removed, the client's token is worth nothing
  // any more, or `ready` is false (the worker drains). For a client that is behind nothing is read.
  // The reader and the loop outlive the followers.
  LogFollowers(LogReader& reader, loop::EventLoop& loop, std::function<bool()> ready);
  ~LogFollowers();
  LogFollowers(const LogFollowers&) = delete;
  LogFollowers& operator=(const LogFollowers&) = delete;

  // False, without touching the responder, if limits::kLogFollowers of the tenant watch already, or
  // 16 times as many of all. `may_read` is asked before each piece of the log. The first of them
  // decides whether there is a stream, or an error.
  bool add(LogReader::Question question, LogForm form, std::function<bool()> may_read,
           http::Responder& responder);
  size_t count() const { return followers_.size(); }

 private:
  struct Follower {
    LogReader::Question question;
    LogView view;
    std::function<bool()> may_read;
    http::Responder responder;
    // Set by the connection, which may hear of the client's end while we write to it.
    std::shared_ptr<bool> left;
    // Set while what was sent has not left, and cleared by the connection.
    std::shared_ptr<bool> is_behind;
    LogForm form = {};
    bool has_begun = false;  // its answer
    bool is_reading = false;
    Instant next_read = Instant::min();
    Duration pause{};  // until the next time that nodes are asked
  };

  void schedule();
  void serve_all();
  void serve(uint64_t id);
  void took(uint64_t id, const Result<LogReader::Answer>& answer);
  void begin(Follower& follower, const LogReader::Answer& answer);
  // False: the client is gone.
  static bool send(Follower& follower, std::string_view shown);
  // False: the client is gone, or there is nothing more to come.
  bool pass_on(Follower& follower, const Result<LogReader::Answer>& answer);

  LogReader& reader_;
  loop::EventLoop& loop_;
  const std::function<bool()> ready_;
  std::map<uint64_t, Follower> followers_;
  uint64_t next_ = 0;
  bool scheduled_ = false;
  loop::TimerId timer_;
  // Points to this until it ends. Shared with what is being read.
  std::shared_ptr<LogFollowers*> self_;
};

}  // namespace lambent::frontend
