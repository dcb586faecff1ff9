#include "core/domain/access.h"

namespace lambent {

std::string_view name_of(Scope scope) {
  switch (scope) {
    case Scope::kAdmin:
      return "admin";
    case Scope::kDeploy:
      return "deploy";
    case Scope::kInvoke:
      return "invoke";
    case Scope::kRead:
      return "read";
  }
  return "";
}

std::optional<Scope> scope_from(std::string_view name) {
  for (const Scope scope : kScopes) {
    if (name_of(scope) == name) return scope;
  }
  return std::nullopt;
}

std::string to_string(Scopes scopes) {
  std::string text;
  for (const Scope scope : kScopes) {
    if (!scopes.has(scope)) continue;
    if (!text.empty()) text += ',';
    text += name_of(scope);
  }
  return text;
}

Result<Scopes> scopes_from(std::string_view text) {
  Scopes scopes;
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    const auto scope = scope_from(word);
    if (!scope) {
      return Error{
          ErrorCode::kInvalidArgument,
          "'" + std::string(word) + "' is not a scope; they are admin, deploy, invoke, read"};
    }
    scopes.add(*scope);
    if (comma == std::string_view::npos) return scopes;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace lambent
