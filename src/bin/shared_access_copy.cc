#include "bin/shared_access_copy.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/base64.h"
#include "core/base/json_text.h"

namespace lambent {
namespace {

using nlohmann::json;

constexpr size_t kDigestBytes = 32;

std::optional<std::string> text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<std::string> bytes_at(const json& object, const char* key) {
  const auto text = text_at(object, key);
  return text ? base64_decode(*text) : std::nullopt;
}

std::optional<Duration> instant_at(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return Duration(found->get<int64_t>());
}

std::optional<catalog::SharedToken> read_token(const json& object) {
  if (!object.is_object()) return std::nullopt;
  const auto tenant = text_at(object, "tenant");
  const auto id = text_at(object, "id");
  const auto name = text_at(object, "name");
  const auto scopes_text = text_at(object, "scopes");
  const auto digest = bytes_at(object, "secret_sha256");
  const auto created_at = instant_at(object, "created_at_ns");
  const auto certificate = text_at(object, "certificate");
  const bool is_whole = tenant && id && name && scopes_text && digest && created_at && certificate;
  if (!is_whole || digest->size() != kDigestBytes) return std::nullopt;
  const auto scopes = scopes_from(*scopes_text);
  const bool expires = object.contains("expires_at_ns");
  const auto expires_at = instant_at(object, "expires_at_ns");
  if (!scopes.ok() || expires != expires_at.has_value()) return std::nullopt;
  catalog::SharedToken token{.tenant = *tenant, .token = {}, .secret_sha256 = *digest};
  token.token.id = *id;
  token.token.name = *name;
  token.token.scopes = *scopes;
  token.token.created_at = *created_at;
  token.token.expires_at = expires_at;
  token.token.certificate = *certificate;
  return token;
}

std::optional<catalog::SharedSecret> read_secret(const json& object) {
  if (!object.is_object()) return std::nullopt;
  const auto tenant = text_at(object, "tenant");
  const auto name = text_at(object, "name");
  const auto sealed = bytes_at(object, "sealed");
  const auto changed_at = instant_at(object, "changed_at_ns");
  if (!tenant || !name || !sealed || !changed_at) return std::nullopt;
  return catalog::SharedSecret{*tenant, *name, *sealed, *changed_at};
}

}  // namespace

std::string text_of_shared_access(const catalog::SharedAccess& access) {
  json tokens = json::array();
  for (const catalog::SharedToken& each : access.tokens) {
    json token = {{"tenant", each.tenant},
                  {"id", each.token.id},
                  {"name", each.token.name},
                  {"scopes", to_string(each.token.scopes)},
                  {"secret_sha256", base64_encode(each.secret_sha256)},
                  {"created_at_ns", int64_t{each.token.created_at.count()}},
                  {"certificate", each.token.certificate}};
    if (each.token.expires_at) token["expires_at_ns"] = int64_t{each.token.expires_at->count()};
    tokens.push_back(std::move(token));
  }
  json secrets = json::array();
  for (const catalog::SharedSecret& each : access.secrets) {
    secrets.push_back({{"tenant", each.tenant},
                       {"name", each.name},
                       {"sealed", base64_encode(each.sealed)},
                       {"changed_at_ns", int64_t{each.changed_at.count()}}});
  }
  return json_text(json{{"tokens", std::move(tokens)}, {"secrets", std::move(secrets)}});
}

catalog::SharedAccess read_shared_access_text(std::string_view text) {
  catalog::SharedAccess access;
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return access;
  for (const char* key : {"tokens", "secrets"}) {
    if (!object.contains(key) || !object[key].is_array()) return access;
  }
  for (const json& each : object["tokens"]) {
    if (auto token = read_token(each)) access.tokens.push_back(*std::move(token));
  }
  for (const json& each : object["secrets"]) {
    if (auto secret = read_secret(each)) access.secrets.push_back(*std::move(secret));
  }
  return access;
}

}  // namespace lambent
