#include "node/cluster/member_table.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/domain/gpu_fit.h"

namespace lambent::cluster {
namespace {

constexpr size_t kMostName = 64;

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= kMostName &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-' || c == '_' || c == '.';
         });
}

Result<http::Endpoint> endpoint_of(const ClusterMember& member) {
  ASSIGN_OR_RETURN(http::Endpoint endpoint, http::parse_endpoint(member.address));
  if (endpoint.socket_path.empty()) return endpoint;
  return invalid("the address of node '" + member.node + "' is a Unix socket; others need TCP");
}

// Whether anything was heard of the node.
bool has_said(const NodeReport& report) { return !report.version.empty(); }

routing::Serving serving_of(const NodeReport& report, uint64_t pipeline) {
  if (!report.pipelines) return routing::Serving::kUnknown;
  if (std::ranges::binary_search(*report.pipelines, pipeline)) return routing::Serving::kCan;
  if (std::ranges::binary_search(report.pipelines_later, pipeline)) return routing::Serving::kLater;
  const bool has_places = !report.slices.empty() || !report.gpus_for_functions().empty();
  return has_places ? routing::Serving::kNotYet : routing::Serving::kCannot;
}

}  // namespace

MemberTable::MemberTable(std::string self) : self_(std::move(self)) {
  Entry& own = entries_[self_];
  own.member.node = self_;
  own.state = MemberState::kUp;
  own.source = "self";
  index();
}

Result<void> MemberTable::tell(const ClusterTold& told, Instant now) {
  if (told.members.size() > kMostMembers) {
    return invalid("a cluster has at most " + std::to_string(kMostMembers) + " nodes");
  }
  std::map<std::string, http::Endpoint> endpoints;
  std::set<std::string> addresses;
  for (const ClusterMember& member : told.members) {
    if (!is_name(member.node)) {
      return invalid("'" + member.node +
                     "' is no name of a node: 1 to 64 letters, digits, '-', '_' and '.'");
    }
    auto endpoint = endpoint_of(member);
    if (!endpoint.ok()) return endpoint.error().with_context("node '" + member.node + "'");
    if (!endpoints.emplace(member.node, *std::move(endpoint)).second) {
      return invalid("node '" + member.node + "' is there twice");
    }
    if (!addresses.insert(member.address).second) {
      return invalid("two nodes have the address " + member.address);
    }
    const auto known = entries_.find(member.node);
    const bool is_others = known != entries_.end() && known->second.source != told.source &&
                           known->second.source != "self" &&
                           known->second.member.address != member.address;
    if (is_others) {
      return Error{ErrorCode::kFailedPrecondition,
                   "'" + known->second.source + "' says that node '" + member.node + "' is at " +
                       known->second.member.address + ", not at " + member.address};
    }
  }
  if (!told.home.empty() && !endpoints.contains(told.home)) {
    return invalid("the home '" + told.home + "' is no member");
  }
  bool changed = false;
  for (auto it = entries_.begin(); it != entries_.end();) {
    const bool goes =
        it->second.source == told.source && !endpoints.contains(it->first) && it->first != self_;
    changed = changed || goes;
    it = goes ? entries_.erase(it) : std::next(it);
  }
  for (const ClusterMember& member : told.members) {
    Entry& entry = entries_[member.node];
    if (entry.member != member) {
      // At another address it is another process, of which nothing is known.
      if (entry.member.address != member.address && member.node != self_) {
        entry.state = MemberState::kUnknown;
        entry.missed = 0;
        entry.silent_until = {};
        entry.report = {};
      }
      entry.member = member;
      entry.endpoint = endpoints.at(member.node);
      changed = true;
    }
    entry.source = told.source;
    entry.lease_ends.reset();
    if (told.lease) entry.lease_ends = now + *told.lease;
  }
  std::string home = told.home;
  if (home.empty() && !told.members.empty()) home = told.members.front().node;
  changed = changed || home != home_;
  home_ = std::move(home);
  if (changed) index();
  return {};
}

