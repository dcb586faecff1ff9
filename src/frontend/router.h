// Router: the one handler of the worker's HTTP server; sends each request to the frontend whose
// path it has. On the loop thread.
#pragma once

#include "frontend/lambda.h"
#include "frontend/native.h"
#include "frontend/objects.h"
#include "http/server.h"

namespace lambent::frontend {

class Router {
 public:
  // All that is given outlives the router, and the router the server.
  Router(InvocationService& service, ObjectsFrontend& objects, loop::EventLoop& loop,
         Random& random, NativeOptions options);

  // Lambda's paths begin with a date; everything else is ours.
  void handle(http::Request request, http::Responder responder);
  http::Server::Handler handler();

 private:
  LambdaFrontend lambda_;
  ObjectsFrontend& objects_;
  NativeFrontend native_;
};

}  // namespace lambent::frontend
