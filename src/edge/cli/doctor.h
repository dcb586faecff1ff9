// lambent doctor: what this machine has for a worker, what it lacks, and what to do about it. The
// facts are gathered elsewhere (bin/machine_facts.h); what they mean is said here, by a pure
// function.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "core/domain/nvidia_gpus.h"
#include "edge/cli/console.h"

namespace lambent::cli {

// What was found on a machine. A value.
struct MachineFacts {
  // What lambent-launcher --probe said, "name: value" a line, and whether sandboxes can be made.
  Result<std::string> sandboxes = Error{ErrorCode::kUnknown, "not tried"};
  bool sandboxes_possible = false;

  NvidiaFacts nvidia;

  std::string state_folder;  // of a worker that this user starts
  Result<Bytes> state_free = Error{ErrorCode::kUnknown, "not tried"};

  // Programs that functions and deployments use: what they say of their version.
  std::optional<std::string> python;
  std::optional<std::string> uv;
  std::optional<std::string> compiler;  // clang++ or g++
  std::optional<std::string> nvcc;
  // PTX of the kernels that come with Lambent: the version that each bundle states.
  std::map<std::string, CudaVersion> kernel_ptx;

  std::string endpoint;                  // where a worker was looked for
  std::optional<std::string> worker;     // its version
  std::optional<std::string> other_one;  // what answers there and is no worker
};

enum class Health { kGood, kWeaker, kBad };
std::string_view name_of(Health health);  // "good", "weaker", "bad"

struct Finding {
  Health health = Health::kGood;
  std::string subject;  // such as "sandboxes"
  std::string says;
  std::string remedy;  // empty: nothing has to be done

  bool operator==(const Finding&) const = default;
};

// In the order in which one needs things.
std::vector<Finding> findings_of(const MachineFacts& facts);

// Shows them; 0, or the exit code of FAILED_PRECONDITION if a worker cannot run here.
int show_findings(Console& console, const std::vector<Finding>& findings);

}  // namespace lambent::cli
