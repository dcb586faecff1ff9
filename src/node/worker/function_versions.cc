#include "node/worker/function_versions.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "core/domain/image_function.h"

namespace lambent::worker {
namespace {

std::string in_quotes(const std::string& name) { return "'" + name + "'"; }

Error no_such_alias(const FunctionName& function, const std::string& alias) {
  return {ErrorCode::kNotFound,
          "function " + in_quotes(function.name) + " has no alias " + in_quotes(alias)};
}

// Of those that are kept, the newest first.
Result<FunctionSpec> find_revision(const std::vector<Revision>& kept, const FunctionSpec& current,
                                   std::optional<uint64_t> revision) {
  std::string numbers;
  const FunctionSpec* found = nullptr;
  // Without one that is current, such as in the list of other nodes, the number tells where it is:
  // a list with one may have other numbers than this node.
  const bool has_current = std::ranges::any_of(kept, &Revision::is_current);
  for (auto each = kept.rbegin(); each != kept.rend(); ++each) {
    const FunctionSpec& spec = each->spec;
    const bool is_reached = has_current ? each->is_current : spec.revision >= current.revision;
    if (is_reached && !revision) break;
    numbers += (numbers.empty() ? "" : ", ") + std::to_string(spec.revision);
    if (revision ? spec.revision == *revision : !is_same_deployment(spec, current)) found = &spec;
  }
  if (found != nullptr) return *found;
  const std::string has = numbers.empty() ? "none is kept" : "kept are " + numbers;
  if (!revision) {
    return Error{ErrorCode::kFailedPrecondition, "function " + in_quotes(current.name.name) +
                                                     " has no other revision to go back to; " +
                                                     has};
  }
  return Error{ErrorCode::kNotFound, "function " + in_quotes(current.name.name) +
                                         " has no revision " + std::to_string(*revision) + "; " +
                                         has};
}

}  // namespace

Result<FunctionSpec> FunctionVersions::find_qualified(const FunctionName& name) const {
  // An alias without regard to its second version: the first one has the rest of the share.
  ASSIGN_OR_RETURN(const FunctionName record, resolve(name, 1, uses_.functions, uses_.aliases));
  ASSIGN_OR_RETURN(const FunctionSpec* spec, uses_.functions.get(record));
  return *spec;
}

void FunctionVersions::publish(Publication publication, Callback<FunctionSpec> done) {
  uses_.deployments.publish(std::move(publication), std::move(done));
}

Result<std::vector<FunctionSpec>> FunctionVersions::list_versions(
    const FunctionName& function) const {
  RETURN_IF_ERROR(uses_.functions.get(function));
  std::vector<FunctionSpec> versions;
  for (const FunctionSpec* version : uses_.functions.versions(function)) {
    versions.push_back(*version);
  }
  return versions;
}

void FunctionVersions::remove_version(const FunctionName& function, uint64_t version,
                                      Callback<FunctionSpec> done) {
  const FunctionName record = version_record(function, version);
  const auto found = resolve(record, 1, uses_.functions, uses_.aliases);
  if (!found.ok()) return done(found.error());
  const std::string number = std::to_string(version);
  for (const Alias& alias : uses_.aliases.list(function)) {
    if (alias.version != number && alias.second != number) continue;
    return done(Error{ErrorCode::kFailedPrecondition,
                      "version " + number + " of function " + in_quotes(function.name) +
                          " is needed by the alias " + in_quotes(alias.name) +
                          "; give that another version first"});
  }
  uses_.deployments.remove(record, std::move(done));
}

Result<void> FunctionVersions::check(const Alias& alias) const {
  RETURN_IF_ERROR(validate(alias));
  RETURN_IF_ERROR(uses_.functions.get(alias.function));
  for (const std::string& version : {alias.version, alias.second}) {
    if (version.empty()) continue;
    // Not by way of an alias of that name: there is none, since it would look like a version.
    const FunctionName named{alias.function.tenant, alias.function.name + ":" + version};
    ASSIGN_OR_RETURN(const FunctionName record, resolve(named, 1, uses_.functions, uses_.aliases));
    // It may be on its way out.
    const bool is_leaving = is_version_record(record) && uses_.functions.is_changing(record);
    if (is_leaving) {
      return Error{ErrorCode::kAborted, "version " + version + " of function " +
                                            in_quotes(alias.function.name) + " is being changed"};
    }
  }
  return {};
}

void FunctionVersions::put(const Alias& alias, const std::optional<Alias>& before,
                           Callback<Alias> done) {
  if (uses_.shared == nullptr) return keep(alias, std::move(done));
  uses_.shared->put_alias(alias, before ? &*before : nullptr,
                          [this, alias, done = std::move(done)](const Result<void>& agreed) {
                            if (!agreed.ok()) return done(agreed.error());
                            keep(alias, done);
                          });
}

void FunctionVersions::keep(const Alias& alias, Callback<Alias> done) {
  uses_.catalog.put_alias(alias, [this, alias, done = std::move(done)](Result<void> stored) {
    if (!stored.ok()) return done(stored.error());
    // What came meanwhile is newer; and the function may have been removed.
    const Alias* now = uses_.aliases.find(alias.function, alias.name);
    const bool is_newest = now == nullptr || now->revision <= alias.revision;
    if (is_newest && uses_.functions.find(alias.function) != nullptr) uses_.aliases.put(alias);
    done(alias);
  });
}

void FunctionVersions::create_alias(Alias alias, Callback<Alias> done) {
  if (const auto good = check(alias); !good.ok()) return done(good.error());
  if (uses_.aliases.find(alias.function, alias.name) != nullptr) {
    return done(Error{ErrorCode::kAlreadyExists, "function " + in_quotes(alias.function.name) +
                                                     " has an alias " + in_quotes(alias.name) +
                                                     " already"});
  }
  if (uses_.aliases.count(alias.function) >= kAliasesPerFunction) {
    return done(Error{ErrorCode::kFailedPrecondition,
                      "function " + in_quotes(alias.function.name) + " has " +
                          std::to_string(kAliasesPerFunction) + " aliases, which is the most"});
  }
  alias.revision = 1;
  // At once, so that another of this name is refused while this one is written.
  uses_.aliases.put(alias);
  put(alias, std::nullopt, [this, alias, done = std::move(done)](Result<Alias> stored) {
    if (!stored.ok()) uses_.aliases.remove(alias.function, alias.name);
    done(std::move(stored));
  });
}

void FunctionVersions::update_alias(Alias alias, Callback<Alias> done) {
  if (const auto good = check(alias); !good.ok()) return done(good.error());
  const Alias* now = uses_.aliases.find(alias.function, alias.name);
  if (now == nullptr) return done(no_such_alias(alias.function, alias.name));
  if (alias.revision != now->revision) {
    return done(Error{ErrorCode::kAborted, "alias " + in_quotes(alias.name) + " of function " +
                                               in_quotes(alias.function.name) +
                                               " was changed by another client meanwhile"});
  }
  if (now->provisioned == 0 && alias.provisioned == 0) {
    return put_updated(std::move(alias), std::move(done));
  }
  // What takes more can be refused, and then nothing has changed.
  fit_instances(*now, alias, [this, alias, done = std::move(done)](Result<void> fit) {
    if (!fit.ok()) return done(fit.error());
    put_updated(alias, done);
  });
}

void FunctionVersions::put_updated(Alias alias, Callback<Alias> done) {
  const Alias* now = uses_.aliases.find(alias.function, alias.name);
  if (now == nullptr || now->revision != alias.revision) {
    return done(Error{ErrorCode::kAborted, "alias " + in_quotes(alias.name) + " of function " +
                                               in_quotes(alias.function.name) +
                                               " was changed by another client meanwhile"});
  }
  const Alias before = *now;
  ++alias.revision;
  // At once: of two that were made from one revision the second is refused.
  uses_.aliases.put(alias);
  put(alias, before, [this, before, alias, done = std::move(done)](Result<Alias> stored) {
    const Alias* now = uses_.aliases.find(alias.function, alias.name);
    if (!stored.ok() && now != nullptr && *now == alias) uses_.aliases.put(before);
    done(std::move(stored));
  });
}

void FunctionVersions::remove_alias(const FunctionName& function, const std::string& alias,
                                    Callback<Alias> done) {
  const auto found = find_alias(function, alias);
  if (!found.ok()) return done(found.error());
  const auto agreed = [this, alias = *found, done](const Result<void>& is_agreed) {
    if (!is_agreed.ok()) return done(is_agreed.error());
    uses_.catalog.remove_alias(alias, [this, alias, done](Result<void> removed) {
      if (!removed.ok()) return done(removed.error());
      uses_.aliases.remove(alias.function, alias.name);
      if (alias.provisioned == 0) return done(alias);
      Alias none = alias;
      none.provisioned = 0;
      fit_instances(alias, none, [alias, done](const Result<void>&) { done(alias); });
    });
  };
  if (uses_.shared == nullptr) return agreed({});
  uses_.shared->remove_alias(*found, agreed);
}

void FunctionVersions::copy_version(FunctionChange change, Callback<FunctionSpec> done) {
  const FunctionName function = function_of(change.spec.name);
  if (uses_.functions.find(function) == nullptr) {
    return done(Error{ErrorCode::kUnavailable,
                      "function " + in_quotes(function.name) + " of the version is not here yet"});
  }
  // Perhaps this node is publishing the same version.
  if (uses_.functions.is_changing(function)) {
    return done(
        Error{ErrorCode::kAborted, "function " + in_quotes(function.name) + " is being changed"});
  }
  const FunctionSpec* before = uses_.functions.find(change.spec.name);
  if (before == nullptr) return uses_.deployments.create(std::move(change), std::move(done));
  change.spec.revision = before->revision;
  uses_.deployments.update(std::move(change), std::move(done));
}

// Its versions have their instances from the node that changed it.
void FunctionVersions::copy_alias(Alias alias, Callback<void> done) {
  if (const auto there = uses_.functions.get(alias.function); !there.ok()) {
    return done(there.error());
  }
  uses_.catalog.put_alias(alias, [this, alias, done = std::move(done)](Result<void> stored) {
    if (!stored.ok()) return done(stored.error());
    if (uses_.functions.find(alias.function) != nullptr) uses_.aliases.put(alias);
    done({});
  });
}

void FunctionVersions::forget_alias(const FunctionName& function, const std::string& alias,
                                    Callback<void> done) {
  const auto found = find_alias(function, alias);
  if (!found.ok()) return done(found.error());
  uses_.catalog.remove_alias(*found, [this, gone = *found, done](Result<void> removed) {
    if (removed.ok()) uses_.aliases.remove(gone.function, gone.name);
    done(std::move(removed));
  });
}

void FunctionVersions::renumber(const FunctionName& function, uint64_t revision,
                                Duration deployed_at, Callback<void> done) {
  const auto current = uses_.functions.get(function);
  if (!current.ok()) return done(current.error());
  FunctionSpec spec = **current;
  if (spec.revision > revision || !uses_.functions.begin_change(function)) {
    return done(
        Error{ErrorCode::kAborted, "function " + in_quotes(function.name) + " is being changed"});
  }
  spec.revision = revision;
  spec.last_modified = deployed_at;
  const auto kept = [this, function, done = std::move(done)](const Result<FunctionSpec>& stored) {
    if (stored.ok()) {
      uses_.functions.put(*stored);
      uses_.revisions.keep(*stored);
    }
    uses_.functions.end_change(function);
    uses_.deployments.renew_waiting(function);
    done(stored.ok() ? Result<void>() : stored.error());
  };
  uses_.catalog.put_function(std::move(spec), kept, true);
}

Result<Alias> FunctionVersions::find_alias(const FunctionName& function,
                                           const std::string& alias) const {
  RETURN_IF_ERROR(uses_.functions.get(function));
  const Alias* found = uses_.aliases.find(function, alias);
  if (found != nullptr) return *found;
  return no_such_alias(function, alias);
}

Result<std::vector<Alias>> FunctionVersions::list_aliases(const FunctionName& function) const {
  RETURN_IF_ERROR(uses_.functions.get(function));
  return uses_.aliases.list(function);
}

void FunctionVersions::code_parts(const FunctionName& name, Callback<CodeParts> done) {
  const auto function = uses_.functions.get(name);
  if (!function.ok()) return done(function.error());
  uses_.code.list_parts((*function)->code_sha256, std::move(done));
}

Result<std::vector<Revision>> FunctionVersions::list_revisions(const FunctionName& function) const {
  ASSIGN_OR_RETURN(const FunctionSpec* current, uses_.functions.get(function));
  std::vector<Revision> revisions;
  for (FunctionSpec& spec : uses_.revisions.list(current->id)) {
    const bool is_current = spec.revision == current->revision;
    revisions.push_back({std::move(spec), is_current});
  }
  std::ranges::reverse(revisions);
  return revisions;
}

InstanceReport FunctionVersions::instances(const FunctionName& record) const {
  const FunctionSpec* spec = uses_.functions.find(record);
  return spec == nullptr ? InstanceReport() : uses_.status.instances(spec->id);
}

unsigned FunctionVersions::wanted(const Alias& alias, const std::string& version) const {
  unsigned instances = instances_of(alias, version);
  for (const Alias& other : uses_.aliases.list(alias.function)) {
    if (other.name != alias.name) instances += instances_of(other, version);
  }
  return instances;
}

void FunctionVersions::set_instances(const FunctionName& record, unsigned instances,
                                     Callback<void> done) {
  const auto spec = uses_.functions.get(record);
  if (!spec.ok()) return done(spec.error());
  if ((*spec)->min_instances == instances) return done({});
  FunctionChange change;
  change.spec = **spec;
  change.spec.min_instances = instances;
  uses_.deployments.update(std::move(change), [done = std::move(done)](Result<FunctionSpec> set) {
    done(set.ok() ? Result<void>{} : set.error());
  });
}

void FunctionVersions::fit_instances(const Alias& before, const Alias& after, Callback<void> done) {
  std::vector<std::pair<FunctionName, unsigned>> all;
  for (const std::string& version : {after.version, after.second, before.version, before.second}) {
    const auto number = version_number(version);
    if (!number || instances_of(before, version) + instances_of(after, version) == 0) continue;
    const FunctionName record = version_record(after.function, *number);
    const FunctionSpec* spec = uses_.functions.find(record);
    if (spec == nullptr) continue;
    // Those that an alias gives are the version's; any others are by its own name.
    if (spec->min_instances != wanted(before, version) && spec->min_instances > 0) {
      return done(Error{ErrorCode::kFailedPrecondition,
                        "version " + version + " has " + std::to_string(spec->min_instances) +
                            " instances by its own name; remove these first"});
    }
    all.emplace_back(record, wanted(after, version));
  }
  // The one that is to have more comes first: it can be refused.
  std::ranges::stable_sort(all, std::greater(), &std::pair<FunctionName, unsigned>::second);
  const auto left = std::make_shared<std::vector<std::pair<FunctionName, unsigned>>>(all);
  const auto next = std::make_shared<std::function<void(Result<void>)>>();
  *next = [this, left, next, done = std::move(done)](Result<void> before_it) {
    if (!before_it.ok() || left->empty()) {
      const auto kept = std::exchange(*next, nullptr);  // which holds itself
      return done(before_it);
    }
    const auto [record, instances] = left->front();
    left->erase(left->begin());
    set_instances(record, instances, [next](Result<void> set) { (*next)(set); });
  };
  (*next)({});
}

void FunctionVersions::provision(const FunctionName& qualified, unsigned instances,
                                 Callback<void> done) {
  const FunctionName function = function_of(qualified);
  const std::string qualifier = version_of(qualified);
  if (const auto there = uses_.functions.get(function); !there.ok()) return done(there.error());
  const auto number = version_number(qualifier);
  if (!number) {
    auto alias = find_alias(function, qualifier);
    if (!alias.ok()) return done(alias.error());
    alias->provisioned = instances;
    return update_alias(*std::move(alias), [done = std::move(done)](Result<Alias> updated) {
      done(updated.ok() ? Result<void>{} : updated.error());
    });
  }
  for (const Alias& alias : uses_.aliases.list(function)) {
    if (instances_of(alias, qualifier) == 0) continue;
    return done(Error{ErrorCode::kFailedPrecondition,
                      "version " + qualifier + " has the instances of the alias " +
                          in_quotes(alias.name) + "; change those"});
  }
  set_instances(version_record(function, *number), instances, std::move(done));
}

void FunctionVersions::read_revisions(const FunctionName& function,
                                      Callback<std::vector<Revision>> done) const {
  auto here = list_revisions(function);
  if (!here.ok() || uses_.shared == nullptr) return done(std::move(here));
  uses_.shared->list_revisions(
      function, [here = *std::move(here), done = std::move(done)](auto all) {
        const bool is_away = !all.ok() && all.error().code == ErrorCode::kUnavailable;
        // None was noted before the nodes shared them.
        if (is_away || (all.ok() && all->empty())) return done(here);
        done(std::move(all));
      });
}

void FunctionVersions::roll_back(const FunctionName& function, std::optional<uint64_t> revision,
                                 Callback<FunctionSpec> done) {
  read_revisions(function, [this, function, revision, done = std::move(done)](const auto& kept) {
    if (!kept.ok()) return done(kept.error());
    const auto current = uses_.functions.get(function);
    if (!current.ok()) return done(current.error());
    auto earlier = find_revision(*kept, **current, revision);
    if (!earlier.ok()) return done(earlier.error());
    deploy_again(*std::move(earlier), done);
  });
}

void FunctionVersions::deploy_again(FunctionSpec earlier, Callback<FunctionSpec> done) {
  const std::string code = earlier.code_sha256;
  const bool is_here =
      uses_.functions.codes().contains(code) || uses_.revisions.codes().contains(code);
  const FunctionSpec* current = uses_.functions.find(earlier.name);
  FunctionChange change;
  change.spec = std::move(earlier);
  change.spec.revision = current->revision;
  change.only_if_different = true;
  if (is_here || uses_.shared == nullptr || runs_image(change.spec)) {
    return uses_.deployments.update(std::move(change), std::move(done));
  }
  // Shared because callbacks must be copyable.
  auto held = std::make_shared<FunctionChange>(std::move(change));
  uses_.shared->read_code(code, [this, held, done = std::move(done)](Result<std::string> zip) {
    if (!zip.ok()) {
      const bool is_gone = zip.error().code == ErrorCode::kNotFound;
      return done(Error{is_gone ? ErrorCode::kFailedPrecondition : zip.error().code,
                        "the code of that revision is neither on this node nor in the catalog of "
                        "the cluster; deploy it again: " +
                            zip.error().message});
    }
    held->zip = *std::move(zip);
    uses_.deployments.update(std::move(*held), done);
  });
}

}  // namespace lambent::worker
