// FunctionFrontend: requests to HTTP functions: makes of each what its program gets, and the answer
// where the program gives none. On the loop thread.
#pragma once

#include <string>

#include "core/http/relay_service.h"
#include "edge/frontend/caller.h"
#include "edge/frontend/function_target.h"

namespace lambent::frontend {

// Of a request to a function: leaves in Authorization what is for this worker, and moves to
// X-Lambent-Authorization what is for the program. A client that has credentials for both sends
// this worker's in X-Lambent-Authorization; where the worker wants no token, Authorization is the
// program's. Before the request is authenticated.
void separate_authorizations(http::Request& request, bool wants_token);

class FunctionFrontend {
 public:
  explicit FunctionFrontend(http::RelayService& relays) : relays_(relays) {}

  void handle(const Caller& caller, const FunctionTarget& target, http::Request request,
              http::Responder responder);

 private:
  http::RelayService& relays_;
};

}  // namespace lambent::frontend
