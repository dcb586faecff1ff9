// WorkerClient: requests to the worker by several threads at once, over connections that are kept.
// Any thread.
#pragma once

#include <memory>

#include "core/http/client.h"

namespace lambent::grpc_inference {

class WorkerClient {
 public:
  explicit WorkerClient(http::Endpoint endpoint);
  ~WorkerClient();
  WorkerClient(const WorkerClient&) = delete;
  WorkerClient& operator=(const WorkerClient&) = delete;

  // Waits for the answer; errors are those of http::BlockingClient.
  Result<http::Response> send(const http::Request& request, Duration timeout);

 private:
  // Abseil, which gRPC includes, and Lambent have macros of the same names: a mutex stays apart.
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace lambent::grpc_inference
