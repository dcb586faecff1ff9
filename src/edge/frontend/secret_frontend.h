// SecretFrontend: /v1/secrets on a SecretService. Values go in and never come out. On the loop
// thread.
#pragma once

#include "core/domain/secret.h"
#include "core/http/server.h"
#include "edge/frontend/caller.h"

namespace lambent::frontend {

bool is_secret_path(std::string_view path);

class SecretFrontend {
 public:
  // The service outlives the frontend; the frontend may go while answers are still out.
  explicit SecretFrontend(SecretService& service) : service_(service) {}

  // The body of a PUT is the value, whatever its type.
  void handle(const Caller& caller, http::Request request, http::Responder responder);

 private:
  SecretService& service_;
};

}  // namespace lambent::frontend
