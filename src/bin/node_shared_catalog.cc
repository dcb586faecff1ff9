#include "bin/node_shared_catalog.h"

#include <nlohmann/json.hpp>

#include "bin/node_cluster.h"
#include "core/base/fd.h"
#include "core/base/json_text.h"
#include "core/crypto/crypto.h"
#include "core/domain/image_function.h"
#include "core/domain/limits.h"
#include "edge/frontend/access_frontend.h"
#include "edge/frontend/catalog_copy.h"
#include "node/cluster/node_credentials.h"

namespace lambent {
namespace {

using nlohmann::json;

constexpr Duration kLookPeriod = seconds(1);
constexpr size_t kClaimedAtOnce = 256;
constexpr size_t kFunctionsAtOnce = 256;
// With so many that the catalog does not release no more are taken over.
constexpr size_t kMostNotGiven = 4 * kClaimedAtOnce;
constexpr size_t kLifeBytes = 8;
constexpr size_t kMostClusterKey = 4096;

// One that is being created here, or could not be: it has no number yet, and calls cannot run.
bool is_being_made(const FunctionSpec& spec) { return spec.id == FunctionId(); }

http::Response with_body(std::string body) {
  http::Response response;
  response.body = std::move(body);
  return response;
}

// As a home says it: ClusterFrontend.
std::string text_of(const catalog::SharedContents& contents) {
  json tenants = json::array();
  for (const catalog::SharedTenant& tenant : contents.tenants) {
    json settings = json::parse(tenant.settings, nullptr, false);
    if (settings.is_discarded()) continue;
    tenants.push_back({{"name", tenant.name}, {"settings", std::move(settings)}});
  }
  json functions = json::array();
  for (const catalog::SharedFunction& function : contents.functions) {
    json& each = functions.emplace_back(
        json{{"tenant", function.tenant}, {"name", function.name}, {"digest", function.digest}});
    if (function.revision == 0) continue;
    each["revision"] = function.revision;
    each["deployed_at_ns"] = function.deployed_at.count();
  }
  return json_text(nlohmann::json{{"tenants", std::move(tenants)},
                                  {"functions", std::move(functions)},
                                  {"version", std::to_string(contents.version)}});
}

std::string digest_of(const FunctionSpec& spec) {
  return frontend::digest_of_copy(frontend::copy_of(spec));
}

// By which its package is kept there. Images have none: nodes have them from each other.
std::string package_of(const FunctionSpec& spec) {
  return runs_image(spec) ? "" : spec.code_sha256;
}

// As all nodes keep a function, version or alias under that name.
catalog::SharedFunction row_of(std::string tenant, std::string name, std::string code_sha256,
                               const json& copy) {
  return {.tenant = std::move(tenant),
          .name = std::move(name),
          .digest = frontend::digest_of_copy(copy),
          .code_sha256 = std::move(code_sha256),
          .copy = json_text(copy)};
}

// Whether a copy is that of an alias that names the version.
bool names_version(const std::string& copy, const std::string& version) {
  const auto alias = frontend::read_alias_copy(json::parse(copy, nullptr, false), kDefaultTenant);
  return alias.ok() && (alias->version == version || alias->second == version);
}

// The records of the versions that an alias is for.
std::vector<std::string> versions_of(const Alias& alias) {
  std::vector<std::string> records;
  for (const std::string& version : {alias.version, alias.second}) {
    if (version_number(version)) records.push_back(alias.function.name + ":" + version);
  }
  return records;
}

std::string name_of(const Alias& alias) { return alias.function.name + ":" + alias.name; }

Result<std::string> read_package(const std::string& file) {
  if (!file.empty()) return read_file(file, limits::kZippedCode.count);
  return Error{ErrorCode::kFailedPrecondition,
               "this node no longer has the package of the function's code; send it again"};
}

// A number of one to nineteen digits; else none that a catalog has.
uint64_t version_from(const std::string& text) {
  const bool is_number = !text.empty() && text.size() < 20 &&
                         text.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? std::stoull(text) : UINT64_MAX;
}

}  // namespace

Result<std::unique_ptr<NodeSharedCatalog>> NodeSharedCatalog::open(const WorkerConfig& config,
                                                                   loop::EventLoop& loop,
                                                                   LogSink& log,
                                                                   FaultPoints* faults) {
  std::unique_ptr<NodeSharedCatalog> made;
  if (config.catalog.empty()) return made;
  if (config.cluster_key.empty()) {
    return Error{ErrorCode::kInvalidArgument, "--catalog needs --cluster-key"};
  }
  made.reset(new NodeSharedCatalog(config.state_folder, loop, log));
  ASSIGN_OR_RETURN(std::string key, read_file(config.cluster_key, kMostClusterKey));
  const std::string node = node_name_of(config);
  const auto credentials = cluster::NodeCredentials::make(node, std::move(key));
  if (!credentials.ok()) return credentials.error().with_context("--cluster-key");
  const std::string life = crypto::to_hex(crypto::random_bytes(kLifeBytes));
  auto shared = catalog::SharedCatalog::open(
      {.url = config.catalog,
       .owner = {.node = node, .life = life},
       .key_proof = crypto::to_hex(credentials->derived_key("proof in the shared catalog")),
       .faults = faults},
      loop.clock(), [&loop](auto task) { return loop.post(std::move(task)); });
  if (!shared.ok()) return shared.error().with_context("--catalog");
  made->shared_ = *std::move(shared);
  made->shared_access_ = std::make_unique<NodeSharedAccess>(
      *made->shared_,
      SharedAccessKeys{.secrets = credentials->derived_key("secrets"),
                       .signing = credentials->derived_key("signing secrets of tokens")},
      config.state_folder + "/copied_access.json", log);
  if (const std::string& why = made->shared_->unreachable(); !why.empty()) made->note(false, why);
  return made;
}

NodeSharedCatalog::NodeSharedCatalog(std::string packages, loop::EventLoop& loop, LogSink& log)
    : loop_(loop),
      log_(log),
      package_file_(packages_in(packages)),
      self_(std::make_shared<NodeSharedCatalog*>(this)) {
  timer_ = loop_.call_after(kLookPeriod, [this] { look(); });
}

NodeSharedCatalog::~NodeSharedCatalog() {
  *self_ = nullptr;
  loop_.cancel(timer_);
}

void NodeSharedCatalog::connect(catalog::Catalog& catalog, worker::Worker& worker,
                                tenants::AccessControl& access, Others others) {
  worker_ = &worker;
  access_ = &access;
  others_ = std::move(others);
  catalog.share_async(*shared_, [&access](TenantId tenant) { return access.tenant_name(tenant); });
  access.share(this);
  worker.schedules().go_by(
      [self = self_] { return *self == nullptr ? std::nullopt : (*self)->time(); });
  ask_time();
}

std::optional<Duration> NodeSharedCatalog::time() const {
  if (!time_) return std::nullopt;
  return time_->time + (loop_.clock().now() - time_->at);
}

void NodeSharedCatalog::ask_time() {
  shared_->time([self = self_](const Result<catalog::SharedCatalog::SharedTime>& told) {
    if (*self != nullptr && told.ok()) (*self)->time_ = *told;
  });
}

void NodeSharedCatalog::note(bool reached, const std::string& why) {
  const bool was_reached = reachable();
  unreachable_ = reached ? "" : why;
  if (reached == was_reached) return;
  if (reached) return log_.info("shared_catalog_reached", {});
  log_.warning("shared_catalog_unreachable", {{"error", why}});
}

// ---- Copies for this node

void NodeSharedCatalog::ask(const std::string& target,
                            std::function<void(Result<http::Response>)> done) {
  const std::string path(http::path_of(target));
  const std::string query(http::query_of(target));
  const auto told = [self = self_, done](Result<std::string> text) {
    if (*self == nullptr) return;
    if (!text.ok()) return done(text.error());
    done(with_body(*std::move(text)));
  };
  if (path == "/v1/cluster/code") {
    return shared_->read_package(http::query_value(query, "sha256"), told);
  }
  if (path == "/v1/cluster/catalog") {
    return read_contents(version_from(http::query_value(query, "known")), std::move(done));
  }
  // /v1/cluster/functions/TENANT/NAME
  const size_t name_at = path.rfind('/');
  const size_t tenant_at = path.rfind('/', name_at - 1);
  std::string tenant;
  std::string name;
  const bool is_function =
      http::percent_decode(path.substr(tenant_at + 1, name_at - tenant_at - 1), tenant) &&
      http::percent_decode(path.substr(name_at + 1), name);
  if (!is_function) return done(Error{ErrorCode::kNotFound, "no such path"});
  shared_->read_function(tenant, name,
                         [self = self_, told, key = std::pair(tenant, name)](auto copy) {
                           if (*self == nullptr) return;
                           if (copy.ok()) {
                             const json read = json::parse(*copy, nullptr, false);
                             (*self)->given_[key] = frontend::digest_of_copy(read);
                           }
                           told(std::move(copy));
                         });
}

void NodeSharedCatalog::read_contents(uint64_t known,
                                      std::function<void(Result<http::Response>)> done) {
  shared_->read(known, [self = self_, done = std::move(done)](auto contents) {
    if (*self == nullptr) return;
    (*self)->note(contents.ok(), contents.ok() ? "" : to_string(contents.error()));
    if (!contents.ok()) return done(contents.error());
    if (!contents->has_value()) {
      http::Response same;
      same.status = 304;
      return done(std::move(same));
    }
    auto& tenants = (*self)->tenants_.emplace();
    for (const auto& tenant : (*contents)->tenants) tenants[tenant.name] = tenant.settings;
    // Secrets come before the functions that refer to them.
    (*self)->shared_access_->look([text = text_of(**contents), done] { done(with_body(text)); });
  });
}

// ---- Changes by this node

void NodeSharedCatalog::put(const FunctionSpec& spec, const FunctionSpec* before,
                            std::function<void(Result<Deployed>)> done) {
  catalog::SharedFunction function = row_of(access_->tenant_name(spec.name.tenant), spec.name.name,
                                            package_of(spec), frontend::copy_of(spec));
  function.revision = spec.revision;
  function.code_bytes = spec.code_size.count;
  std::optional<catalog::Expected> expected = catalog::Expected{};
  // One that this node had before it joined is new to the others.
  if (before != nullptr) expected = {.digest = digest_of(*before), .or_nothing = true};
  const auto given = given_.find({function.tenant, function.name});
  if (given != given_.end() && given->second == function.digest) expected.reset();
  if (given != given_.end()) given_.erase(given);
  const auto agreed = [self = self_, tenant = function.tenant, name = function.name,
                       done = std::move(done)](const Result<catalog::SharedDeployment>& kept) {
    if (!kept.ok()) return done(kept.error());
    if (*self != nullptr) (*self)->others_.agreed(tenant, name);
    done(Deployed{.revision = kept->revision, .at = kept->at});
  };
  shared_->put_function(
      std::move(function), std::move(expected),
      [file = package_file_(spec.code_sha256)] { return read_package(file); }, agreed);
}

void NodeSharedCatalog::list_revisions(const FunctionName& function,
                                       std::function<void(Result<std::vector<Revision>>)> done) {
  const auto told =
      [function, done = std::move(done)](const Result<std::vector<catalog::SharedRevision>>& all) {
        if (!all.ok()) return done(all.error());
        std::vector<Revision> revisions;
        for (const catalog::SharedRevision& each : *all) {
          auto spec = frontend::read_copy(json::parse(each.copy, nullptr, false), function.tenant);
          if (!spec.ok()) continue;  // of a program that knows more
          spec->revision = each.deployment.revision;
          spec->last_modified = each.deployment.at;
          spec->code_size = Bytes(each.code_bytes);
          revisions.push_back({.spec = *std::move(spec), .is_current = each.is_current});
        }
        done(std::move(revisions));
      };
  shared_->read_revisions(access_->tenant_name(function.tenant), function.name, told);
}

void NodeSharedCatalog::read_code(const std::string& code_sha256,
                                  std::function<void(Result<std::string>)> done) {
  shared_->read_package(code_sha256, std::move(done));
}

NodeSharedCatalog::Done NodeSharedCatalog::agreed_on(const std::string& tenant,
                                                     const std::string& name, Done done) {
  return [self = self_, tenant, name, done = std::move(done)](const Result<void>& kept) {
    if (kept.ok() && *self != nullptr) (*self)->others_.agreed(tenant, name);
    done(kept);
  };
}

void NodeSharedCatalog::remove(const FunctionSpec& spec, Done done) {
  const std::string tenant = access_->tenant_name(spec.name.tenant);
  if (!is_version_record(spec.name)) {
    return shared_->remove_function(tenant, spec.name.name, digest_of(spec), std::move(done));
  }
  shared_->remove_version(
      tenant, spec.name.name, digest_of(spec),
      [version = version_of(spec.name)](const std::string& copy) {
        return names_version(copy, version);
      },
      std::move(done));
}

void NodeSharedCatalog::publish(const Publication& publication,
                                std::function<void(Result<uint64_t>)> done) {
  const FunctionSpec& version = publication.version;
  const std::string tenant = access_->tenant_name(version.name.tenant);
  shared_->publish({.version = row_of(tenant, version.name.name, package_of(version),
                                      frontend::copy_of(version)),
                    .function_digest = digest_of(publication.function),
                    .number = publication.number,
                    .last_here = publication.last_here},
                   [self = self_, tenant, name = version.name.name,
                    done = std::move(done)](const Result<uint64_t>& number) {
                     if (number.ok() && *self != nullptr) {
                       (*self)->others_.agreed(tenant, name + ":" + std::to_string(*number));
                     }
                     done(number);
                   });
}

void NodeSharedCatalog::put_alias(const Alias& alias, const Alias* before, Done done) {
  const std::string tenant = access_->tenant_name(alias.function.tenant);
  const std::string expected =
      before == nullptr ? "" : frontend::digest_of_copy(frontend::copy_of(*before));
  shared_->put_alias(row_of(tenant, name_of(alias), "", frontend::copy_of(alias)), expected,
                     versions_of(alias), agreed_on(tenant, name_of(alias), std::move(done)));
}

void NodeSharedCatalog::remove_alias(const Alias& alias, Done done) {
  shared_->remove_function(access_->tenant_name(alias.function.tenant), name_of(alias),
                           frontend::digest_of_copy(frontend::copy_of(alias)), std::move(done));
}

catalog::BroughtVersions NodeSharedCatalog::versions_here() const {
  catalog::BroughtVersions brought;
  for (const Tenant& tenant : access_->list_tenants("", SIZE_MAX)) {
    for (const FunctionSpec& function :
         worker_->list_functions(tenant.id, "", limits::kFunctions)) {
      const auto versions = worker_->versions().list_versions(function.name);
      const auto aliases = worker_->versions().list_aliases(function.name);
      if (!versions.ok() || !aliases.ok()) continue;
      for (const FunctionSpec& each : *versions) {
        brought.all.push_back(
            row_of(tenant.name, each.name.name, package_of(each), frontend::copy_of(each)));
      }
      for (const Alias& each : *aliases) {
        brought.all.push_back(row_of(tenant.name, name_of(each), "", frontend::copy_of(each)));
      }
      if (versions->empty()) continue;
      const uint64_t last = version_number(version_of(versions->back().name)).value_or(0);
      brought.last.push_back({{tenant.name, function.name.name}, last});
    }
  }
  return brought;
}

void NodeSharedCatalog::bring_versions() {
  if (versions_are_brought_ || !others_.is_home()) return;
  shared_->versions_are_brought([self = self_](Result<bool> brought) {
    if (*self == nullptr || !brought.ok()) return;
    (*self)->versions_are_brought_ = *brought;
    if (*brought) return;
    (*self)->shared_->bring_versions(
        (*self)->versions_here(),
        [file_of = (*self)->package_file_](const std::string& sha256) {
          return read_package(file_of(sha256));
        },
        [self](const Result<void>& done) {
          if (*self == nullptr) return;
          if (done.ok()) return (*self)->log_.info("versions_brought_to_shared_catalog", {});
          (*self)->log_.warning("versions_not_brought_to_shared_catalog",
                                {{"error", to_string(done.error())}});
        });
  });
}

void NodeSharedCatalog::put_tenant(const Tenant& tenant, Done done) {
  std::string settings = json_text(frontend::tenant_settings(tenant));
  // What came from there does not go back: it may have changed since.
  if (tenants_) {
    const auto known = tenants_->find(tenant.name);
    if (known != tenants_->end() && known->second == settings) return done({});
  }
  const auto agreed = [self = self_, name = tenant.name, settings,
                       done = std::move(done)](const Result<void>& kept) {
    if (kept.ok() && *self != nullptr && (*self)->tenants_) (*(*self)->tenants_)[name] = settings;
    done(kept);
  };
  shared_->put_tenant({.name = tenant.name, .settings = std::move(settings)}, agreed);
}

void NodeSharedCatalog::remove_tenant(const std::string& name, Done done) {
  // What went there is not removed once more: there may be another of that name by now.
  if (tenants_ && !tenants_->contains(name)) return done({});
  shared_->remove_tenant(name, [self = self_, name, done = std::move(done)](Result<void> gone) {
    if (gone.ok() && *self != nullptr && (*self)->tenants_) (*self)->tenants_->erase(name);
    done(std::move(gone));
  });
}

// ---- Asynchronous invocations of nodes that are lost

void NodeSharedCatalog::look() {
  timer_ = loop_.call_after(kLookPeriod, [this] { look(); });
  shared_access_->look([] {});
  if (worker_ == nullptr || worker_->draining()) return;
  bring_versions();
  const bool is_behind = not_given_.size() >= kMostNotGiven;
  for (catalog::SharedInvocation& each : std::exchange(not_given_, {})) resume(std::move(each));
  ask_time();
  // A slow database answers behind the next look, which would be at the same functions once more.
  if (is_behind || std::exchange(is_looking_, true)) return;
  shared_->owners_of_pending([self = self_](Result<std::vector<std::string>> owners) {
    if (*self == nullptr) return;
    if (!owners.ok()) return (*self)->looked();
    (*self)->claim(*owners);
  });
}

void NodeSharedCatalog::claim(const std::vector<std::string>& owners) {
  std::vector<std::string> lost;
  for (const std::string& owner : owners) {
    if (others_.is_lost(owner)) lost.push_back(owner);
  }
  shared_->functions_to_claim(lost, take_over_.after(), kFunctionsAtOnce,
                              [self = self_, lost](const auto& functions) {
                                if (*self == nullptr) return;
                                if (!functions.ok()) return (*self)->looked();
                                (*self)->claim_of(lost, *functions);
                              });
}

void NodeSharedCatalog::claim_of(const std::vector<std::string>& lost,
                                 const std::vector<catalog::TenantFunction>& functions) {
  auto taken = take_over_.choose(functions, kFunctionsAtOnce,
                                 [this](const auto& function) { return prospect_of(function); });
  // Also for none: what this process had without knowing it comes with the next look.
  shared_->claim(lost, std::move(taken), kClaimedAtOnce, [self = self_](auto invocations) {
    if (*self == nullptr) return;
    (*self)->looked();
    (*self)->claimed(std::move(invocations));
  });
}

asynchronous::Copy NodeSharedCatalog::copy_of(const std::string& tenant,
                                              const FunctionName& function) const {
  const auto spec = worker_->find_function(function);
  if (spec.ok())
    return is_being_made(*spec) ? asynchronous::Copy::kComing : asynchronous::Copy::kHere;
  const bool is_there = others_.is_there(tenant, function.name);
  return is_there ? asynchronous::Copy::kComing : asynchronous::Copy::kNone;
}

asynchronous::Prospect NodeSharedCatalog::prospect_of(
    const catalog::TenantFunction& function) const {
  const auto& [tenant, name] = function;
  const auto known = access_->find_tenant(tenant);
  if (!known.ok()) return asynchronous::Prospect::kUnknown;
  const FunctionName called{known->id, name};
  return asynchronous::prospect_of(copy_of(tenant, called), others_.taker_of(tenant, called));
}

void NodeSharedCatalog::claimed(Result<std::vector<catalog::SharedInvocation>> claimed) {
  if (!claimed.ok() || claimed->empty()) return;
  log_.info("asynchronous_invocations_taken_over",
            {{"count", static_cast<int64_t>(claimed->size())}});
  for (catalog::SharedInvocation& each : *claimed) resume(std::move(each));
}

void NodeSharedCatalog::give(catalog::SharedInvocation invocation, const std::string& node) {
  log_.info("asynchronous_invocation_given",
            {{"invocation", to_string(invocation.request.id)}, {"node", node}});
  const auto held = std::make_shared<catalog::SharedInvocation>(std::move(invocation));
  shared_->give(
      held->tenant, held->request.id, node, [self = self_, held](const Result<void>& given) {
        const bool is_elsewhere = given.ok() || given.error().code == ErrorCode::kNotFound;
        if (is_elsewhere || *self == nullptr) return;
        (*self)->not_given_.push_back(std::move(*held));
      });
}

void NodeSharedCatalog::resume(catalog::SharedInvocation invocation) {
  const auto tenant = access_->find_tenant(invocation.tenant);
  if (!tenant.ok()) {
    InvocationResult result{.id = invocation.request.id, .outcome = Outcome::kRejected};
    result.error = tenant.error();
    shared_->finish_async(invocation.tenant, result,
                          loop_.clock().wall_now() + std::chrono::hours(1), {},
                          [](Result<void>) {});
    return;
  }
  FunctionName function = invocation.request.function;
  function.tenant = tenant->id;
  const auto next =
      asynchronous::next_of(copy_of(invocation.tenant, function),
                            others_.taker_of(invocation.tenant, function), others_.self);
  // It is looked at again, as one of no process.
  if (!next) return give(std::move(invocation), others_.self);
  if (*next != others_.self) return give(std::move(invocation), *next);
  const auto spec = worker_->find_function(function);
  catalog::AsyncInvocation pending = catalog::pending_of(std::move(invocation));
  pending.request.function.tenant = tenant->id;
  if (spec.ok()) pending.function = spec->id;
  worker_->resume(std::move(pending));
}

}  // namespace lambent
