// Router: the one handler of the worker's HTTP server; refuses what a web page may have sent and
// gives every other request to the frontend whose path it has. On the loop thread.
#pragma once

#include "core/http/server.h"
#include "edge/frontend/lambda.h"
#include "edge/frontend/native.h"
#include "edge/frontend/objects.h"
#include "edge/frontend/request_guard.h"

namespace lambent::frontend {

class Router {
 public:
  // All that is given outlives the router, and the router the server.
  Router(InvocationService& service, ObjectsFrontend& objects, loop::EventLoop& loop,
         Random& random, NativeOptions options, RequestGuard guard);

  // Lambda's paths begin with a date; everything else is ours.
  // The guard's refusals are answered 403, AccessDeniedException under Lambda's paths.
  void handle(http::Request request, http::Responder responder);
  http::Server::Handler handler();

 private:
  RequestGuard guard_;
  LambdaFrontend lambda_;
  ObjectsFrontend& objects_;
  NativeFrontend native_;
};

}  // namespace lambent::frontend
