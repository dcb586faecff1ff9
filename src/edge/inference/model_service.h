// ModelService: one model behind the REST API of the Open Inference Protocol (v2), with Triton's
// extensions for bytes, statistics and the configuration. On the loop thread.
#pragma once

#include <cstdint>
#include <string>

#include "core/http/server.h"
#include "edge/inference/engine_thread.h"
#include "edge/inference/infer_response.h"

namespace lambent::inference {

struct ModelServiceOptions {
  ModelIdentity model;
  std::string version;  // of Lambent, which server metadata tells
  // What a compressed body may come to.
  Bytes most_body = Bytes::mib(512);
};

// As Triton counts: nanoseconds and times.
struct InferStatistics {
  struct Sum {
    uint64_t count = 0;
    Duration time{};
    void add(Duration more) {
      ++count;
      time += more;
    }
  };
  Sum success, fail, queue, input, infer, output;
  uint64_t inferences = 0;  // of batches, each of its elements
  uint64_t executions = 0;
  Duration last{};  // since the Unix epoch; zero: none yet
};

class ModelService {
 public:
  // Both outlive it; the server that calls handle() is gone before.
  ModelService(ModelEngine& engine, loop::EventLoop& loop, ModelServiceOptions options);

  void handle(http::Request request, http::Responder responder);
  const InferStatistics& statistics() const { return statistics_; }

 private:
  http::Response answer_to(const std::string& method, std::string_view path) const;
  void infer(http::Request request, http::Responder responder);
  std::string statistics_json() const;

  loop::EventLoop& loop_;
  const ModelServiceOptions options_;
  const ModelDescription& description_;
  InferStatistics statistics_;
  EngineThread thread_;
};

}  // namespace lambent::inference
