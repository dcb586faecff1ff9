#include "edge/frontend/catalog_replica.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/fd.h"
#include "core/base/json_text.h"
#include "core/domain/image_function.h"
#include "edge/frontend/access_call.h"
#include "edge/frontend/catalog_copy.h"
#include "edge/frontend/json_text.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

constexpr Duration kPeriod = seconds(1);
// After which what failed is tried again.
constexpr Duration kFirstWait = seconds(10);
constexpr Duration kMostWait = seconds(600);
constexpr size_t kMostRecord = 64 * 1024 * 1024;

// Of names of functions, versions and aliases.
bool is_alias(const std::string& name) {
  const std::string qualifier = split_qualifier(name).qualifier;
  return !qualifier.empty() && !version_number(qualifier);
}

bool is_qualified(const std::string& name) { return name.find(':') != std::string::npos; }

// A list of what the home has. Of one that is garbled nothing is believed: what it leaves out would
// go from here.
bool is_list(const json& rows) {
  const auto has = [](const json& row, const char* key) {
    return row.contains(key) && row[key].is_string();
  };
  return rows.is_array() && std::ranges::all_of(rows, [&](const json& row) {
           return row.is_object() && has(row, "tenant") && has(row, "name") && has(row, "digest");
         });
}

bool is_catalog(const json& answer) {
  return answer.is_object() && answer.contains("functions") && is_list(answer["functions"]) &&
         is_list(answer.value("qualified", json::array()));
}

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

void CatalogReplica::catch_up(const FunctionName& function, Then then) {
  if (!uses_.is_replica()) return then(outcome_of(function, {}));
  // What is on its way may have been asked for before the change.
  (busy_ ? waiting_next_ : waiting_).push_back({function, std::move(then)});
  ask_soon();
}

Result<void> CatalogReplica::outcome_of(const FunctionName& function,
                                        const Result<void>& read) const {
  const bool is_here = is_qualified(function.name) ? uses_.versions.find_qualified(function).ok()
                                                   : uses_.functions.find_function(function).ok();
  if (is_here) return {};
  const std::string what = "function '" + function.name + "'";
  // It had a home once, and will be told of one again.
  if (!uses_.is_replica() && !uses_.has_home() && !copied_.empty()) {
    return Error{ErrorCode::kUnavailable,
                 "this node was not told yet who else is in its cluster: "
                 "whether " +
                     what + " exists cannot be told; try again"};
  }
  if (!read.ok()) {
    return Error{ErrorCode::kUnavailable,
                 "the cluster's catalog cannot be read now, so that it "
                 "cannot be told whether " +
                     what + " exists (" + read.error().message + "); try again"};
  }
  const Name name{uses_.access.tenant_name(function.tenant), function.name};
  if (!uses_.is_replica() || !there_.contains(name)) return {};
  const auto why = not_copied_.find(name);
  return Error{ErrorCode::kUnavailable,
               what + " is there, and this node has no copy of it yet" +
                   (why == not_copied_.end() ? "" : " (" + why->second + ")") + "; try again"};
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
  if (!uses_.is_replica()) return finish({});
  busy_ = true;
  // All of it is looked at again.
  const auto is_due = [&](const auto& each) { return uses_.loop.now() >= each.second.again; };
  if (std::ranges::any_of(failed_, is_due)) known_version_.clear();
  uses_.ask_home("/v1/cluster/catalog?known=" + known_version_,
                 [self = self_](Result<http::Response> answer) {
                   if (*self != nullptr) (*self)->answered(std::move(answer));
                 });
}

void CatalogReplica::answered(Result<http::Response> answer) {
  if (!answer.ok()) return finish(answer.error());
  if (answer->status == 304) return finish({});
  const auto catalog = parse_json(answer->body);
  if (answer->status != 200 || !catalog.ok() || !catalog->is_object()) {
    return finish(Error{ErrorCode::kUnavailable,
                        "the home answered " + std::to_string(answer->status) + " to that"});
  }
  if (!is_catalog(*catalog)) {
    return finish(Error{ErrorCode::kUnavailable, "what the home answered is no catalog"});
  }
  read_catalog(*catalog);
  next_step();
}

