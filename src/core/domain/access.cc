#include "core/domain/access.h"

#include <algorithm>

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

Result<std::string> certificate_name_from(std::string_view text) {
  constexpr size_t kMostText = 255;  // of an address or a host's name; RFC 5321, RFC 1035
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const std::string_view rest =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  const bool is_known = kind == "email" || kind == "uri" || kind == "dns";
  const bool is_text =
      std::all_of(rest.begin(), rest.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!is_known || rest.empty() || rest.size() > kMostText || !is_text) {
    return Error{ErrorCode::kInvalidArgument,
                 "the name in a certificate is written email:NAME@HOST, uri:URI or dns:HOST, "
                 "in at most 255 characters of ASCII"};
  }
  std::string name(text);
  if (kind == "dns") {
    for (char& c : name) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
  }
  return name;
}

}  // namespace lambent
