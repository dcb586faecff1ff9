// DeploymentPackage: what a deployment brings, unpacked and checked. Used by Deployments on the
// file thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/domain/invocation_service.h"
#include "core/domain/python_packages.h"
#include "node/worker/code_store.h"
#include "node/worker/function_rules.h"
#include "node/worker/pipeline_host.h"
#include "node/worker/scheduled_invocations.h"
#include "node/worker/workflow_package.h"

namespace lambent::worker {

// What functions and their packages are checked against.
struct DeploymentRules {
  FunctionRules functions;
  PipelineSetting pipelines;
  std::string built_in_kernels;  // the folder of kernels that packages may name
};

// A function's code and its package, where that describes something.
struct DeploymentPackage {
  FunctionChange change;
  std::shared_ptr<const workflow::Workflow> graph;
  std::shared_ptr<const PipelinePackage> pipeline;
  PipelineHost::Planned planned;
  std::optional<PythonPackages> python;  // to install first
  std::string cuda_package = {};         // as CudaPackages finds it
  std::vector<std::string> mount_folders = {};
  TimeZones zones = {};  // of its schedules
  OtherNodes others = {};
};

// Whether something of it has to be read or written before the function is kept.
bool needs_files(const FunctionChange& change);

// Unpacks the code of the change and fills in what the package says; of the function it sets the
// code, and the GPU memory that its kernels need. Blocks. INVALID_ARGUMENT, FAILED_PRECONDITION:
// what is wrong with it.
Result<void> unpack_package(const CodeStore& code, const DeploymentRules& rules,
                            DeploymentPackage& package);

bool may_have_python_packages(FunctionKind kind);
// What the package in the folder says of Python packages; nothing if it says nothing. Blocks.
Result<std::optional<PythonPackages>> read_python_packages(const std::string& folder);

}  // namespace lambent::worker
