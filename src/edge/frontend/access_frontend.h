// AccessFrontend: /v1/tenants and /v1/whoami on an AccessService. On the loop thread.
#pragma once

#include "core/domain/access_service.h"
#include "core/http/server.h"
#include "edge/frontend/caller.h"

namespace lambent::frontend {

class AccessFrontend {
 public:
  // The service outlives the frontend; the frontend may go while answers are still out.
  explicit AccessFrontend(AccessService& service) : service_(service) {}

  void handle(const Principal& principal, const http::Request& request, http::Responder responder);

 private:
  AccessService& service_;
};

}  // namespace lambent::frontend
