// The request that deploys a function: it sends of the code what the worker lacks, and waits for
// what is installed. Blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "core/base/result.h"
#include "core/domain/function.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

struct Deployed {
  std::string action;   // "created", "updated" or "unchanged"
  std::string changes;  // JSON: a list of what differs, field by field
  // Where the function was of another kind: "handler" and "model".
  std::optional<std::pair<std::string, std::string>> kind_change = {};
  std::string answer;       // the worker's FunctionConfiguration, JSON
  uint64_t bytes_sent = 0;  // in bodies
  uint64_t code_sent = 0;   // of them, of the package
  uint64_t revision = 0;
  bool under_way = false;  // packages are installed; it serves once they are there
};
// What a deployment waits for, in words.
using DeployProgress = std::function<void(const std::string& progress)>;

// Whether a FunctionConfiguration (JSON) is of a change that goes on, or failed. Pure.
struct DeploymentState {
  bool under_way = false;
  std::string reason = {};  // what is done
  std::optional<Error> failure = {};
  std::string warning = {};  // what the owner of a function that serves should know
};
DeploymentState read_deployment_state(const std::string& configuration);

struct DeployHow {
  bool dry_run = false;
  bool waits = true;
  DeployProgress tell = {};
};
// Creates the function, or changes code and settings of the one that has its name, in one call and
// one revision. What the worker has of the code is not sent.
Result<Deployed> deploy_function(Transport& transport, const FunctionSpec& spec,
                                 const std::string& zip, const DeployHow& how = {});

}  // namespace lambent::cli
