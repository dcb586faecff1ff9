#include "edge/frontend/access_call.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/base/json_reading.h"
#include "core/domain/function_limits.h"
#include "core/domain/limits.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/native_path.h"

namespace lambent::frontend {
namespace {

constexpr Bytes kMostJson = Bytes::kib(64);
constexpr double kMostCount = 1e15;  // of bytes or things; a double has it exactly

Result<Json> document_of(std::string_view text, std::string_view subject) {
  ASSIGN_OR_RETURN(Json document,
                   parse_document(text, kMostJson, {.subject = subject, .most_depth = 4}));
  if (!document.is_object()) return invalid_at(std::string(subject), "an object is expected");
  return document;
}

// One quota of the document: null takes it away, absence leaves it.
class QuotaReader {
 public:
  QuotaReader(const Json& quotas, std::string place) : quotas_(quotas), place_(std::move(place)) {}

  Result<void> count(const char* key, std::optional<uint64_t>& quota) const {
    return read(key, quota, [&](const Json& value) {
      return whole_value(value, at(key), 0, static_cast<uint64_t>(kMostCount));
    });
  }
  Result<void> bytes(const char* key, std::optional<Bytes>& quota) const {
    return read(key, quota, [&](const Json& value) -> Result<Bytes> {
      ASSIGN_OR_RETURN(const uint64_t number,
                       whole_value(value, at(key), 0, static_cast<uint64_t>(kMostCount)));
      return Bytes(number);
    });
  }
  Result<void> seconds_of(const char* key, std::optional<Duration>& quota) const {
    return read(key, quota, [&](const Json& value) -> Result<Duration> {
      ASSIGN_OR_RETURN(const double number, number_value(value, at(key), 0, 1e9));
      return from_seconds(number);
    });
  }
  Result<void> rate(const char* key, std::optional<double>& quota) const {
    return read(key, quota,
                [&](const Json& value) { return number_value(value, at(key), 0, 1e6); });
  }

 private:
  std::string at(const char* key) const { return member_place(place_, key); }

  template <typename T, typename Read>
  Result<void> read(const char* key, std::optional<T>& quota, Read read_value) const {
    const auto found = quotas_.find(key);
    if (found == quotas_.end()) return {};
    if (found->is_null()) {
      quota.reset();
      return {};
    }
    ASSIGN_OR_RETURN(quota, read_value(*found));
    return {};
  }

