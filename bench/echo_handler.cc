// A native handler that gives back what it got: the least that a function can do, for `bench
// invoke`.
#include "edge/runtime_client/runtime_client.h"

namespace client = lambent::runtime_client;

int main() {
  return client::run(client::Handler([](const client::Invocation& invocation) -> client::Outcome {
    return client::Response{std::string(invocation.payload)};
  }));
}
