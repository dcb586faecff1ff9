// MemberTable: who is a member of the cluster, and in which state, told by others and by how the
// nodes answer. A state machine: the time comes with each call. Owned by ClusterNode.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "core/domain/cluster.h"
#include "core/http/client.h"
#include "decide/routing/hash_ring.h"
#include "decide/routing/node_view.h"
#include "decide/routing/who_serves.h"
#include "node/cluster/node_report.h"

namespace lambent::cluster {

// So many questions in a row without an answer, and a node counts as lost.
constexpr unsigned kMissedReports = 3;
constexpr size_t kMostMembers = 1024;

class MemberTable final : public routing::NodeView {
 public:
  struct Entry {
    ClusterMember member;
    http::Endpoint endpoint;
    std::string source;
    std::optional<Instant> lease_ends;
    MemberState state = MemberState::kUnknown;
    unsigned missed = 0;
    Instant silent_until{};  // it said that it gives no answer until then, at the latest
    std::string problem;
    NodeReport report;
    uint32_t outstanding = 0;  // requests forwarded there that have no answer yet
    uint32_t outstanding_when_asked = 0, outstanding_at_report = 0;
  };

  // This node is always a member.
  explicit MemberTable(std::string self);

  // As Cluster::tell().
  Result<void> tell(const ClusterTold& told, Instant now);
  // It is asked for its report: what is outstanding then is in it.
  void asked(const std::string& node);
  void reported(const std::string& node, NodeReport report);
  // It gave no good answer to a question; `why`: for people.
  void missed(const std::string& node, std::string why);
  // It becomes another program, so that its silence is no loss until then.
  void let_be_silent(const std::string& node, Instant until);
  bool may_be_silent(const std::string& node, Instant now);
  // It refused work because it stops: it gets none before it says that it takes some.
  void stops(const std::string& node);
  // A connection to it failed: it is lost until it answers again.
  void unreachable(const std::string& node);
  // Forgets members whose lease ran out and that do not answer.
  void expire(Instant now);
  void set_own_report(NodeReport report);
  // What this node has to do now, which a report of a moment ago does not say.
  void set_own_load(uint32_t load) { entries_.at(self_).report.load = load; }
  // What is wrong with this node, for people; empty: nothing.
  void set_own_problem(std::string problem);

  const std::string& self() const { return self_; }
  std::string home() const;
  // Which node begins what is due: the home, also one without others. `moves`: while it is lost,
  // the first of the others that answers, by name. Empty: this node was told of no members yet.
  std::string beginner(bool moves) const;
  uint64_t version() const { return version_; }
  std::vector<MemberStatus> members() const;
  // All but this node.
  std::vector<std::string> others() const;
  // What each node says of this pipeline, by routing::hash_of(), whether it answers now or not.
  std::vector<routing::Serving> serving(uint64_t pipeline) const;
  // The same of an invocation that takes so many GPUs with so much memory each: later, where the
  // node has them with those that were lost.
  std::vector<routing::Serving> holding(unsigned gpus, Bytes memory) const;
  // What each of its GPUs has for a function, also those that were lost, as the node says, or those
  // who tell of it; nothing: neither.
  std::optional<std::vector<Bytes>> gpus_of(routing::NodeIndex index) const;
  // Null: it is no member.
  Entry* find(const std::string& node);
  // Requests forwarded to others that have no answer yet.
  uint64_t outstanding() const;
  const std::string& name_of(routing::NodeIndex index) const { return *by_index_[index]; }
  const Entry& at(routing::NodeIndex index) const { return *entry_by_index_[index]; }
  // Whether it answered last.
  bool answers(routing::NodeIndex index) const;
  routing::NodeIndex own_index() const { return own_index_; }
  const routing::HashRing& ring() const { return ring_; }

  // NodeView.
  uint32_t size() const override { return static_cast<uint32_t>(by_index_.size()); }
  routing::NodeLoad node(routing::NodeIndex index) const override;
  routing::Warmth warmth(routing::NodeIndex index, uint64_t function) const override;
  bool could_hold(routing::NodeIndex index, unsigned gpus, Bytes memory) const override;
  uint64_t total_slots() const override;
  uint64_t total_load() const override;

 private:
  void set_state(Entry& entry, MemberState state);
  void index();

  const std::string self_;
  std::map<std::string, Entry> entries_;
  std::string home_;
  std::vector<const std::string*> by_index_;
  std::vector<Entry*> entry_by_index_;
  routing::NodeIndex own_index_ = 0;
  routing::HashRing ring_;
  uint64_t version_ = 0;
};

}  // namespace lambent::cluster