void CatalogReplica::read_catalog(const json& catalog) {
  if (catalog.contains("tenants")) take_tenants(catalog["tenants"]);
  const json& functions = catalog["functions"];
  known_version_ = text_at(catalog, "version");
  std::set<Name> there;
  read_functions(functions, there);
  // Apart, where programs before this one would take them for functions.
  read_functions(catalog.value("qualified", json::array()), there);
  take_numbers(functions);
  // What belongs to a function comes after it.
  std::ranges::stable_sort(steps_, {}, &Step::name);
  there_ = there;
  const auto is_gone = [&](const auto& each) { return !there.contains(each.first); };
  std::erase_if(not_copied_, is_gone);
  std::erase_if(failed_, is_gone);
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

void CatalogReplica::read_functions(const json& functions, std::set<Name>& there) {
  for (const json& each : functions) {
    const Name name{text_at(each, "tenant"), text_at(each, "name")};
    const std::string digest = text_at(each, "digest");
    // Left by a program that removed the function and does not know of versions.
    const Name function{name.first, split_qualifier(name.second).name};
    if (is_qualified(name.second) && !there.contains(function)) continue;
    there.insert(name);
    if (waits(name, digest)) continue;
    const auto tenant = uses_.access.find_tenant(name.first);
    if (!tenant.ok()) continue;
    if (const auto begun = uses_.functions.deployment({tenant->id, name.second});
        begun && look_at(*begun, name, digest)) {
      continue;
    }
    if (digest_here(tenant->id, name.second) != digest) {
      add_step(name, digest);
      continue;
    }
    failed_.erase(name);
    if (!copied_.contains(name)) remember(name, true);
  }
}

bool CatalogReplica::look_at(const DeploymentStatus& begun, const Name& name,
                             const std::string& digest) {
  if (!begun.failure) {
    known_version_.clear();
    return true;
  }
  // Of a change before, this one has not been tried.
  if (digest_of_copy(copy_of(begun.spec)) != digest) return false;
  const auto failed = failed_.find(name);
  const bool is_due = failed != failed_.end() && failed->second.digest == digest;
  if (is_due || is_retryable(begun.failure->code)) {
    add_step(name, digest);
  } else {
    note_failed(name, digest);
  }
  note_not_copied(name, *begun.failure);
  return true;
}

void CatalogReplica::add_step(const Name& name, const std::string& digest) {
  // The next try waits longer, however this one ends.
  const auto failed = failed_.find(name);
  if (failed != failed_.end() && failed->second.digest == digest) note_failed(name, digest);
  steps_.push_back({name, digest});
}

void CatalogReplica::note_failed(const Name& name, const std::string& digest) {
  Failed& failed = failed_[name];
  const bool is_first = failed.digest != digest;
  failed.digest = digest;
  failed.wait = is_first ? kFirstWait : std::min(2 * failed.wait, kMostWait);
  failed.again = uses_.loop.now() + failed.wait;
}

bool CatalogReplica::waits(const Name& name, const std::string& digest) const {
  const auto failed = failed_.find(name);
  return failed != failed_.end() && failed->second.digest == digest &&
         uses_.loop.now() < failed->second.again;
}

std::vector<std::pair<std::string, std::string>> CatalogReplica::not_copied() const {
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& [name, why] : not_copied_) names.push_back(name);
  return names;
}

void CatalogReplica::note_not_copied(const Name& name, const Error& why) {
  not_copied_[name] = why.message;
  uses_.log.warning("function_not_copied",
                    {{"tenant", name.first}, {"function", name.second}, {"error", to_string(why)}});
}

