#include "node/worker/kernel_graphs.h"

#include <algorithm>

#include "core/base/base64.h"
#include "core/domain/function_limits.h"
#include "node/worker/limits.h"

namespace lambent::worker {
namespace {

Error not_here(const std::string& digest) {
  return {ErrorCode::kNotFound,
          "graph " + digest.substr(0, kKeptGraphDigits) +
              " is not here, or no longer: send its package with the request"};
}

// The digest as packages of functions have it.
std::string base64_of(std::string_view hex) {
  std::string bytes;
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  }
  return base64_encode(bytes);
}

}  // namespace

KernelGraphs::~KernelGraphs() {
  if (timed_) uses_.loop.cancel(timer_);
}

Result<KeptGraph> KernelGraphs::find_graph(TenantId tenant, const std::string& digest) {
  const auto found = graphs_.find({tenant, digest});
  if (found == graphs_.end()) return not_here(digest);
  touch(found->second);
  return found->second.kept;
}

void KernelGraphs::put_graph(TenantId tenant, std::string digest, std::string package,
                             Callback<KeptGraph> done) {
  if (const auto known = find_graph(tenant, digest); known.ok()) return done(*known);
  if (Bytes(package.size()) > limits::kKeptGraphPackage) {
    return done(Error{ErrorCode::kOutOfRange,
                      "package: it has " + to_string(Bytes(package.size())) + "; at most " +
                          to_string(limits::kKeptGraphPackage) +
                          " come with a request: deploy it as a function, or make large constants "
                          "inputs, which can be objects"});
  }
  const Key key{tenant, std::move(digest)};
  if (const auto coming = arriving_.find(key); coming != arriving_.end()) {
    return coming->second.waiting.push_back(std::move(done));
  }
  if (const auto room = make_room(tenant, Bytes(package.size())); !room.ok()) {
    return done(room.error());
  }
  const FunctionName name = name_of(key);
  arriving_[key] = {.function = name, .waiting = {std::move(done)}};
  take_slot([this, key, package = std::move(package)](Result<Slot> slot) mutable {
    if (!slot.ok()) return finish(key, {}, slot.error());
    keep(key, std::move(package), *slot);
  });
}

// Ids are given back with the graphs that had them, so no more are taken than graphs can be kept.
// One with something left to do, of a tenant that went, is passed by until that has ended: who runs
// next under the id may be another tenant.
void KernelGraphs::take_slot(std::function<void(Result<Slot>)> done) {
  remove_leaving();
  const auto at_rest =
      std::ranges::find_if(free_, [this](const Slot& slot) { return !uses_.is_at_work(slot.id); });
  if (at_rest != free_.end()) {
    const Slot slot = *at_rest;
    free_.erase(at_rest);
    return done(slot);
  }
  uses_.catalog.reserve_function_id([done = std::move(done)](Result<FunctionId> id) {
    if (!id.ok()) return done(id.error());
    done(Slot{*id, 0});
  });
}

void KernelGraphs::keep(const Key& key, std::string package, Slot slot) {
  FunctionSpec spec;
  spec.id = slot.id;
  // Above that of the graph that had the id before: what is left of that one is not taken for it.
  spec.revision = ++slot.revision;
  spec.name = arriving_.at(key).function;
  spec.kind = FunctionKind::kKernel;
  spec.handler = "graph.json";
  spec.timeout = std::min(limits::kDefaultTimeout, uses_.longest_gpu_run);
  spec.code_sha256 = base64_of(key.second);
  FunctionChange change;
  change.spec = std::move(spec);
  change.zip = std::move(package);
  uses_.service.create_function(std::move(change), [this, key, slot](Result<FunctionSpec> stored) {
    finish(key, slot, std::move(stored));
  });
}

bool KernelGraphs::is_taken(const FunctionName& name) const {
  return std::ranges::any_of(graphs_,
                             [&](const auto& each) { return each.second.kept.function == name; }) ||
         std::ranges::any_of(arriving_,
                             [&](const auto& each) { return each.second.function == name; }) ||
         std::ranges::any_of(leaving_, [&](const auto& each) { return each.first == name; });
}

FunctionName KernelGraphs::name_of(const Key& key) const {
  const auto& [tenant, digest] = key;
  size_t digits = kKeptGraphDigits;
  FunctionName name{tenant, std::string(kKeptGraphPrefix) + digest.substr(0, digits)};
  while (is_taken(name) && digits < digest.size()) name.name += digest[digits++];
  return name;
}

void KernelGraphs::finish(const Key& key, Slot slot, Result<FunctionSpec> stored) {
  const Arrival arrival = std::move(arriving_.extract(key).mapped());
  Result<KeptGraph> answer = not_here(key.second);
  if (stored.ok() && arrival.is_unwanted) {
    remove_function(stored->name, slot);
  } else if (stored.ok()) {
    Graph& graph = graphs_[key];
    graph.kept = {.digest = key.second,
                  .function = stored->name,
                  .package = stored->code_size,
                  .device_memory = stored->gpu.memory};
    graph.slot = slot;
    touch(graph);
    answer = graph.kept;
    if (!timed_) evict_resting();
  } else {
    if (slot.id != FunctionId()) free_.push_back(slot);
    answer = stored.error();
  }
  for (const Callback<KeptGraph>& done : arrival.waiting) done(answer);
}

