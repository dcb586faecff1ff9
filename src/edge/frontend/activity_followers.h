// ActivityFollowers: clients that watch what a tenant's functions do. Each gets server-sent events,
// once a second: the state of the moment, functions that changed, invocations that ended. What is
// the same for all followers of a tenant is made once. In a cluster they are of all its nodes,
// which are asked once for each piece, and again when all have answered or are named as silent. On
// the loop thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/domain/activity.h"
#include "core/domain/invocation_service.h"
#include "core/http/server.h"
#include "core/loop/event_loop.h"
#include "edge/frontend/activity_merge.h"
#include "edge/frontend/node_answers.h"

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
    OtherNodes others = {};
  };
  explicit ActivityFollowers(Dependencies dependencies);
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
    // The same at other nodes; of one that has no place here it is asked for first.
    std::map<std::string, uint64_t> last_ended_at;
    // All nodes that answered at first have theirs; what one has that comes later is new.
    bool knows_nodes = false;
    bool asks_others = false;  // and has no answer yet
    // Each has its own: answers to a channel that ended are not for the next one of its tenant.
    uint64_t number = 0;
  };
  // What other nodes say for one piece.
  struct Told {
    NodeAnswers live;
    NodeAnswers functions;
    NodeAnswers ended;
    NodeAnswers sandboxes;
    NodeAnswers devices;

    // Those that left one question or more unanswered.
    std::set<std::string> silent() const;
  };

  Channel& channel_of(TenantId tenant);
  // Followers that left, and channels that none follows any more.
  void forget_gone();
  void schedule();
  void serve_all();
  void serve(TenantId tenant, const std::string& events);
  void ask_and_serve(TenantId tenant, Channel& channel);
  // False: there is nothing more to send to it.
  bool serve(Follower& follower, const std::string& events);
  // `told`: null where there are no other nodes.
  std::string events_of(TenantId tenant, Channel& channel, const Told* told) const;
  std::string state_event(TenantId tenant, const Told* told) const;
  FiguresPage functions_after(TenantId tenant, const Channel& channel, const Told* told) const;
  std::string functions_event(TenantId tenant, Channel& channel, const Told* told) const;
  std::string ended_event(TenantId tenant, Channel& channel, const Told* told) const;

  const Dependencies uses_;
  std::map<uint64_t, Follower> followers_;
  std::map<TenantId, Channel> channels_;
  uint64_t next_ = 0;
  uint64_t channels_made_ = 0;
  bool scheduled_ = false;
  loop::TimerId timer_;
  // Points to this until it ends. Shared with what is being asked.
  std::shared_ptr<ActivityFollowers*> self_;
};

}  // namespace lambent::frontend
