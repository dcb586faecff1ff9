// KernelModelFrontend: kernel functions by the Open Inference Protocol (v2), so that a model that
// kernels serve has the clients of every other one. A request becomes an invocation whose payload
// is the bytes of all inputs. On the loop thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "core/http/relay_service.h"
#include "edge/frontend/handler_frontend.h"
#include "edge/inference/infer_response.h"

namespace lambent::frontend {

class KernelModelFrontend {
 public:
  explicit KernelModelFrontend(HandlerFrontend::Dependencies dependencies)
      : uses_(std::move(dependencies)) {}

  // A request to `spec`, a kernel function, below /v2/models or /v2/repository/models.
  void handle(http::RelayCall call, const FunctionSpec& spec);

 private:
  struct Pending;
  // Since this worker's start.
  struct Counts {
    uint64_t succeeded = 0, failed = 0;
    Duration success_time{}, failure_time{};
    Duration last{};  // since the Unix epoch
  };

  void infer(std::shared_ptr<Pending> pending);
  void invoke(const std::shared_ptr<Pending>& pending);
  void answer(const std::shared_ptr<Pending>& pending, Result<InvocationResult> ended);
  void finish(Pending& pending, bool succeeded, http::Response response);
  std::string statistics_json(const FunctionName& function,
                              const inference::ModelIdentity& identity) const;
  // On another thread if `bytes` are many; false: there is too much to do.
  bool compute(size_t bytes, std::function<void()> work, std::function<void()> then);

  const HandlerFrontend::Dependencies uses_;
  std::map<FunctionName, Counts> counts_;
};

}  // namespace lambent::frontend
