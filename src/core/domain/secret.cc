#include "core/domain/secret.h"

#include <algorithm>
#include <cctype>

#include "core/domain/limits.h"

namespace lambent {
namespace {

constexpr std::string_view kValue = "${secret:";
constexpr std::string_view kFile = "${secret-file:";

bool is_name_character(unsigned char c) {
  return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
}

struct Reference {
  size_t begin = 0;
  size_t end = 0;  // behind the brace
  bool is_file = false;
  std::string name;
};

// The first reference from `from` on; nothing if there is none.
Result<std::optional<Reference>> next_reference(std::string_view text, size_t from) {
  const size_t value = text.find(kValue, from);
  const size_t file = text.find(kFile, from);
  const size_t begin = std::min(value, file);
  if (begin == std::string_view::npos) return std::optional<Reference>();
  Reference found{.begin = begin, .is_file = file < value};
  const size_t name = begin + (found.is_file ? kFile : kValue).size();
  const size_t brace = text.find('}', name);
  if (brace == std::string_view::npos) {
    return Error{ErrorCode::kInvalidArgument, "a reference to a secret has no closing brace"};
  }
  found.end = brace + 1;
  found.name = text.substr(name, brace - name);
  RETURN_IF_ERROR(validate_secret_name(found.name));
  return std::optional<Reference>(std::move(found));
}

Error missing(const std::string& name) {
  return {ErrorCode::kFailedPrecondition,
          "secret '" + name +
              "' does not exist, or was kept with another node key; keep it with 'lambent secrets "
              "set " +
              name + "'"};
}

}  // namespace

Result<void> validate_secret_name(std::string_view name) {
  const bool good = !name.empty() && name.size() <= limits::kSecretNameLength &&
                    name.front() != '.' && std::all_of(name.begin(), name.end(), is_name_character);
  if (good) return {};
  return Error{ErrorCode::kInvalidArgument,
               "the name of a secret has 1 to " + std::to_string(limits::kSecretNameLength) +
                   " letters, digits, '-', '_' and '.', and does not begin with '.'"};
}

Result<std::set<std::string>> secret_names(const Variables& environment) {
  std::set<std::string> names;
  for (const auto& [key, text] : environment) {
    for (size_t from = 0;;) {
      const auto reference = next_reference(text, from);
      if (!reference.ok()) return reference.error().with_context("variable '" + key + "'");
      if (!reference->has_value()) break;
      names.insert((*reference)->name);
      from = (*reference)->end;
    }
  }
  return names;
}

Result<ResolvedEnvironment> resolve_secrets(
    const Variables& environment,
    const std::function<std::optional<std::string>(const std::string&)>& find) {
  ResolvedEnvironment resolved;
  for (const auto& [key, text] : environment) {
    std::string& value = resolved.variables[key];
    size_t from = 0;
    for (;;) {
      ASSIGN_OR_RETURN(const auto reference, next_reference(text, from));
      if (!reference) break;
      value += text.substr(from, reference->begin - from);
      from = reference->end;
      auto secret = find(reference->name);
      if (!secret) return missing(reference->name);
      if (reference->is_file) {
        value += std::string(kSecretFolder) + "/" + reference->name;
        resolved.files[reference->name] = *std::move(secret);
      } else if (secret->find('\0') != std::string::npos) {
        return Error{ErrorCode::kFailedPrecondition,
                     "secret '" + reference->name +
                         "' has a NUL character, so it is not a variable; use ${secret-file:" +
                         reference->name + "}"};
      } else {
        value += *secret;
      }
    }
    value += text.substr(from);
  }
  return resolved;
}

}  // namespace lambent
