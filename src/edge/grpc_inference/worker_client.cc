#include "edge/grpc_inference/worker_client.h"

#include <utility>
#include <vector>

#include "core/base/mutex.h"

namespace lambent::grpc_inference {

struct WorkerClient::State {
  explicit State(http::Endpoint its_endpoint) : endpoint(std::move(its_endpoint)) {}

  std::unique_ptr<http::BlockingClient> take() {
    const MutexLock lock(mutex);
    if (idle.empty()) return nullptr;
    auto client = std::move(idle.back());
    idle.pop_back();
    return client;
  }
  void keep(std::unique_ptr<http::BlockingClient> client) {
    const MutexLock lock(mutex);
    idle.push_back(std::move(client));
  }

  const http::Endpoint endpoint;
  Mutex mutex;
  // That no request uses now: at most as many as there were requests at once.
  std::vector<std::unique_ptr<http::BlockingClient>> idle GUARDED_BY(mutex);
};

WorkerClient::WorkerClient(http::Endpoint endpoint)
    : state_(std::make_unique<State>(std::move(endpoint))) {}
WorkerClient::~WorkerClient() = default;

Result<http::Response> WorkerClient::send(const http::Request& request, Duration timeout) {
  auto client = state_->take();
  if (client == nullptr) client = std::make_unique<http::BlockingClient>(state_->endpoint);
  auto response = client->send(request, timeout);
  // A connection in the middle of an answer is of no use.
  if (response.ok()) state_->keep(std::move(client));
  return response;
}

}  // namespace lambent::grpc_inference
