#include "frontend/router.h"

#include "frontend/lambda_route.h"

namespace lambent::frontend {

Router::Router(InvocationService& service, loop::EventLoop& loop, Random& random,
               NativeOptions options)
    : lambda_(service, random), native_(service, loop, std::move(options)) {}

void Router::handle(http::Request request, http::Responder responder) {
  if (is_lambda_path(http::path_of(request.target))) {
    lambda_.handle(std::move(request), std::move(responder));
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