void MemberTable::set_state(Entry& entry, MemberState state) {
  if (entry.state == state) return;
  entry.state = state;
  ++version_;
}

void MemberTable::asked(const std::string& node) {
  if (Entry* entry = find(node)) entry->outstanding_when_asked = entry->outstanding;
}

void MemberTable::reported(const std::string& node, NodeReport report) {
  Entry* entry = find(node);
  if (entry == nullptr || node == self_) return;
  // Another node answers at its address: to forward there would be to another function's home.
  if (report.node != node) {
    return missed(node, "node '" + report.node + "' answers at its address");
  }
  entry->missed = 0;
  entry->problem.clear();
  set_state(*entry, report.takes_work ? MemberState::kUp : MemberState::kDraining);
  entry->report = std::move(report);
  entry->outstanding_at_report = entry->outstanding_when_asked;
}

void MemberTable::missed(const std::string& node, std::string why) {
  Entry* entry = find(node);
  if (entry == nullptr || node == self_) return;
  if (entry->problem != why) ++version_;
  entry->problem = std::move(why);
  if (++entry->missed >= kMissedReports) set_state(*entry, MemberState::kLost);
}

void MemberTable::let_be_silent(const std::string& node, Instant until) {
  if (Entry* entry = find(node)) entry->silent_until = until;
}

bool MemberTable::may_be_silent(const std::string& node, Instant now) {
  const Entry* entry = find(node);
  return entry != nullptr && entry->state != MemberState::kLost && now < entry->silent_until;
}

void MemberTable::stops(const std::string& node) {
  Entry* entry = find(node);
  if (entry == nullptr || entry->state != MemberState::kUp) return;
  set_state(*entry, MemberState::kDraining);
}

void MemberTable::unreachable(const std::string& node) {
  Entry* entry = find(node);
  if (entry == nullptr || node == self_) return;
  entry->missed = kMissedReports;
  set_state(*entry, MemberState::kLost);
}

void MemberTable::expire(Instant now) {
  const auto gone = std::erase_if(entries_, [&](const auto& each) {
    const Entry& entry = each.second;
    return each.first != self_ && entry.lease_ends && *entry.lease_ends <= now &&
           (entry.state == MemberState::kLost || entry.state == MemberState::kUnknown);
  });
  if (gone > 0) index();
}

void MemberTable::set_own_report(NodeReport report) {
  Entry& own = entries_.at(self_);
  set_state(own, report.takes_work ? MemberState::kUp : MemberState::kDraining);
  own.report = std::move(report);
}

void MemberTable::set_own_problem(std::string problem) {
  Entry& own = entries_.at(self_);
  if (own.problem != problem) ++version_;
  own.problem = std::move(problem);
}

std::string MemberTable::home() const { return entries_.size() > 1 ? home_ : std::string(); }

std::string MemberTable::beginner(bool moves) const {
  const auto at = entries_.find(home_);
  // One that is lost is forgotten after a while.
  const bool is_lost =
      !home_.empty() && (at == entries_.end() || at->second.state == MemberState::kLost);
  if (!moves || !is_lost) return home_;
  for (const auto& [name, entry] : entries_) {
    if (entry.state == MemberState::kUp || entry.state == MemberState::kDraining) return name;
  }
  return home_;
}

uint64_t MemberTable::outstanding() const {
  uint64_t all = 0;
  for (const auto& [name, entry] : entries_) all += entry.outstanding;
  return all;
}

std::vector<MemberStatus> MemberTable::members() const {
  std::vector<MemberStatus> all;
  for (const auto& [name, entry] : entries_) {
    all.push_back({.member = entry.member,
                   .state = entry.state,
                   .is_self = name == self_,
                   .is_home = name == home_,
                   .source = entry.source,
                   .problem = entry.problem,
                   .version = entry.report.version,
                   .gpus = entry.report.gpus,
                   .slots = entry.report.slots,
                   .load = entry.report.load,
                   .memory_free = entry.report.memory_free,
                   .warm_functions = entry.report.warm.size()});
  }
  return all;
}