void CatalogReplica::take_numbers(const json& functions) {
  for (const json& each : functions) {
    if (!each.contains("revision")) continue;
    const json at = each.value("deployed_at_ns", json());
    if (!each["revision"].is_number_unsigned() || !at.is_number_integer()) continue;
    const Name name{text_at(each, "tenant"), text_at(each, "name")};
    const auto tenant = uses_.access.find_tenant(name.first);
    if (!tenant.ok() || is_qualified(name.second)) continue;
    const auto here = uses_.functions.find_function({tenant->id, name.second});
    const auto revision = each["revision"].get<uint64_t>();
    const Duration deployed_at(at.get<int64_t>());
    const bool is_known =
        here.ok() && (here->revision > revision ||
                      (here->revision == revision && here->last_modified == deployed_at));
    if (!here.ok() || is_known) continue;
    // What differs is copied, and hears of its number then.
    if (digest_of_copy(copy_of(*here)) != text_at(each, "digest")) continue;
    uses_.copies.renumber({tenant->id, name.second}, revision, deployed_at,
                          [self = self_](const Result<void>& taken) {
                            const bool may_be_later =
                                !taken.ok() && is_retryable(taken.error().code);
                            if (*self != nullptr && may_be_later) (*self)->known_version_.clear();
                          });
  }
}

std::string CatalogReplica::digest_here(TenantId tenant, const std::string& name) const {
  if (is_alias(name)) {
    const QualifiedName parts = split_qualifier(name);
    const auto alias = uses_.versions.find_alias({tenant, parts.name}, parts.qualifier);
    return alias.ok() ? digest_of_copy(copy_of(*alias)) : "";
  }
  const auto here = uses_.functions.find_function({tenant, name});
  return here.ok() ? digest_of_copy(copy_of(*here)) : "";
}

