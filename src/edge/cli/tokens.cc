#include "edge/cli/tokens.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/http/message.h"
#include "edge/cli/api_json.h"
#include "edge/cli/quota_words.h"
#include "edge/cli/text_table.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

// What secrets begin with.
constexpr std::string_view kSecret = "lambent_";
constexpr const char* kWhoAmI = "/v1/whoami";

// "/v1/tenants/NAME/tokens"; without a name that of the credentials.
Result<std::string> tokens_of(Transport& transport, std::string tenant) {
  if (tenant.empty()) {
    ASSIGN_OR_RETURN(const Json self, ask_json(transport, "GET", kWhoAmI));
    tenant = self.value("tenant", "");
    if (tenant.empty()) return not_a_worker(kWhoAmI);
  }
  return "/v1/tenants/" + http::percent_encode(tenant) + "/tokens";
}

std::string scopes_of(const Json& token) {
  std::string text;
  if (!token.contains("scopes") || !token["scopes"].is_array()) return "-";
  for (const Json& scope : token["scopes"]) {
    if (!scope.is_string()) continue;
    text += (text.empty() ? "" : ",") + scope.get<std::string>();
  }
  return text;
}

std::string end_of(const Json& token) {
  if (!token.contains("expires_at") || !token["expires_at"].is_number()) return "never";
  return date_text(token["expires_at"].get<double>());
}

std::string certificate_of(const Json& token) {
  const auto found = token.find("certificate");
  return found != token.end() && found->is_string() ? found->get<std::string>() : "-";
}

Result<Json> request_of(const CreateTokenOptions& options) {
  Json body = {{"name", options.name}, {"scopes", options.scopes}};
  if (!options.certificate.empty()) body["certificate"] = options.certificate;
  if (!options.expires) return body;
  auto lifetime = duration_in(*options.expires);
  if (!lifetime.ok()) return lifetime.error().with_context("--expires");
  body["lifetime_seconds"] = api_seconds(*lifetime);
  return body;
}

// For `eval` or a file. Every word is of characters that a shell leaves as they are.
void write_lines(std::ostream& out, const Json& token, const http::Endpoint& endpoint) {
  out << "export LAMBENT_TOKEN=" << token.value("secret", "") << "\n"
      << "export AWS_ACCESS_KEY_ID=" << token.value("aws_access_key_id", "") << "\n"
      << "export AWS_SECRET_ACCESS_KEY=" << token.value("aws_secret_access_key", "") << "\n";
  if (endpoint.socket_path.empty()) {
    out << "export AWS_ENDPOINT_URL_LAMBDA=" << http::to_string(endpoint) << "\n";
  } else {
    out << "# AWS clients need the worker's TCP address, because they speak to no Unix socket:\n"
        << "# export AWS_ENDPOINT_URL_LAMBDA=http://127.0.0.1:8980\n";
  }
  out << "export AWS_DEFAULT_REGION=us-east-1\n";
}

}  // namespace

int run_tokens_ls(Transport& transport, Console& console, const std::string& tenant) {
  const auto target = tokens_of(transport, tenant);
  if (!target.ok()) return fail(console, target.error());
  const auto list = ask_json(transport, "GET", *target);
  if (!list.ok()) return fail(console, list.error());
  if (console.json) {
    console.out << list->dump(2) << "\n";
    return 0;
  }
  TextTable table({"ID", "NAME", "SCOPES", "CREATED", "EXPIRES", "CERTIFICATE"});
  for (const Json& token : list->value("tokens", Json::array())) {
    table.add({token.value("id", "-"), token.value("name", "-"), scopes_of(token),
               date_text(token.value("created_at", 0.0)), end_of(token), certificate_of(token)});
  }
  console.out << table.str();
  return 0;
}

int run_tokens_create(Transport& transport, const http::Endpoint& endpoint, Console& console,
                      const CreateTokenOptions& options) {
  const auto body = request_of(options);
  if (!body.ok()) return fail(console, body.error());
  const auto target = tokens_of(transport, options.tenant);
  if (!target.ok()) return fail(console, target.error());
  const auto token = ask_json(transport, "POST", *target, &*body);
  if (!token.ok()) return fail(console, token.error());
  if (console.json) {
    console.out << token->dump(2) << "\n";
    return 0;
  }
  console.err << "token " << token->value("id", "-") << " of tenant " << token->value("tenant", "-")
              << ", scopes " << scopes_of(*token) << ", expires " << end_of(*token);
  if (!options.certificate.empty()) {
    console.err << "; for clients that show a certificate with " << certificate_of(*token) << "\n";
    return 0;
  }
  console.err << "; its secrets are shown this once:\n";
  write_lines(console.out, *token, endpoint);
  return 0;
}

int run_tokens_revoke(Transport& transport, Console& console, const std::string& tenant,
                      const std::vector<std::string>& ids) {
  // A secret is not sent in a path, which is logged, nor shown again.
  if (std::any_of(ids.begin(), ids.end(), [](const auto& id) { return id.starts_with(kSecret); })) {
    return fail(console, {ErrorCode::kInvalidArgument,
                          "a token is named by its id, LAMB..., which 'lambent tokens ls' shows, "
                          "not by its secret"});
  }
  const auto target = tokens_of(transport, tenant);
  if (!target.ok()) return fail(console, target.error());
  Json revoked = Json::array();
  int exit_code = 0;
  for (const std::string& id : ids) {
    const auto answer = ask_json(transport, "DELETE", *target + "/" + http::percent_encode(id));
    if (answer.ok()) {
      revoked.push_back(id);
      if (!console.json) console.out << "revoked " << id << "\n";
      continue;
    }
    const int failed = fail(console, answer.error().with_context("revoking " + id));
    if (exit_code == 0) exit_code = failed;
  }
  if (console.json) console.out << Json{{"revoked", revoked}}.dump(2) << "\n";
  return exit_code;
}

int run_whoami(Transport& transport, Console& console) {
  const auto self = ask_json(transport, "GET", kWhoAmI);
  if (!self.ok()) return fail(console, self.error());
  if (console.json) {
    console.out << self->dump(2) << "\n";
    return 0;
  }
  const bool has_token = self->contains("token") && (*self)["token"].is_string();
  TextTable table({"tenant", self->value("tenant", "-")});
  table.add({"scopes", scopes_of(*self)});
  table.add({"token", has_token ? (*self)["token"].get<std::string>() : "none was needed"});
  console.out << table.str();
  return 0;
}

}  // namespace lambent::cli
