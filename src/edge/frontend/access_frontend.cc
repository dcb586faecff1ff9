#include "edge/frontend/access_frontend.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "edge/frontend/access_call.h"
#include "edge/frontend/json_response.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/native_error.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

// No cache is to keep what is listed here, least of all an issued token.
http::Response private_response(int status, const json& body) {
  http::Response response = json_response(status, body);
  response.headers.add("Cache-Control", "no-store");
  return response;
}

template <typename T>
json number_or_null(const std::optional<T>& number) {
  return number ? json(*number) : json(nullptr);
}
json bytes_or_null(const std::optional<Bytes>& bytes) {
  return bytes ? json(bytes->count) : json(nullptr);
}

json json_of(const Tenant& tenant) {
  const TenantQuotas& quotas = tenant.quotas;
  return {
      {"name", tenant.name},
      {"weight", tenant.weight},
      {"created_at", seconds_of(tenant.created_at)},
      {"quotas",
       {{"functions", number_or_null(quotas.functions)},
        {"concurrency", number_or_null(quotas.concurrency)},
        {"gpu_memory_bytes", bytes_or_null(quotas.gpu_memory)},
        {"gpu_seconds_per_hour",
         quotas.gpu_time_per_hour ? json(seconds_of(*quotas.gpu_time_per_hour)) : json(nullptr)},
        {"host_memory_bytes", bytes_or_null(quotas.host_memory)},
        {"object_bytes", bytes_or_null(quotas.objects)},
        {"disk_bytes", bytes_or_null(quotas.disk)},
        {"requests_per_second", number_or_null(quotas.requests_per_second)}}}};
}

json json_of(const TenantUsage& usage) {
  return {{"functions", usage.functions},
          {"disk_bytes", usage.disk.count},
          {"object_bytes", usage.objects.count},
          {"running", usage.running},
          {"waiting", usage.waiting},
          {"gpu_seconds_in_hour", seconds_of(usage.gpu_time_in_hour)},
          {"gpu_memory_bytes", usage.gpu_memory.count},
          {"host_memory_bytes", usage.host_memory.count}};
}

json json_of(Scopes scopes) {
  json list = json::array();
  for (const Scope scope : kScopes) {
    if (scopes.has(scope)) list.push_back(name_of(scope));
  }
  return list;
}

json json_of(const Token& token, const std::string& tenant) {
  return {{"id", token.id},
          {"tenant", tenant},
          {"name", token.name},
          {"scopes", json_of(token.scopes)},
          {"created_at", seconds_of(token.created_at)},
          {"expires_at", token.expires_at ? json(seconds_of(*token.expires_at)) : json(nullptr)},
          {"certificate", token.certificate.empty() ? json(nullptr) : json(token.certificate)}};
}

// Performs one decoded call; a function object over the kinds of call.
class Answering {
 public:
  Answering(AccessService& service, const AccessFrontend::Usage& usage, const Principal& principal,
            http::Responder responder)
      : service_(service),
        usage_(usage),
        principal_(principal),
        answer_(std::make_shared<http::Responder>(std::move(responder))) {}

  void operator()(http::Response& response) { answer_->send(std::move(response)); }

  // With what its tenant may have and has.
  void operator()(WhoAmI&) {
    const std::string name = service_.tenant_name(principal_.tenant);
    json body = {{"tenant", name},
                 {"scopes", json_of(principal_.scopes)},
                 {"token", principal_.token.empty() ? json(nullptr) : json(principal_.token)},
                 {"usage", json_of(usage_(principal_.tenant))}};
    const auto tenant = service_.find_tenant(name);
    if (tenant.ok()) body["quotas"] = json_of(*tenant)["quotas"];
    send(200, body);
  }

