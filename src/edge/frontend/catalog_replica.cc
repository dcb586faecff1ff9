#include "edge/frontend/catalog_replica.h"

#include <nlohmann/json.hpp>

#include "core/base/fd.h"
#include "edge/frontend/access_call.h"
#include "edge/frontend/catalog_copy.h"
#include "edge/frontend/json_text.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

constexpr Duration kPeriod = seconds(1);
constexpr size_t kMostRecord = 64 * 1024 * 1024;

std::string text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

CatalogReplica::CatalogReplica(Dependencies dependencies, std::string record)
    : uses_(std::move(dependencies)),
      record_(std::move(record)),
      self_(std::make_shared<CatalogReplica*>(this)) {
  if (const auto text = read_file(record_, kMostRecord); text.ok()) {
    const json names = json::parse(*text, nullptr, false);
    if (names.is_array()) {
      for (const json& each : names) {
        if (!each.is_array() || each.size() != 2 || !each[0].is_string() || !each[1].is_string()) {
          continue;
        }
        copied_.emplace(each[0].get<std::string>(), each[1].get<std::string>());
      }
    }
  }
  timer_ = uses_.loop.call_after(kPeriod, [this] { ask(); });
}

CatalogReplica::~CatalogReplica() {
  *self_ = nullptr;
  uses_.loop.cancel(timer_);
}

void CatalogReplica::catch_up(const FunctionName&, std::function<void()> then) {
  if (!uses_.is_replica()) return then();
  // What is on its way may have been asked for before the change.
  (busy_ ? waiting_next_ : waiting_).push_back(std::move(then));
  ask_soon();
}

void CatalogReplica::ask_soon() {
  if (busy_) {
    again_ = true;
    return;
  }
  uses_.loop.cancel(timer_);
  ask();
}

void CatalogReplica::ask() {
  if (!uses_.is_replica()) return finish();
  busy_ = true;
  uses_.ask_home("/v1/cluster/catalog?known=" + known_version_,
                 [self = self_](Result<http::Response> answer) {
                   if (*self != nullptr) (*self)->answered(std::move(answer));
                 });
}

void CatalogReplica::answered(Result<http::Response> answer) {
  if (!answer.ok() || answer->status != 200) return finish();
  const auto catalog = parse_json(answer->body);
  if (!catalog.ok() || !catalog->is_object()) return finish();
  read_catalog(*catalog);
  next_step();
}

void CatalogReplica::read_catalog(const json& catalog) {
  if (catalog.contains("tenants")) take_tenants(catalog["tenants"]);
  const auto functions = catalog.find("functions");
  if (functions == catalog.end() || !functions->is_array()) return;
  known_version_ = text_at(catalog, "version");
  std::set<Name> there;
  for (const json& each : *functions) {
    if (!each.is_object()) continue;
    const Name name{text_at(each, "tenant"), text_at(each, "name")};
    const std::string digest = text_at(each, "digest");
    there.insert(name);
    const auto failed = failed_.find(name);
    if (failed != failed_.end() && failed->second == digest) continue;
    const auto tenant = uses_.access.find_tenant(name.first);
    if (!tenant.ok()) continue;
    const auto here = uses_.functions.find_function({tenant->id, name.second});
    if (here.ok() && digest_of_copy(copy_of(*here)) == digest) {
      if (!copied_.contains(name)) remember(name, true);
      continue;
    }
    steps_.push_back({name, digest});
  }
  for (const json& each : catalog.value("tenants", json::array())) {
    if (!each.is_object()) continue;
    const Name name{text_at(each, "name"), ""};
    there.insert(name);
    const bool is_here = uses_.access.find_tenant(name.first).ok();
    if (uses_.removes_tenants && is_here) remember(name, true);
    // It is being made; its functions come with the next look.
    if (!is_here) known_version_.clear();
  }
  // Tenants after what they had.
  for (const bool tenants : {false, true}) {
    for (const Name& name : copied_) {
      const bool is_tenant = name.second.empty();
      if (is_tenant == tenants && !there.contains(name)) steps_.push_back({name, {}, true});
    }
  }
}

void CatalogReplica::take_tenants(const json& tenants) {
  if (!tenants.is_array()) return;
  for (const json& each : tenants) {
    if (!each.is_object() || !each.contains("settings")) continue;
    const std::string name = text_at(each, "name");
    const auto known = uses_.access.find_tenant(name);
    Tenant tenant = known.ok() ? *known : Tenant{};
    tenant.name = name;
    if (!apply_tenant_patch(to_text(each["settings"]), tenant).ok()) continue;
    if (known.ok() && *known == tenant) continue;
    const auto done = [log = &uses_.log, name](const Result<Tenant>& changed) {
      if (changed.ok()) return;
      log->warning("tenant_not_copied", {{"tenant", name}, {"error", to_string(changed.error())}});
    };
    if (known.ok()) {
      uses_.access.update_tenant(tenant, done);
    } else {
      uses_.access.create_tenant(tenant, done);
    }
  }
}

void CatalogReplica::next_step() {
  if (steps_.empty()) return finish();
  const Step step = steps_.front();
  steps_.pop_front();
  if (!step.removes) return fetch_function(step);
  if (step.name.second.empty()) return remove_tenant(step);
  const auto tenant = uses_.access.find_tenant(step.name.first);
  if (!tenant.ok()) return step_done(step, {});
  uses_.functions.remove_function(
      {tenant->id, step.name.second}, [self = self_, step](const Result<FunctionSpec>& removed) {
        if (*self == nullptr) return;
        const bool is_gone = removed.ok() || removed.error().code == ErrorCode::kNotFound;
        (*self)->step_done(step, is_gone ? Result<void>() : removed.error());
      });
}

