#include "node/worker/aliases.h"

#include <utility>

#include "core/domain/model_function.h"

namespace lambent::worker {
namespace {

constexpr size_t kMostNamed = 8;

// "it has $LATEST, 1, 2 and prod".
std::string what_there_is(const FunctionName& function, const FunctionRegistry& functions,
                          const Aliases& aliases) {
  std::vector<std::string> names{std::string(kLatestVersion)};
  for (const FunctionSpec* version : functions.versions(function)) {
    names.push_back(version_of(version->name));
  }
  for (const Alias& alias : aliases.list(function)) names.push_back(alias.name);
  std::string list;
  for (size_t i = 0; i < names.size() && i < kMostNamed; ++i) {
    list += (i == 0 ? "" : ", ") + names[i];
  }
  return "it has " + list + (names.size() > kMostNamed ? ", ..." : "");
}

}  // namespace

void Aliases::put(Alias alias) {
  std::map<std::string, Alias>& of_function = aliases_[alias.function];
  of_function.insert_or_assign(alias.name, std::move(alias));
}

void Aliases::remove(const FunctionName& function, const std::string& alias) {
  const auto found = aliases_.find(function);
  if (found == aliases_.end()) return;
  found->second.erase(alias);
  if (found->second.empty()) aliases_.erase(found);
}

const Alias* Aliases::find(const FunctionName& function, const std::string& alias) const {
  const auto found = aliases_.find(function);
  if (found == aliases_.end()) return nullptr;
  const auto named = found->second.find(alias);
  return named == found->second.end() ? nullptr : &named->second;
}

std::vector<Alias> Aliases::list(const FunctionName& function) const {
  std::vector<Alias> list;
  const auto found = aliases_.find(function);
  if (found == aliases_.end()) return list;
  for (const auto& [name, alias] : found->second) list.push_back(alias);
  return list;
}

size_t Aliases::count(const FunctionName& function) const {
  const auto found = aliases_.find(function);
  return found == aliases_.end() ? 0 : found->second.size();
}

Result<FunctionName> resolve(const FunctionName& asked, double point,
                             const FunctionRegistry& functions, const Aliases& aliases) {
  const QualifiedName parts = split_qualifier(asked.name);
  const FunctionName function{asked.tenant, parts.name};
  RETURN_IF_ERROR(functions.get(function));
  if (parts.qualifier.empty() || parts.qualifier == kLatestVersion) return function;
  std::string version = parts.qualifier;
  if (const Alias* alias = aliases.find(function, version)) version = choose_version(*alias, point);
  if (version == kLatestVersion) return function;
  const FunctionName record{asked.tenant, function.name + ":" + version};
  if (version_number(version) && functions.find(record) != nullptr) return record;
  return Error{ErrorCode::kNotFound, "function '" + function.name + "' has no version or alias '" +
                                         parts.qualifier + "'; " +
                                         what_there_is(function, functions, aliases)};
}

Result<FunctionName> resolve_model(const FunctionName& asked, const std::string& version,
                                   double point, const FunctionRegistry& functions,
                                   const Aliases& aliases) {
  const QualifiedName parts = split_qualifier(asked.name);
  const FunctionName function{asked.tenant, parts.name};
  if (!parts.qualifier.empty()) return resolve(asked, point, functions, aliases);
  RETURN_IF_ERROR(functions.get(function));
  if (version.empty()) {
    const std::string serving(kServingAlias);
    if (aliases.find(function, serving) == nullptr) return function;
    return resolve({asked.tenant, function.name + ":" + serving}, point, functions, aliases);
  }
  const std::vector<const FunctionSpec*> versions = functions.versions(function);
  if (versions.empty() || version == kLatestVersion) return function;
  const FunctionName record{asked.tenant, function.name + ":" + version};
  if (version_number(version) && functions.find(record) != nullptr) return record;
  return Error{ErrorCode::kNotFound, "model '" + function.name + "' has no version " + version +
                                         "; it has " + model_versions(versions)};
}

std::string model_versions(const std::vector<const FunctionSpec*>& versions) {
  std::string list;
  for (const FunctionSpec* version : versions) {
    list += (list.empty() ? "" : ",") + version_of(version->name);
  }
  return list;
}

void Revisions::keep(const FunctionSpec& spec) {
  std::map<uint64_t, FunctionSpec>& kept = revisions_[spec.id];
  codes_.add(spec.code_sha256);
  if (const auto before = kept.find(spec.revision); before != kept.end()) {
    codes_.drop(before->second.code_sha256);
  }
  kept.insert_or_assign(spec.revision, spec);
  while (kept.size() > kRevisionsKept) {
    codes_.drop(kept.begin()->second.code_sha256);
    kept.erase(kept.begin());
  }
}

void Revisions::remove(FunctionId function) {
  const auto found = revisions_.find(function);
  if (found == revisions_.end()) return;
  for (const auto& [revision, spec] : found->second) codes_.drop(spec.code_sha256);
  revisions_.erase(found);
}

std::vector<FunctionSpec> Revisions::list(FunctionId function) const {
  std::vector<FunctionSpec> list;
  const auto found = revisions_.find(function);
  if (found == revisions_.end()) return list;
  for (const auto& [revision, spec] : found->second) list.push_back(spec);
  return list;
}

bool is_same_deployment(const FunctionSpec& one, const FunctionSpec& other) {
  FunctionSpec alike = other;
  alike.id = one.id;
  alike.name = one.name;
  alike.revision = one.revision;
  alike.last_modified = one.last_modified;
  return alike == one;
}

}  // namespace lambent::worker