  void operator()(ListTenants& call) {
    auto page = service_.list_tenants(call.after, call.limit + 1);
    json next = nullptr;
    if (page.size() > call.limit) {
      page.resize(call.limit);
      next = page.back().name;
    }
    json tenants = json::array();
    for (const Tenant& tenant : page) tenants.push_back(json_of(tenant));
    send(200, {{"tenants", std::move(tenants)}, {"next", std::move(next)}});
  }

  void operator()(CreateTenant& call) {
    service_.create_tenant(std::move(call.tenant), tenant_answer(201));
  }

  void operator()(GetTenant& call) {
    const auto tenant = service_.find_tenant(call.name);
    if (!tenant.ok()) return refuse(tenant.error());
    json body = json_of(*tenant);
    body["usage"] = json_of(usage_(tenant->id));
    send(200, body);
  }

  void operator()(ChangeTenant& call) {
    auto tenant = service_.find_tenant(call.name);
    if (!tenant.ok()) return refuse(tenant.error());
    const auto applied = apply_tenant_patch(call.patch, *tenant);
    if (!applied.ok()) return refuse(applied.error());
    service_.update_tenant(*std::move(tenant), tenant_answer(200));
  }

  void operator()(RemoveTenant& call) { service_.remove_tenant(call.name, tenant_answer(200)); }

  void operator()(ListTokens& call) {
    const auto tenant = service_.find_tenant(call.tenant);
    if (!tenant.ok()) return refuse(tenant.error());
    json tokens = json::array();
    for (const Token& token : service_.list_tokens(tenant->id)) {
      tokens.push_back(json_of(token, tenant->name));
    }
    send(200, {{"tokens", std::move(tokens)}});
  }

  void operator()(CreateToken& call) {
    const auto tenant = service_.find_tenant(call.tenant);
    if (!tenant.ok()) return refuse(tenant.error());
    service_.create_token({.tenant = tenant->id,
                           .name = std::move(call.name),
                           .scopes = call.scopes,
                           .lifetime = call.lifetime,
                           .certificate = std::move(call.certificate)},
                          [answer = answer_, name = tenant->name](Result<IssuedToken> issued) {
                            if (!issued.ok()) return answer->send(error_response(issued.error()));
                            json body = json_of(issued->token, name);
                            if (issued->token.certificate.empty()) {
                              body["secret"] = issued->secret;
                              body["aws_access_key_id"] = issued->token.id;
                              body["aws_secret_access_key"] = issued->signing_secret;
                            }
                            answer->send(private_response(201, body));
                          });
  }

  void operator()(RevokeToken& call) {
    const auto tenant = service_.find_tenant(call.tenant);
    if (!tenant.ok()) return refuse(tenant.error());
    service_.revoke_token(tenant->id, call.id,
                          [answer = answer_, name = tenant->name](Result<Token> token) {
                            if (!token.ok()) return answer->send(error_response(token.error()));
                            answer->send(private_response(200, json_of(*token, name)));
                          });
  }

 private:
  void send(int status, const json& body) { answer_->send(private_response(status, body)); }
  void refuse(const Error& error) { answer_->send(error_response(error)); }

  AccessService::Callback<Tenant> tenant_answer(int status) {
    return [answer = answer_, status](Result<Tenant> tenant) {
      answer->send(tenant.ok() ? private_response(status, json_of(*tenant))
                               : error_response(tenant.error()));
    };
  }

  AccessService& service_;
  const AccessFrontend::Usage& usage_;
  const Principal& principal_;
  // Shared because a callback must be copyable and a responder is not.
  const std::shared_ptr<http::Responder> answer_;
};

}  // namespace

json tenant_settings(const Tenant& tenant) {
  const json shown = json_of(tenant);
  return {{"weight", shown["weight"]}, {"quotas", shown["quotas"]}};
}

void AccessFrontend::handle(const Principal& principal, const http::Request& request,
                            http::Responder responder) {
  AccessCall call = decode_access_call(request);
  std::visit(Answering(service_, usage_, principal, std::move(responder)), call);
}

}  // namespace lambent::frontend
