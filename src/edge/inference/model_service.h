// ModelService: one model behind the REST API of the Open Inference Protocol (v2), with Triton's
// extensions for bytes, statistics and the configuration. On the loop thread.
#pragma once

#include <cstdint>
#include <string>

#include "core/http/server.h"
#include "edge/inference/compression.h"
#include "edge/inference/infer_response.h"
#include "edge/inference/infer_statistics.h"
#include "edge/inference/run_queue.h"

namespace lambent::inference {

// Of a request, as it comes.
constexpr Bytes kMostBody = Bytes::mib(512);

struct ModelServiceOptions {
  std::string function;  // what the model is called: "scores", or the version "scores:3"
  std::string version;   // of Lambent, which server metadata tells
  batching::BatchLimits batches;
  // Of all requests together, once they are decompressed: a few bytes can become very many.
  Bytes most_decompressed = kMostBody;
};

class ModelService {
 public:
  // Both outlive it; the server that calls handle() is gone before.
  ModelService(ModelEngine& engine, loop::EventLoop& loop, ModelServiceOptions options);

  void handle(http::Request request, http::Responder responder);
  const InferStatistics& statistics() const { return statistics_; }

 private:
  struct Inference;
  void infer(http::Request request, http::Responder responder);
  // The tensors of its request, which point into its body.
  Result<void> read(Inference& inference) const;
  void finish(Inference& inference);
  void refuse(Inference& inference, const Error& error);
  // Which version it is, and which others there are, as the worker says with the request.
  ModelIdentity identity_for(const http::Request& request) const;

  loop::EventLoop& loop_;
  const ModelServiceOptions options_;
  const ModelDescription& description_;
  const DecompressedBodies decompressed_;
  InferStatistics statistics_;
  RunQueue runs_;
};

}  // namespace lambent::inference
