// ActivityFollowers: clients that watch what a tenant's functions do. Each gets server-sent events,
// once a second: the state of the moment, functions that changed, invocations that ended. What is
// the same for all followers of a tenant is made once. On the loop thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/domain/activity.h"
#include "core/domain/invocation_service.h"
#include "core/http/server.h"
#include "core/loop/event_loop.h"

namespace lambent::frontend {

constexpr size_t kActivityFollowersPerTenant = 16;
constexpr size_t kActivityFollowers = 64;  // of all tenants

class ActivityFollowers {
 public:
  // All outlive it. `devices` and `slices` as NativeOptions has them; either may be empty. Clients
  // are followed until `ready` is false (the worker drains).
  struct Dependencies {
    const ActivityService& activity;
    const InvocationService& invocations;
    loop::EventLoop& loop;
    std::function<std::string()> devices;
    std::function<std::string(TenantId)> slices;
    std::function<bool()> ready;
  };
  explicit ActivityFollowers(Dependencies dependencies) : uses_(std::move(dependencies)) {}
  ~ActivityFollowers();
  ActivityFollowers(const ActivityFollowers&) = delete;
  ActivityFollowers& operator=(const ActivityFollowers&) = delete;

  // False, without an answer, if too many watch already. `may_read` is asked before each
  // piece. A client that is too slow is dropped; it may come again.
  bool add(TenantId tenant, std::function<bool()> may_read, http::Responder& responder);
  size_t count() const { return followers_.size(); }

 private:
  struct Follower {
    TenantId tenant;
    std::function<bool()> may_read;
    http::Responder responder;
    // Set by the connection, which may learn of the client's end while we write to it.
    std::shared_ptr<bool> left;
  };
  // What the followers of a tenant were sent.
  struct Channel {
    std::map<std::string, FunctionActivity> functions;
    std::string walked_to;  // the functions after this name are looked at next
    // All were looked at: what is not known from then on is new, and not just met first.
    bool knows_all = false;
    uint64_t last_ended = 0;
  };

  void schedule();
  void serve_all();
  // False: there is nothing more to send to it.
  bool serve(Follower& follower, const std::string& events);
  std::string events_of(TenantId tenant, Channel& channel) const;
  std::string state_event(TenantId tenant) const;
  std::string functions_event(TenantId tenant, Channel& channel) const;
  std::string ended_event(TenantId tenant, Channel& channel) const;

  const Dependencies uses_;
  std::map<uint64_t, Follower> followers_;
  std::map<TenantId, Channel> channels_;
  uint64_t next_ = 0;
  bool scheduled_ = false;
  loop::TimerId timer_;
};

}  // namespace lambent::frontend
