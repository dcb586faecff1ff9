// A request about tenants and tokens: the method in the first line, the target in the second, the
// body after them. What becomes a call has values that a tenant or a token may have.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/domain/limits.h"
#include "edge/frontend/access_call.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  http::Request request;
  for (std::string* part : {&request.method, &request.target}) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    *part = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  request.body = rest;
  const auto call = frontend::decode_access_call(request);
  if (const auto* refused = std::get_if<http::Response>(&call)) {
    CHECK(refused->status >= 400, "what is no call is an error");
    CHECK(!refused->body.empty(), "and says so");
  }
  if (const auto* created = std::get_if<frontend::CreateTenant>(&call)) {
    CHECK(validate(created->tenant).ok(), "a tenant that is to be made may be one");
  }
  if (const auto* token = std::get_if<frontend::CreateToken>(&call)) {
    CHECK(!token->lifetime || *token->lifetime >= seconds(1), "a token lives for a second");
    CHECK(!token->lifetime || *token->lifetime <= limits::kMostTokenLife, "and not for ever");
  }
  if (const auto* change = std::get_if<frontend::ChangeTenant>(&call)) {
    Tenant tenant{.name = "red"};
    const bool applied = frontend::apply_tenant_patch(change->patch, tenant).ok();
    CHECK(!applied || validate(tenant).ok(), "a change leaves what a tenant may be");
    CHECK(tenant.name == "red", "and its name");
  }
  return 0;
}
