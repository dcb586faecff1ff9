// KernelModelFrontend: kernel functions by the Open Inference Protocol (v2), so that a model that
// kernels serve has the clients of every other one. A request becomes an invocation whose payload
// is the bytes of all inputs; several requests become one, where the function has batches. On the
// loop thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/http/relay_service.h"
#include "edge/frontend/handler_frontend.h"
#include "edge/inference/batch_queue.h"
#include "edge/inference/compression.h"
#include "edge/inference/limits.h"

namespace lambent::frontend {

class KernelModelFrontend {
 public:
  // `most_decompressed`: of the bodies of all requests under way that came compressed.
  explicit KernelModelFrontend(HandlerFrontend::Dependencies dependencies,
                               Bytes most_decompressed = limits::kDecompressedBodies)
      : uses_(std::move(dependencies)), decompressed_(most_decompressed) {}

  // A request to `spec`, a kernel function, below /v2/models or /v2/repository/models.
  void handle(http::RelayCall call, const FunctionSpec& spec);

 private:
  struct Pending;
  struct Execution;
  // A function since this worker's start.
  struct Served {
    inference::InferStatistics statistics;
    inference::RunCounts runs;
    std::string code_sha256;  // that the queue is for
    std::shared_ptr<inference::BatchQueue> queue;
    // Of other code, until nothing waits there any more.
    std::vector<std::shared_ptr<inference::BatchQueue>> former;
  };

  void infer(std::shared_ptr<Pending> pending);
  void read(const std::shared_ptr<Pending>& pending);
  // The queue of the function as it is now; null: it makes no batches.
  std::shared_ptr<inference::BatchQueue> queue_for(const Pending& pending);
  std::shared_ptr<inference::BatchQueue> make_queue(const ModelDescription& model);
  void execute(std::shared_ptr<Execution> execution);
  void invoke(const std::shared_ptr<Execution>& execution);
  void answer(const std::shared_ptr<Execution>& execution, Result<InvocationResult> ended);
  void respond(const std::shared_ptr<Execution>& execution,
               const std::shared_ptr<Pending>& pending);
  void finish(Pending& pending, bool succeeded, http::Response response);
  std::string statistics_of(const FunctionName& function,
                            const inference::ModelIdentity& identity) const;

  const HandlerFrontend::Dependencies uses_;
  const inference::DecompressedBodies decompressed_;
  std::map<FunctionName, Served> served_;
};

}  // namespace lambent::frontend
