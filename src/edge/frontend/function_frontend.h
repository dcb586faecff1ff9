// FunctionFrontend: HTTP requests to functions: makes of each what its program gets, and the answer
// where the program gives none. Handlers get events instead (handler_frontend.h). On the loop
// thread.
#pragma once

#include <string>
#include <utility>

#include "core/http/relay_service.h"
#include "edge/frontend/caller.h"
#include "edge/frontend/function_target.h"
#include "edge/frontend/handler_frontend.h"
#include "edge/frontend/kernel_model.h"
#include "edge/frontend/trusted_proxies.h"

namespace lambent::frontend {

// Of a request to a function: leaves in Authorization what is for this worker, and moves to
// X-Lambent-Authorization what is for the program. A client that has credentials for both sends
// this worker's in X-Lambent-Authorization; where the worker wants no token, Authorization is the
// program's. Before the request is authenticated.
void separate_authorizations(http::Request& request, bool wants_token);

// The answer to a request that reached no function.
http::Response refusal_of(const Error& error);

// What is known of who sends a request.
struct RequestProof {
  // Its body came whole, and a signature covers it.
  bool is_signed = false;
  // Nothing was asked for: only functions with an open URL take it, and their answers say little.
  bool is_anonymous = false;
};

class FunctionFrontend {
 public:
  explicit FunctionFrontend(HandlerFrontend::Dependencies dependencies, TrustedProxies proxies = {})
      : relays_(dependencies.relays),
        handlers_(dependencies),
        models_(std::move(dependencies)),
        proxies_(std::move(proxies)) {}

  void handle(const Caller& caller, const FunctionTarget& target, http::Request request,
              http::Responder responder, RequestProof proof = {});

 private:
  http::RelayService& relays_;
  HandlerFrontend handlers_;
  KernelModelFrontend models_;
  const TrustedProxies proxies_;
};

}  // namespace lambent::frontend