std::vector<std::string> MemberTable::others() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) {
    if (name != self_) names.push_back(name);
  }
  return names;
}

std::vector<routing::Serving> MemberTable::serving(uint64_t pipeline) const {
  std::vector<routing::Serving> all;
  for (const Entry* entry : entry_by_index_) all.push_back(serving_of(entry->report, pipeline));
  return all;
}

std::vector<routing::Serving> MemberTable::holding(unsigned gpus, Bytes memory) const {
  std::vector<routing::Serving> all;
  for (routing::NodeIndex index = 0; index < size(); ++index) {
    const auto there = gpus_of(index);
    if (gpus == 0) {
      all.push_back(routing::Serving::kCan);
    } else if (!there) {
      all.push_back(routing::Serving::kUnknown);
    } else if (!have_room(*there, memory, gpus)) {
      all.push_back(routing::Serving::kCannot);
    } else {
      const bool can = !has_said(at(index).report) || could_hold(index, gpus, memory);
      all.push_back(can ? routing::Serving::kCan : routing::Serving::kLater);
    }
  }
  return all;
}

std::optional<std::vector<Bytes>> MemberTable::gpus_of(routing::NodeIndex index) const {
  const Entry& entry = at(index);
  if (has_said(entry.report)) return entry.report.gpus_for_functions();
  if (entry.member.gpus.empty()) return std::nullopt;
  std::vector<Bytes> memory;
  for (const GpuFacts& gpu : entry.member.gpus) memory.push_back(gpu.memory);
  return memory;
}

bool MemberTable::answers(routing::NodeIndex index) const {
  const MemberState state = at(index).state;
  return state == MemberState::kUp || state == MemberState::kDraining;
}

MemberTable::Entry* MemberTable::find(const std::string& node) {
  const auto found = entries_.find(node);
  return found == entries_.end() ? nullptr : &found->second;
}

void MemberTable::index() {
  ++version_;
  by_index_.clear();
  entry_by_index_.clear();
  std::vector<uint64_t> keys;
  for (auto& [name, entry] : entries_) {
    const auto index = static_cast<routing::NodeIndex>(by_index_.size());
    if (name == self_) own_index_ = index;
    keys.push_back(routing::hash_of(name));
    by_index_.push_back(&name);
    entry_by_index_.push_back(&entry);
  }
  ring_ = routing::HashRing::of(keys);
}

routing::NodeLoad MemberTable::node(routing::NodeIndex index) const {
  const Entry& entry = *entry_by_index_[index];
  const NodeReport& report = entry.report;
  const size_t all = report.for_functions ? report.for_functions->size() : report.gpus.size();
  const size_t gpus = all - std::min(all, report.lost_for_functions.size());
  return {.takes_work = entry.state == MemberState::kUp,
          .slots = report.slots,
          .load = routing::load_since(report.load, entry.outstanding_at_report, entry.outstanding),
          .memory_free = report.memory_free,
          .gpus = static_cast<uint32_t>(gpus)};
}

routing::Warmth MemberTable::warmth(routing::NodeIndex index, uint64_t function) const {
  return entry_by_index_[index]->report.warmth(function);
}

bool MemberTable::could_hold(routing::NodeIndex index, unsigned gpus, Bytes memory) const {
  return have_room(entry_by_index_[index]->report.gpus_at_work(), memory, gpus);
}

uint64_t MemberTable::total_slots() const {
  uint64_t total = 0;
  for (routing::NodeIndex each = 0; each < size(); ++each) {
    const routing::NodeLoad load = node(each);
    total += load.takes_work ? load.slots : 0;
  }
  return total;
}

uint64_t MemberTable::total_load() const {
  uint64_t total = 0;
  for (routing::NodeIndex each = 0; each < size(); ++each) {
    const routing::NodeLoad load = node(each);
    total += load.takes_work ? load.load : 0;
  }
  return total;
}

}  // namespace lambent::cluster
