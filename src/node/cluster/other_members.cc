#include "node/cluster/other_members.h"

#include "decide/routing/who_serves.h"

namespace lambent::cluster {

uint64_t hash_of(const std::string& tenant, const FunctionName& function) {
  return routing::hash_of(tenant + "/" + function.name);
}

std::vector<routing::Serving> serving_of(const MemberTable& table, const NodeFacts::Known& known,
                                         uint64_t function) {
  if (known.is_pipeline) return table.serving(function);
  return table.holding(known.needs.gpus, known.needs.memory);
}

std::vector<OtherMembers::One> OtherMembers::all() const {
  std::vector<One> others;
  for (routing::NodeIndex index = 0; index < table_.size(); ++index) {
    if (index == table_.own_index()) continue;
    const MemberTable::Entry& entry = table_.at(index);
    others.push_back({.node = table_.name_of(index),
                      .address = entry.endpoint,
                      .is_lost = entry.state == MemberState::kLost,
                      .tenants = table_.answers(index) ? &entry.report.tenants : nullptr});
  }
  return others;
}

http::Endpoint OtherMembers::way_to(const One& other) const {
  http::Endpoint endpoint = other.address;
  endpoint.encrypt = connector_;
  return endpoint;
}

std::vector<OtherMembers::Hardware> OtherMembers::hardware() const {
  std::vector<Hardware> all;
  for (routing::NodeIndex index = 0; index < table_.size(); ++index) {
    if (index == table_.own_index()) continue;
    all.push_back({.gpus = table_.gpus_of(index), .slices = table_.at(index).report.slices});
  }
  return all;
}

std::optional<std::string> OtherMembers::taker_of(const std::string& tenant,
                                                  const FunctionName& function) const {
  const auto known = facts_.find(function);
  if (!known) return table_.self();
  const auto says = serving_of(table_, *known, hash_of(tenant, known->record));
  std::vector<routing::Candidate> nodes;
  for (routing::NodeIndex index = 0; index < table_.size(); ++index) {
    nodes.push_back({.serving = says[index], .answers = table_.answers(index)});
  }
  const auto taker = routing::taker_of(nodes, table_.own_index(), random_.next());
  if (!taker) return std::nullopt;
  return table_.name_of(*taker);
}

}  // namespace lambent::cluster
