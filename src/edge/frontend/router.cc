#include "edge/frontend/router.h"

#include "edge/frontend/lambda_fault.h"
#include "edge/frontend/lambda_route.h"
#include "edge/frontend/native_error.h"

namespace lambent::frontend {

namespace {

constexpr std::string_view kObjects = "/v1/objects";

}  // namespace

Router::Router(InvocationService& service, ObjectsFrontend& objects, loop::EventLoop& loop,
               Random& random, NativeOptions options, RequestGuard guard)
    : guard_(std::move(guard)),
      lambda_(service, random),
      objects_(objects),
      native_(service, loop, random, std::move(options)) {}

void Router::handle(http::Request request, http::Responder responder) {
  const bool to_lambda = is_lambda_path(http::path_of(request.target));
  if (const auto allowed = guard_.check(request); !allowed.ok()) {
    const Error& error = allowed.error();
    responder.send(to_lambda ? response_of(fault_of(error)) : error_response(error));
  } else if (to_lambda) {
    lambda_.handle(std::move(request), std::move(responder));
  } else if (const std::string path(http::path_of(request.target));
             path == kObjects || path.starts_with(std::string(kObjects) + "/")) {
    const Caller caller = caller_of(request);
    objects_.handle(caller, std::move(request), path.substr(kObjects.size()), std::move(responder));
  } else {
    native_.handle(std::move(request), std::move(responder));
  }
}

http::Server::Handler Router::handler() {
  return [this](http::Request request, http::Responder responder) {
    handle(std::move(request), std::move(responder));
  };
}

}  // namespace lambent::frontend
