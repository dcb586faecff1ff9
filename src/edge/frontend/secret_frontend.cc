#include "edge/frontend/secret_frontend.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/time.h"
#include "edge/frontend/json_response.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/native_path.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

constexpr std::string_view kSecrets = "/v1/secrets";

json json_of(const SecretStatus& secret) {
  return {{"name", secret.name}, {"changed_at", to_seconds(secret.changed_at)}};
}

SecretService::Callback<SecretStatus> answer_to(http::Responder responder) {
  // Shared because a callback must be copyable and a responder is not.
  auto answer = std::make_shared<http::Responder>(std::move(responder));
  return [answer](Result<SecretStatus> secret) {
    answer->send(secret.ok() ? json_response(200, json_of(*secret))
                             : error_response(secret.error()));
  };
}

}  // namespace

bool is_secret_path(std::string_view path) {
  return path == kSecrets || path.starts_with(std::string(kSecrets) + "/");
}

void SecretFrontend::handle(const Caller& caller, http::Request request,
                            http::Responder responder) {
  const std::string path(http::path_of(request.target));
  const auto parts = path_parts(path);
  if (!parts || parts->size() > 3) return responder.send(no_such_path(path));
  if (parts->size() == 2) {
    if (request.method != "GET") return responder.send(method_not_allowed(request.method, "GET"));
    json secrets = json::array();
    for (const SecretStatus& secret : service_.list_secrets(caller.tenant)) {
      secrets.push_back(json_of(secret));
    }
    return responder.send(json_response(200, {{"secrets", std::move(secrets)}}));
  }
  if (request.method == "PUT") {
    return service_.put_secret(caller.tenant, parts->at(2), std::move(request.body),
                               answer_to(std::move(responder)));
  }
  if (request.method == "DELETE") {
    return service_.remove_secret(caller.tenant, parts->at(2), answer_to(std::move(responder)));
  }
  responder.send(method_not_allowed(request.method, "PUT, DELETE"));
}

}  // namespace lambent::frontend
