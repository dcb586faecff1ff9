// PackageRecovery: has what functions need beside their code here again after a restart: Python
// packages and images. Used by Deployments on the loop thread.
#pragma once

#include "core/base/log.h"
#include "core/domain/secret.h"
#include "node/environments/store.h"
#include "node/images/store.h"
#include "node/worker/aliases.h"
#include "node/worker/code_store.h"
#include "node/worker/cuda_packages.h"
#include "node/worker/function_registry.h"
#include "node/worker/image_functions.h"

namespace lambent::worker {

class PackageRecovery {
 public:
  // All outlive it; the constructor uses none.
  struct Dependencies {
    loop::EventLoop& loop;
    LogSink& log;
    FunctionRegistry& functions;
    const Revisions& revisions;
    const CodeStore& code;
    CudaPackages& cuda_packages;
    const SecretService* secrets;                  // null: there are none
    environments::EnvironmentStore* environments;  // null: no Python packages
    images::ImageStore* images;                    // null: no images
    HostPaths host_path;
  };

  explicit PackageRecovery(Dependencies dependencies) : uses_(std::move(dependencies)) {}

  // A state that was restored has no environments, and an operator may have removed one. Blocks to
  // read the package; what is missing comes later, and what cannot be had is logged.
  void recover(const FunctionSpec& spec);

 private:
  void recover_image(const FunctionSpec& spec);

  const Dependencies uses_;
};

}  // namespace lambent::worker