std::vector<KeptGraph> KernelGraphs::list_graphs(TenantId tenant) const {
  std::vector<KeptGraph> list;
  for (auto it = graphs_.lower_bound({tenant, ""});
       it != graphs_.end() && it->first.first == tenant; ++it) {
    list.push_back(it->second.kept);
  }
  return list;
}

Result<KeptGraph> KernelGraphs::remove_graph(TenantId tenant, const std::string& digest) {
  const auto found = graphs_.find({tenant, digest});
  if (found == graphs_.end()) return not_here(digest);
  if (uses_.is_at_work(found->second.slot.id)) {
    return Error{ErrorCode::kFailedPrecondition, "graph " + digest.substr(0, kKeptGraphDigits) +
                                                     " runs; try again when it has ended"};
  }
  KeptGraph kept = found->second.kept;
  evict(found);
  return kept;
}

void KernelGraphs::remove_all(TenantId tenant) {
  for (auto it = graphs_.lower_bound({tenant, ""});
       it != graphs_.end() && it->first.first == tenant;) {
    evict(it++);
  }
  for (auto& [key, arrival] : arriving_) {
    arrival.is_unwanted = arrival.is_unwanted || key.first == tenant;
  }
}

void KernelGraphs::touch(Graph& graph) {
  graph.use = ++uses_of_all_;
  graph.kept.last_used = uses_.loop.clock().wall_now();
}

KernelGraphs::Graphs::iterator KernelGraphs::oldest_at_rest(std::optional<TenantId> tenant) {
  auto oldest = graphs_.end();
  for (auto it = graphs_.begin(); it != graphs_.end(); ++it) {
    if (tenant && it->first.first != *tenant) continue;
    const bool is_older = oldest == graphs_.end() || it->second.use < oldest->second.use;
    if (is_older && !uses_.is_at_work(it->second.slot.id)) oldest = it;
  }
  return oldest;
}

size_t KernelGraphs::count(TenantId tenant) const {
  const auto is_the_tenants = [tenant](const auto& each) { return each.first.first == tenant; };
  return static_cast<size_t>(std::ranges::count_if(graphs_, is_the_tenants) +
                             std::ranges::count_if(arriving_, is_the_tenants));
}

// What the packages of its graphs that do nothing take.
Bytes KernelGraphs::resting(TenantId tenant) const {
  Bytes sum;
  for (auto it = graphs_.lower_bound({tenant, ""});
       it != graphs_.end() && it->first.first == tenant; ++it) {
    if (!uses_.is_at_work(it->second.slot.id)) sum += it->second.kept.package;
  }
  return sum;
}

// A tenant makes room among its own; only where all tenants together have too many does the oldest
// of all go. None goes for a package that has no room without all of them.
Result<void> KernelGraphs::make_room(TenantId tenant, Bytes package) {
  const auto check_quota = [&](Bytes used) {
    return uses_.quotas.check(tenant, {.functions = 0, .disk = used},
                              {.functions = 0, .disk = package});
  };
  const Bytes used = uses_.used_disk(tenant);
  RETURN_IF_ERROR(check_quota(used - std::min(used, resting(tenant))));
  for (;;) {
    const auto quota = check_quota(uses_.used_disk(tenant));
    const bool has_too_many = count(tenant) >= limits_.per_tenant;
    const bool all_are_too_many = graphs_.size() + arriving_.size() >= limits_.all;
    if (quota.ok() && !has_too_many && !all_are_too_many) return {};
    const bool is_own = !quota.ok() || has_too_many;
    const auto oldest = oldest_at_rest(is_own ? std::optional(tenant) : std::nullopt);
    if (oldest != graphs_.end()) {
      evict(oldest);
      continue;
    }
    if (!quota.ok()) return quota;
    const size_t most = has_too_many ? limits_.per_tenant : limits_.all;
    return Error{ErrorCode::kResourceExhausted, std::to_string(most) + " graphs are kept" +
                                                    (has_too_many ? " for the tenant" : "") +
                                                    ", and all of them run or arrive; try again"};
  }
}

void KernelGraphs::evict(Graphs::iterator graph) {
  const FunctionName name = graph->second.kept.function;
  const Slot slot = graph->second.slot;
  uses_.log.info("graph_evicted", {{"tenant", int64_t{name.tenant.value}}, {"graph", name.name}});
  graphs_.erase(graph);
  remove_function(name, slot);
}

// Only when the function is gone has its id no owner: two functions with one id, perhaps of two
// tenants, would run each other's code.
void KernelGraphs::remove_function(const FunctionName& name, Slot slot) {
  uses_.service.remove_function(name, [this, name, slot](const Result<FunctionSpec>& removed) {
    const bool is_gone = removed.ok() || removed.error().code == ErrorCode::kNotFound;
    if (is_gone) return free_.push_back(slot);
    leaving_.emplace_back(name, slot);
  });
}

void KernelGraphs::remove_leaving() {
  for (const auto& [name, slot] : std::exchange(leaving_, {})) remove_function(name, slot);
}

void KernelGraphs::evict_resting() {
  const Duration now = uses_.loop.clock().wall_now();
  for (auto it = graphs_.begin(); it != graphs_.end();) {
    const auto next = std::next(it);
    if (now - it->second.kept.last_used >= limits_.rest && !uses_.is_at_work(it->second.slot.id))
      evict(it);
    it = next;
  }
  remove_leaving();
  timed_ = !graphs_.empty() || !leaving_.empty();
  if (timed_) timer_ = uses_.loop.call_after(limits_.rest / 8, [this] { evict_resting(); });
}

}  // namespace lambent::worker
