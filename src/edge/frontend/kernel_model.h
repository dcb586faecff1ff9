// KernelModelFrontend: kernel functions by the Open Inference Protocol (v2), so that a model that
// kernels serve has the clients of every other one. A request becomes an invocation whose payload
// is the bytes of all inputs; several requests become one, where the function has batches. On the
// loop thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/domain/tensor_limits.h"
#include "core/http/relay_service.h"
#include "edge/frontend/handler_frontend.h"
#include "edge/inference/batch_queue.h"
#include "edge/inference/compression.h"
#include "edge/inference/limits.h"

namespace lambent::frontend {

class KernelModelFrontend {
 public:
  // `most_decompressed`: of the bodies of all requests under way that came compressed;
  // `most_under_way`: of all bodies that are longer than an event.
  explicit KernelModelFrontend(HandlerFrontend::Dependencies dependencies,
                               Bytes most_decompressed = limits::kDecompressedBodies,
                               Bytes most_under_way = limits::kTensorsUnderWay)
      : uses_(std::move(dependencies)),
        decompressed_(most_decompressed),
        most_under_way_(most_under_way) {}

  // A request to `spec`, a kernel function, below /v2/models or /v2/repository/models.
  void handle(http::RelayCall call, const FunctionSpec& spec);

 private:
  struct Pending;
  struct Execution;
  using Lease = std::shared_ptr<const void>;
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
  // What so long a body takes of all that are under way; nothing: there is no room for it.
  std::optional<Lease> lease_of(size_t bytes) const;
  void finish(Pending& pending, bool succeeded, http::Response response);
  std::string statistics_of(const FunctionName& function,
                            const inference::ModelIdentity& identity) const;

  const HandlerFrontend::Dependencies uses_;
  const inference::DecompressedBodies decompressed_;
  const Bytes most_under_way_;
  std::map<FunctionName, Served> served_;
  // Shared with the leases, whose answers may be sent after this.
  std::shared_ptr<size_t> under_way_ = std::make_shared<size_t>(0);
};

}  // namespace lambent::frontend
