// The calls of /v1/tenants and /v1/whoami, decoded from HTTP. Values; decode_access_call is a pure
// function and the only reader of such requests.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "core/domain/access.h"
#include "core/domain/tenant.h"
#include "core/http/message.h"

namespace lambent::frontend {

constexpr size_t kTenantsPerPage = 250;

struct WhoAmI {};
struct ListTenants {
  std::string after;  // a name; empty: from the start
  size_t limit = kTenantsPerPage;
};
struct CreateTenant {
  Tenant tenant;
};
struct GetTenant {
  std::string name;
};
// What is to become of a tenant: what is not named stays, and a quota that is null goes.
struct ChangeTenant {
  std::string name;
  std::string patch;  // JSON; apply_tenant_patch reads it
};
struct RemoveTenant {
  std::string name;
};
struct ListTokens {
  std::string tenant;
};
struct CreateToken {
  std::string tenant;
  std::string name;
  Scopes scopes;
  std::optional<Duration> lifetime;
  std::string certificate;
};
struct RevokeToken {
  std::string tenant;
  std::string id;
};

// A request that is no good call is the response that answers it.
using AccessCall = std::variant<http::Response, WhoAmI, ListTenants, CreateTenant, GetTenant,
                                ChangeTenant, RemoveTenant, ListTokens, CreateToken, RevokeToken>;

bool is_access_path(std::string_view path);
AccessCall decode_access_call(const http::Request& request);

// INVALID_ARGUMENT, naming the place, if the patch is no good; `tenant` may be half changed then.
Result<void> apply_tenant_patch(std::string_view patch, Tenant& tenant);

}  // namespace lambent::frontend
