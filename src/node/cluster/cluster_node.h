// ClusterNode: this node among the others. It hears who they are, asks them each second how they
// are, and sends requests to the node that is to answer them. Made by main; loop thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/base/random.h"
#include "core/domain/cluster.h"
#include "core/http/forward_service.h"
#include "core/loop/event_loop.h"
#include "decide/routing/policy.h"
#include "node/cluster/member_table.h"
#include "node/cluster/name_watch.h"
#include "node/cluster/node_credentials.h"
#include "node/cluster/node_facts.h"
#include "node/cluster/node_links.h"
#include "node/cluster/not_begun.h"
#include "node/cluster/other_members.h"
#include "node/cluster/repeat_routes.h"
#include "node/cluster/resendable_exchange.h"
#include "node/cluster/whole_exchange.h"

namespace lambent::cluster {

class ClusterNode final : public Cluster, public http::ForwardService {
 public:
  struct Dependencies {
    loop::EventLoop& loop;
    LogSink& log;
    Random& random;
    NodeLinks::Offload offload;
    http::SecureConnector connector;  // null: nodes of https cannot be reached
    // Told of each request that was forwarded and answered; may be empty.
    std::function<void(Duration took)> forwarded = {};
  };

  ClusterNode(Dependencies dependencies, NodeCredentials credentials,
              std::unique_ptr<routing::Policy> policy, NodeFacts facts);
  ~ClusterNode() override;

  // The copy of the home's catalog; set by main before the first request.
  struct Replica {
    // Catches up with the home, and calls back as ForwardService::catch_up().
    std::function<void(const FunctionName&, std::function<void(Result<void>)>)> catch_up;
    // Told of changes of the catalog that this node answered.
    std::function<void()> changed;
    // Whether this node has had a home that is another.
    std::function<bool()> has_copies;
  };
  void set_replica(Replica replica) { replica_ = std::move(replica); }
  // It becomes another program: others are told to send it nothing more, and that it gives no
  // answer for `silence` at most. `told` comes once they have had time to ask.
  void give_way(Duration silence, std::function<void()> told);
  // Whether requests that others run have their answers still to come by this node.
  bool has_forwards_under_way() const { return table_.outstanding() > 0; }

  // Cluster.
  Result<void> tell(ClusterTold told) override;
  void drain(const std::string& node, bool drained,
             std::function<void(Result<void>)> done) override;
  std::vector<MemberStatus> members() const override { return table_.members(); }
  std::string self() const override { return table_.self(); }
  std::string home() const override { return table_.home(); }
  uint64_t version() const override { return table_.version(); }
  ClusterCounts counts() const override { return counts_; }
  void watch(std::function<void()> changed) override { watchers_.push_back(std::move(changed)); }

  // ForwardService.
  Result<std::optional<Forwarded>> forwarded_by(const http::Request& request) const override;
  void take(http::Request& request) override;
  void route(http::ForwardCall call) override;
  void catch_up(const FunctionName& function, std::function<void(Result<void>)> then) override;
  void changed() override {
    if (replica_.changed) replica_.changed();
  }
  std::vector<Peer> peers() const override;
  void ask(const std::string& node, Question question, Duration timeout,
           std::function<void(Result<http::Response>)> done) override;

  // From now on functions are changed at any node, for all share a catalog.
  void share_catalog() { shares_catalog_ = true; }
  // Whether this node copies a catalog: another node's, or the one that all share.
  bool is_replica() const { return shares_catalog_ || (!home().empty() && home() != self()); }
  // Whether this node begins what schedules are due for: the home does. Where all share a catalog
  // another one does while the home is lost; two that do for a moment begin each instant once.
  bool begins_schedules() const;
  // Whether a node does not answer, or is no member.
  bool is_lost(const std::string& node);
  const OtherMembers& others() const { return others_; }
  // Marks requests to other nodes as this node's, for that tenant. On any thread, also after this.
  std::function<void(http::Request&)> signer(std::string tenant) const;
  NodeReport own_report() const;

 private:
  // A request that is on its way to a node, perhaps to one after the other.
  struct Forward {
    explicit Forward(http::ForwardCall its_call) : call(std::move(its_call)) {}
    void refuse(const Error& error);

    http::ForwardCall call;
    std::shared_ptr<http::Responder> client;
    std::shared_ptr<const std::string> body;  // null: it streams
    // Of a body that streams: the client as nodes see it, one after the other; null: there is none.
    std::shared_ptr<ResendableExchange> streamed = nullptr;
    std::string repeat_key;               // of repeats by the same client; empty: none
    std::vector<std::string> left;        // nodes that may know, of kWhoKnows
    std::vector<std::string> silent;      // of these nodes those that did not answer
    std::optional<http::Response> known;  // the first answer that is not "unknown"
    std::optional<Error> unsure;          // why it is not told whether there is the function
    unsigned attempts = 0;
    Instant sent_at{};
    bool was_home = false;        // asked because another node does not have the function
    std::string refused_by = {};  // a node that stops, where no earlier one of the client is
  };
  using ForwardPtr = std::shared_ptr<Forward>;

  void choose(const ForwardPtr& forward);
  void choose_any(const ForwardPtr& forward);
  void answer_here(const ForwardPtr& forward);
  void not_there(const ForwardPtr& forward, int status);
  void ask_who_knows(const ForwardPtr& forward);
  void ask_next(const ForwardPtr& forward, http::Response unknown);
  void go_home(const ForwardPtr& forward);
  void send_to(const ForwardPtr& forward, const std::string& node);
  void kept_from(const ForwardPtr& forward, const std::string& node, int status, NotBegun why);
  void sent(const ForwardPtr& forward, const std::string& node, WholeExchange* exchange,
            bool answered, const LinkEnd& how);
  http::Request request_for(const Forward& forward) const;
  void tick();
  // As ask(), with how it ended.
  void inquire(const std::string& node, Question question, Duration timeout,
               std::function<void(Result<http::Response>, LinkEnd::Kind)> done);
  void refresh_own_report();
  void tell_watchers();

  const Dependencies uses_;
  const NodeCredentials credentials_;
  const std::unique_ptr<routing::Policy> policy_;
  const NodeFacts facts_;
  Replica replica_;
  MemberTable table_;
  const OtherMembers others_;
  std::vector<std::function<void()>> watchers_;
  uint64_t told_version_ = 0;
  NameWatch name_;
  Instant own_report_at_ = Instant::min();
  std::vector<std::string> asked_;  // for a report, and have not answered
  ClusterCounts counts_;
  RepeatRoutes repeats_;
  // Bytes of bodies that stream. Shared with their exchanges.
  const std::shared_ptr<size_t> kept_of_bodies_ = std::make_shared<size_t>(0);
  bool shares_catalog_ = false;
  bool drained_ = false;
  Duration silence_{};
  loop::TimerId ticker_;
  // Last: what is on its way ends first.
  NodeLinks links_;
};

}  // namespace lambent::cluster
