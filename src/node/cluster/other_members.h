// OtherMembers: the nodes that are not this one, for parts of the worker that need more of them
// than that a request gets somewhere: what they have, and who can run what. Owned by ClusterNode;
// loop thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/random.h"
#include "core/domain/slice.h"
#include "core/http/client.h"
#include "node/cluster/member_table.h"
#include "node/cluster/node_facts.h"

namespace lambent::cluster {

// By which nodes tell each other of a function. `tenant`: its name.
uint64_t hash_of(const std::string& tenant, const FunctionName& function);
// What each node says of a function, by its hash.
std::vector<routing::Serving> serving_of(const MemberTable& table, const NodeFacts::Known& known,
                                         uint64_t function);

class OtherMembers {
 public:
  // All outlive it. `connector`: null: nodes of https cannot be reached.
  OtherMembers(const MemberTable& table, const NodeFacts& facts, Random& random,
               http::SecureConnector connector)
      : table_(table), facts_(facts), random_(random), connector_(std::move(connector)) {}

  // What one refers to stays until the end of the turn.
  struct One {
    std::string_view node;
    const http::Endpoint& address;
    bool is_lost = false;
    const std::vector<TenantUse>* tenants = nullptr;  // as it said last; null: it does not answer
  };
  std::vector<One> all() const;
  // How one is reached, from any thread.
  http::Endpoint way_to(const One& other) const;

  // What each has for functions and pipelines, as it said last, lost or not.
  struct Hardware {
    std::optional<std::vector<Bytes>> gpus;  // as MemberTable::gpus_of()
    std::vector<SliceShape> slices;
  };
  std::vector<Hardware> hardware() const;

  // Which node, perhaps this one, runs what a lost one had of a function, as routing::taker_of()
  // says; nothing: it waits. `tenant`: its name.
  std::optional<std::string> taker_of(const std::string& tenant,
                                      const FunctionName& function) const;

 private:
  const MemberTable& table_;
  const NodeFacts& facts_;
  Random& random_;
  const http::SecureConnector connector_;
};

}  // namespace lambent::cluster