void CatalogReplica::take_tenants(const json& tenants) {
  if (!tenants.is_array()) return;
  for (const json& each : tenants) {
    if (!each.is_object() || !each.contains("settings")) continue;
    const std::string name = text_at(each, "name");
    const auto known = uses_.access.find_tenant(name);
    Tenant tenant = known.ok() ? *known : Tenant{};
    tenant.name = name;
    if (!apply_tenant_patch(json_text(each["settings"]), tenant).ok()) continue;
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
  if (steps_.empty()) return finish({});
  const Step step = steps_.front();
  steps_.pop_front();
  if (!step.removes) return fetch_function(step);
  if (step.name.second.empty()) return remove_tenant(step);
  if (is_alias(step.name.second)) return remove_alias(step);
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

void CatalogReplica::remove_alias(const Step& step) {
  const auto tenant = uses_.access.find_tenant(step.name.first);
  if (!tenant.ok()) return step_done(step, {});
  const QualifiedName parts = split_qualifier(step.name.second);
  uses_.copies.forget_alias(
      {tenant->id, parts.name}, parts.qualifier, [self = self_, step](const Result<void>& gone) {
        if (*self == nullptr) return;
        const bool is_gone = gone.ok() || gone.error().code == ErrorCode::kNotFound;
        (*self)->step_done(step, is_gone ? Result<void>() : gone.error());
      });
}

void CatalogReplica::take_alias(const Step& step, const json& copy) {
  const auto tenant = uses_.access.find_tenant(step.name.first);
  if (!tenant.ok()) return step_done(step, tenant.error());
  auto alias = read_alias_copy(copy, tenant->id);
  if (!alias.ok()) return step_done(step, alias.error());
  if (alias->function.name + ":" + alias->name != step.name.second) {
    return step_done(step, Error{ErrorCode::kDataLoss, "the home sent another alias"});
  }
  uses_.copies.copy_alias(*std::move(alias), [self = self_, step](const Result<void>& kept) {
    if (*self == nullptr) return;
    // Its function may be on its way.
    const bool waits = !kept.ok() && kept.error().code == ErrorCode::kNotFound;
    (*self)->step_done(step, waits ? Error{ErrorCode::kUnavailable, kept.error().message} : kept);
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
    if (is_alias(step.name.second)) return replica.take_alias(step, *copy);
    replica.deploy(step, *copy);
  });
}

void CatalogReplica::deploy(const Step& step, const json& copy) {
  const auto tenant = uses_.access.find_tenant(step.name.first);
  if (!tenant.ok()) return step_done(step, tenant.error());
  auto spec = read_copy(copy, tenant->id);
  if (!spec.ok()) {
    Error error = spec.error();
    const std::string advice = uses_.version_advice ? uses_.version_advice() : "";
    if (!advice.empty()) error.message += "; " + advice;
    return step_done(step, std::move(error));
  }
  if (spec->name.name != split_qualifier(step.name.second).name) {
    return step_done(step, Error{ErrorCode::kDataLoss, "the home sent another function"});
  }
  spec->name.name = step.name.second;
  FunctionChange change{.spec = *std::move(spec)};
  // A version often has the code of its function.
  for (const FunctionName& name : {change.spec.name, function_of(change.spec.name)}) {
    const auto here = uses_.functions.find_function(name);
    if (!here.ok() || here->code_sha256 != change.spec.code_sha256) continue;
    change.spec.code_size = here->code_size;
    return apply(step, std::move(change));
  }
  const std::string digest = change.spec.code_sha256;
  // An image is pulled, or comes from the node that has it, when it is deployed here.
  if (digest.empty() || runs_image(change.spec)) return apply(step, std::move(change));
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
  change.is_copy = true;
  const std::string expected = change.spec.code_sha256;
  const FunctionName function = change.spec.name;
  const auto done = [self = self_, step, expected, function](const Result<FunctionSpec>& spec) {
    if (*self == nullptr) return;
    const bool goes_on = spec.ok() && (*self)->uses_.functions.deployment(function);
    if (goes_on) (*self)->known_version_.clear();
    if (spec.ok() && spec->code_sha256 != expected) {
      return (*self)->step_done(
          step, Error{ErrorCode::kDataLoss, "the code that came has another digest"});
    }
    (*self)->step_done(step, spec.ok() ? Result<void>() : spec.error(), goes_on);
  };
  if (is_version_record(change.spec.name)) {
    return uses_.copies.copy_version(std::move(change), done);
  }
  const auto here = uses_.functions.find_function(function);
  const auto begun = uses_.functions.deployment(function);
  const bool is_new = !here.ok() || (begun && begun->creates);
  if (is_new) return uses_.functions.create_function(std::move(change), done);
  change.spec.revision = here->revision;
  uses_.functions.update_function(std::move(change), done);
}

void CatalogReplica::step_done(const Step& step, const Result<void>& outcome, bool goes_on) {
  if (outcome.ok()) {
    if (!goes_on) failed_.erase(step.name);
    not_copied_.erase(step.name);
    remember(step.name, !step.removes);
  } else {
    note_not_copied(step.name, outcome.error());
    if (is_retryable(outcome.error().code)) {
      known_version_.clear();
    } else if (!waits(step.name, step.digest)) {
      note_failed(step.name, step.digest);
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
  if (const auto written = write_file_atomically(record_, json_text(names) + "\n", false);
      !written.ok()) {
    uses_.log.warning("cluster_record_not_written", {{"error", to_string(written.error())}});
  }
}

void CatalogReplica::finish(const Result<void>& read) {
  busy_ = false;
  const std::vector<Waiting> told = std::exchange(waiting_, {});
  waiting_ = std::exchange(waiting_next_, {});
  const bool at_once = std::exchange(again_, false) || !waiting_.empty();
  uses_.loop.cancel(timer_);
  timer_ = uses_.loop.call_after(at_once ? Duration::zero() : kPeriod, [this] { ask(); });
  for (const Waiting& each : told) each.then(outcome_of(each.function, read));
}

}  // namespace lambent::frontend
