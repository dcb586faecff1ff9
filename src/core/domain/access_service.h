// AccessService: tenants, their tokens, and whose token a request carries. Frontends ask it;
// node/tenants implements it, tests fake it. All calls and callbacks happen on the loop thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/domain/access.h"
#include "core/domain/tenant.h"

namespace lambent {

// A token to be issued.
struct TokenRequest {
  TenantId tenant;
  std::string name;
  Scopes scopes;
  std::optional<Duration> lifetime;  // none: it does not expire
  std::string certificate;           // as a Token's
};

// Memory of a tenant's sandboxes: of those that start or work, what its waiting invocations would
// take, and what one takes at most.
struct MemoryDemand {
  Bytes at_work, waiting, largest;
};

// What a tenant has and uses of the node now.
struct TenantUsage {
  uint64_t functions = 0;
  Bytes disk;  // packages of its functions, and its volumes
  Bytes objects;
  uint64_t running = 0;  // invocations at work
  uint64_t waiting = 0;
  Duration gpu_time_in_hour{};    // of runs that ended in the last hour
  Bytes gpu_memory, host_memory;  // of its sandboxes, as quotas count them
  MemoryDemand gpu_demand, host_demand;
};

class AccessService {
 public:
  template <typename T>
  using Callback = std::function<void(Result<T>)>;

  virtual ~AccessService() = default;

  // Every change is durable before `done` is called with a value.
  // INVALID_ARGUMENT, ALREADY_EXISTS; RESOURCE_EXHAUSTED if there are too many.
  virtual void create_tenant(Tenant tenant, Callback<Tenant> done) = 0;
  // Replaces weight and quotas of the tenant of that name. NOT_FOUND.
  virtual void update_tenant(Tenant tenant, Callback<Tenant> done) = 0;
  // And its tokens. NOT_FOUND; FAILED_PRECONDITION while it has functions, or if it is the default
  // one.
  virtual void remove_tenant(const std::string& name, Callback<Tenant> done) = 0;
  virtual Result<Tenant> find_tenant(const std::string& name) const = 0;  // NOT_FOUND
  virtual std::string tenant_name(TenantId tenant) const = 0;             // empty if there is none
  // In order of name, after `after` (empty: from the start), at most `limit`.
  virtual std::vector<Tenant> list_tenants(const std::string& after, size_t limit) const = 0;

  // ALREADY_EXISTS if a token has that certificate name, whichever tenant's it is.
  virtual void create_token(TokenRequest request, Callback<IssuedToken> done) = 0;
  // From the call on the token is worth nothing here, whatever becomes of the change on disk.
  // NOT_FOUND if the tenant has none of that id.
  virtual void revoke_token(TenantId tenant, const std::string& id, Callback<Token> done) = 0;
  // In order of creation.
  virtual std::vector<Token> list_tokens(TenantId tenant) const = 0;

  // UNAUTHENTICATED, without a word about what is wrong unless the secret is right.
  virtual Result<Principal> authenticate(std::string_view bearer_token) const = 0;
  // Of a request whose connection showed a verified client certificate with these names. Nothing if
  // none of them has a token. UNAUTHENTICATED if several have, or the token has expired.
  virtual Result<std::optional<Principal>> authenticate_certificate(
      const std::vector<std::string>& names) const = 0;
  // For requests that were signed with a token's signing secret: the secret, if the token is good.
  // UNAUTHENTICATED likewise.
  struct Signer {
    Principal principal;
    std::string signing_secret;
  };
  virtual Result<Signer> find_signer(std::string_view token_id) const = 0;

  // Counts a request against the tenant's requests_per_second. RESOURCE_EXHAUSTED, and after how
  // long the next is served, if it is above.
  struct Admission {
    std::optional<Error> refusal;
    Duration retry_after{};
  };
  virtual Admission admit_request(TenantId tenant) = 0;
};

}  // namespace lambent