// One that has functions of this node's own stays, and is this node's from then on.
void CatalogReplica::remove_tenant(const Step& step) {
  uses_.access.remove_tenant(step.name.first, [self = self_, step](const Result<Tenant>& removed) {
    if (*self == nullptr) return;
    const bool may_go = !removed.ok() && is_retryable(removed.error().code);
    if (may_go) return (*self)->step_done(step, removed.error());
    if (!removed.ok() && removed.error().code != ErrorCode::kNotFound) {
      (*self)->uses_.log.warning("tenant_not_removed", {{"tenant", step.name.first},
                                                        {"error", to_string(removed.error())}});
    }
    (*self)->step_done(step, {});
  });
}

void CatalogReplica::fetch_function(const Step& step) {
  const std::string target = "/v1/cluster/functions/" + http::percent_encode(step.name.first) +
                             "/" + http::percent_encode(step.name.second);
  uses_.ask_home(target, [self = self_, step](Result<http::Response> answer) {
    if (*self == nullptr) return;
    CatalogReplica& replica = **self;
    if (!answer.ok()) return replica.step_done(step, answer.error());
    const auto copy = parse_json(answer->body);
    if (answer->status != 200 || !copy.ok()) {
      return replica.step_done(step, Error{ErrorCode::kUnavailable,
                                           "the home answered " + std::to_string(answer->status)});
    }
    replica.deploy(step, *copy);
  });
}

void CatalogReplica::deploy(const Step& step, const json& copy) {
  const auto tenant = uses_.access.find_tenant(step.name.first);
  if (!tenant.ok()) return step_done(step, tenant.error());
  auto spec = read_copy(copy, tenant->id);
  if (!spec.ok()) return step_done(step, spec.error());
  if (spec->name.name != step.name.second) {
    return step_done(step, Error{ErrorCode::kDataLoss, "the home sent another function"});
  }
  FunctionChange change{.spec = *std::move(spec)};
  const auto here = uses_.functions.find_function(change.spec.name);
  if (here.ok() && here->code_sha256 == change.spec.code_sha256) {
    change.spec.code_size = here->code_size;
    return apply(step, std::move(change));
  }
  const std::string digest = change.spec.code_sha256;
  if (digest.empty()) return apply(step, std::move(change));
  // Shared because callbacks must be copyable.
  auto held = std::make_shared<FunctionChange>(std::move(change));
  uses_.ask_home("/v1/cluster/code?sha256=" + http::percent_encode(digest),
                 [self = self_, step, held](Result<http::Response> answer) {
                   if (*self == nullptr) return;
                   CatalogReplica& replica = **self;
                   if (!answer.ok()) return replica.step_done(step, answer.error());
                   if (answer->status != 200) {
                     return replica.step_done(step, Error{ErrorCode::kUnavailable,
                                                          "the home has no package of the code (" +
                                                              std::to_string(answer->status) +
                                                              "): deploy the function again"});
                   }
                   held->zip = std::move(answer->body);
                   replica.apply(step, std::move(*held));
                 });
}

void CatalogReplica::apply(const Step& step, FunctionChange change) {
  const std::string expected = change.spec.code_sha256;
  const auto done = [self = self_, step, expected](const Result<FunctionSpec>& spec) {
    if (*self == nullptr) return;
    if (spec.ok() && spec->code_sha256 != expected) {
      return (*self)->step_done(
          step, Error{ErrorCode::kDataLoss, "the code that came has another digest"});
    }
    (*self)->step_done(step, spec.ok() ? Result<void>() : spec.error());
  };
  const auto here = uses_.functions.find_function(change.spec.name);
  if (!here.ok()) return uses_.functions.create_function(std::move(change), done);
  change.spec.revision = here->revision;
  uses_.functions.update_function(std::move(change), done);
}

void CatalogReplica::step_done(const Step& step, const Result<void>& outcome) {
  if (outcome.ok()) {
    failed_.erase(step.name);
    remember(step.name, !step.removes);
  } else {
    uses_.log.warning("function_not_copied", {{"tenant", step.name.first},
                                              {"function", step.name.second},
                                              {"error", to_string(outcome.error())}});
    if (is_retryable(outcome.error().code)) {
      known_version_.clear();
    } else {
      failed_[step.name] = step.digest;
    }
  }
  next_step();
}

void CatalogReplica::remember(const Name& name, bool is_here) {
  if (is_here == copied_.contains(name)) return;
  if (is_here) {
    copied_.insert(name);
  } else {
    copied_.erase(name);
  }
  json names = json::array();
  for (const auto& [tenant, function] : copied_) names.push_back({tenant, function});
  // A small file. Lost, a function that the home forgets meanwhile stays here.
  if (const auto written = write_file_atomically(record_, to_text(names) + "\n", false);
      !written.ok()) {
    uses_.log.warning("cluster_record_not_written", {{"error", to_string(written.error())}});
  }
}

void CatalogReplica::finish() {
  busy_ = false;
  std::vector<std::function<void()>> told = std::exchange(waiting_, {});
  waiting_ = std::exchange(waiting_next_, {});
  const bool at_once = std::exchange(again_, false) || !waiting_.empty();
  uses_.loop.cancel(timer_);
  timer_ = uses_.loop.call_after(at_once ? Duration::zero() : kPeriod, [this] { ask(); });
  for (const auto& then : told) then();
}

}  // namespace lambent::frontend
