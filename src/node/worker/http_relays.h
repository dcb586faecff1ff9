// HttpRelays: the requests to HTTP functions that are on their way, and those to handlers whose
// answers may come in pieces. Each is an invocation like any other; of an HTTP function it has no
// payload. The session of the sandbox that gets it takes the request, or the answer's sink, from
// here. Used by Worker on the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>

#include "core/base/random.h"
#include "core/domain/invocation_service.h"
#include "core/http/relay_service.h"
#include "node/http_relay/relayed_request.h"
#include "node/worker/aliases.h"
#include "node/worker/function_registry.h"
#include "node/worker/kernel_descriptions.h"

namespace lambent::worker {

class HttpRelays final : public http::RelayService {
 public:
  struct Dependencies {
    Random& random;
    const FunctionRegistry& functions;
    const Aliases& aliases;
    std::function<void(InvocationRequest, InvocationService::Callback<InvocationResult>)> submit;
    std::function<void(InvocationId)> forget;  // its client is gone
    KernelDescriptions& kernels;
    // Calls of kernel functions that may be made together with others.
    std::function<void(const FunctionSpec&, http::HandlerCall)> submit_kernel;
  };

  explicit HttpRelays(Dependencies dependencies) : uses_(std::move(dependencies)) {}

  void relay(http::RelayCall call) override;
  void invoke(http::HandlerCall call) override;
  void forget(InvocationId id) override { uses_.forget(id); }
  bool is_open(const FunctionName& name) const override;
  void describe(const FunctionSpec& spec,
                std::function<void(Result<ModelDescription>)> done) override {
    uses_.kernels.describe(spec, std::move(done));
  }
  std::string cors_of(const FunctionName& name) const override;
  bool has(InvocationId id) const { return live_.contains(id); }
  // Null: there is none.
  std::shared_ptr<http_relay::RelayedRequest> find(InvocationId id) const;
  // Of an invocation of a handler; null: who waits for it takes no pieces.
  std::shared_ptr<http::AnswerSink> sink_of(InvocationId id) const;

 private:
  using AnswerOf = std::function<http::Response(Result<InvocationResult>)>;

  // The function or version that a name, perhaps with a qualifier, means for one request.
  Result<FunctionName> resolved(const FunctionName& name) const;
  // In a header, which versions a model has.
  void tell_versions(http::RelayCall& call) const;
  void ended(InvocationId id, const AnswerOf& answer_of, Result<InvocationResult> result);
  void client_gone(InvocationId id);

  const Dependencies uses_;
  // Each shared with the session that relays it: see RelayedRequest.
  std::unordered_map<InvocationId, std::shared_ptr<http_relay::RelayedRequest>> live_;
  // Each shared with the session that streams into it: see AnswerSink.
  std::unordered_map<InvocationId, std::shared_ptr<http::AnswerSink>> sinks_;
};

}  // namespace lambent::worker
