// AccessFrontend: /v1/tenants and /v1/whoami on an AccessService. On the loop thread.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <utility>

#include "core/domain/access_service.h"
#include "core/http/server.h"
#include "edge/frontend/caller.h"

namespace lambent::frontend {

// Weight and quotas, as apply_tenant_patch() reads them.
nlohmann::json tenant_settings(const Tenant& tenant);

class AccessFrontend {
 public:
  // The service outlives the frontend; the frontend may go while answers are still out.
  using Usage = std::function<TenantUsage(TenantId)>;
  AccessFrontend(AccessService& service, Usage usage)
      : service_(service), usage_(std::move(usage)) {}

  void handle(const Principal& principal, const http::Request& request, http::Responder responder);

 private:
  AccessService& service_;
  const Usage usage_;
};

}  // namespace lambent::frontend