  const Json& quotas_;
  const std::string place_;
};

Result<void> apply_quotas(const Json& quotas, const std::string& place, TenantQuotas& into) {
  RETURN_IF_ERROR(
      check_keys(quotas, place,
                 {"functions", "concurrency", "gpu_memory_bytes", "gpu_seconds_per_hour",
                  "host_memory_bytes", "object_bytes", "disk_bytes", "requests_per_second"}));
  const QuotaReader reader(quotas, place);
  RETURN_IF_ERROR(reader.count("functions", into.functions));
  RETURN_IF_ERROR(reader.count("concurrency", into.concurrency));
  RETURN_IF_ERROR(reader.bytes("gpu_memory_bytes", into.gpu_memory));
  RETURN_IF_ERROR(reader.seconds_of("gpu_seconds_per_hour", into.gpu_time_per_hour));
  RETURN_IF_ERROR(reader.bytes("host_memory_bytes", into.host_memory));
  RETURN_IF_ERROR(reader.bytes("object_bytes", into.objects));
  RETURN_IF_ERROR(reader.bytes("disk_bytes", into.disk));
  return reader.rate("requests_per_second", into.requests_per_second);
}

// What both creating and changing read.
Result<void> apply_settings(const Json& document, const std::string& place, Tenant& tenant) {
  if (const auto weight = document.find("weight"); weight != document.end()) {
    ASSIGN_OR_RETURN(tenant.weight, number_value(*weight, member_place(place, "weight"),
                                                 limits::kLeastWeight, limits::kMostWeight));
  }
  if (const auto quotas = document.find("quotas"); quotas != document.end()) {
    RETURN_IF_ERROR(apply_quotas(*quotas, member_place(place, "quotas"), tenant.quotas));
  }
  return {};
}

Result<CreateTenant> decode_create_tenant(std::string_view body) {
  ASSIGN_OR_RETURN(const Json document, document_of(body, "the tenant"));
  RETURN_IF_ERROR(check_keys(document, "the request", {"name", "weight", "quotas"}));
  ASSIGN_OR_RETURN(const Json* name, required_member(document, "", "name"));
  CreateTenant call;
  ASSIGN_OR_RETURN(call.tenant.name, name_value(*name, "name", limits::kTenantNameLength));
  RETURN_IF_ERROR(apply_settings(document, "", call.tenant));
  RETURN_IF_ERROR(validate(call.tenant));
  return call;
}

Result<Scopes> scopes_of_document(const Json& list) {
  Scopes scopes;
  for (const Json& each : list) {
    if (!each.is_string()) {
      return invalid_at("scopes", "a list of words is expected");
    }
    ASSIGN_OR_RETURN(const Scopes one, scopes_from(each.get_ref<const std::string&>()));
    for (const Scope scope : kScopes) {
      if (one.has(scope)) scopes.add(scope);
    }
  }
  return scopes;
}

Result<CreateToken> decode_create_token(std::string tenant, std::string_view body) {
  ASSIGN_OR_RETURN(const Json document, document_of(body, "the token"));
  RETURN_IF_ERROR(
      check_keys(document, "the request", {"name", "scopes", "lifetime_seconds", "certificate"}));
  CreateToken call{.tenant = std::move(tenant)};
  ASSIGN_OR_RETURN(const Json* name, required_member(document, "", "name"));
  if (!name->is_string()) {
    return invalid_at("name", "text is expected");
  }
  call.name = name->get<std::string>();
  ASSIGN_OR_RETURN(const Json* scopes,
                   required_list(document, "", "scopes", "scopes", std::size(kScopes)));
  ASSIGN_OR_RETURN(call.scopes, scopes_of_document(*scopes));
  if (const auto lifetime = document.find("lifetime_seconds"); lifetime != document.end()) {
    ASSIGN_OR_RETURN(const double number, number_value(*lifetime, "lifetime_seconds", 1,
                                                       to_seconds(limits::kMostTokenLife)));
    call.lifetime = from_seconds(number);
  }
  if (const auto certificate = document.find("certificate"); certificate != document.end()) {
    if (!certificate->is_string()) return invalid_at("certificate", "text is expected");
    auto name = certificate_name_from(certificate->get_ref<const std::string&>());
    if (!name.ok()) return name.error().with_context("certificate");
    call.certificate = *std::move(name);
  }
  return call;
}

template <typename Call>
AccessCall call_or_response(Result<Call> call) {
  if (!call.ok()) return error_response(call.error());
  return *std::move(call);
}

AccessCall decode_tenants(const http::Request& request) {
  if (request.method == "POST") return call_or_response(decode_create_tenant(request.body));
  if (request.method != "GET") return method_not_allowed(request.method, "GET, POST");
  const std::string_view query = http::query_of(request.target);
  auto limit = page_limit(query, kTenantsPerPage);
  if (!limit.ok()) return error_response(limit.error());
  return ListTenants{.after = http::query_value(query, "after"), .limit = *limit};
}

AccessCall decode_tenant(const http::Request& request, std::string name) {
  if (request.method == "GET") return GetTenant{std::move(name)};
  if (request.method == "DELETE") return RemoveTenant{std::move(name)};
  if (request.method == "PATCH") return ChangeTenant{std::move(name), request.body};
  return method_not_allowed(request.method, "GET, PATCH, DELETE");
}

AccessCall decode_tokens(const http::Request& request, std::string tenant) {
  if (request.method == "GET") return ListTokens{std::move(tenant)};
  if (request.method != "POST") return method_not_allowed(request.method, "GET, POST");
  return call_or_response(decode_create_token(std::move(tenant), request.body));
}

}  // namespace

bool is_access_path(std::string_view path) {
  return path == "/v1/whoami" || path == "/v1/tenants" || path.starts_with("/v1/tenants/");
}

AccessCall decode_access_call(const http::Request& request) {
  const std::string_view path = http::path_of(request.target);
  auto parts = path_parts(path);
  if (!parts) return no_such_path(path);
  if (parts->at(1) == "whoami") {
    if (request.method != "GET") return method_not_allowed(request.method, "GET");
    return WhoAmI();
  }
  if (parts->size() == 2) return decode_tenants(request);
  if (parts->size() == 3) return decode_tenant(request, std::move(parts->at(2)));
  if (parts->at(3) != "tokens" || parts->size() > 5) return no_such_path(path);
  if (parts->size() == 4) return decode_tokens(request, std::move(parts->at(2)));
  if (request.method != "DELETE") return method_not_allowed(request.method, "DELETE");
  return RevokeToken{std::move(parts->at(2)), std::move(parts->at(4))};
}

Result<void> apply_tenant_patch(std::string_view patch, Tenant& tenant) {
  ASSIGN_OR_RETURN(const Json document, document_of(patch, "the change"));
  RETURN_IF_ERROR(check_keys(document, "the request", {"weight", "quotas"}));
  RETURN_IF_ERROR(apply_settings(document, "", tenant));
  return validate(tenant);
}

}  // namespace lambent::frontend
