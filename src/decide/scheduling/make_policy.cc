#include "decide/scheduling/make_policy.h"

#include <array>
#include <string>

#include "decide/scheduling/batch.h"
#include "decide/scheduling/exclusive.h"

namespace lambent::scheduling {
namespace {

constexpr std::array<std::string_view, 8> kNames = {"density",      "mqfq-sticky", "mqfq-uniform",
                                                    "fcfs",         "fcfs-naive",  "batch",
                                                    "cfs-affinity", "exclusive"};

std::unique_ptr<Policy> make_known(std::string_view name, const PolicyOptions& options) {
  if (name == "density") {
    return std::make_unique<DensityPolicy>(options.mqfq.fair_queuing(), options.density);
  }
  if (name == "mqfq-sticky") return std::make_unique<MqfqStickyPolicy>(options.mqfq);
  if (name == "mqfq-uniform") {
    MqfqOptions uniform = options.mqfq;
    if (!uniform.uniform_cost) uniform.uniform_cost = kUniformCost;
    return std::make_unique<MqfqStickyPolicy>(uniform);
  }
  if (name == "fcfs" || name == "fcfs-naive") {
    return std::make_unique<FcfsPolicy>(
        FcfsOptions{.keeps_sandboxes = name == "fcfs",
                    .moves_off_after_run = options.fcfs_moves_off_after_run});
  }
  if (name == "batch") return std::make_unique<BatchPolicy>();
  if (name == "cfs-affinity") return std::make_unique<CfsAffinityPolicy>(options.cfs);
  if (name == "exclusive") return std::make_unique<ExclusivePolicy>();
  return nullptr;
}

}  // namespace

void archive(StateArchive& archive, PolicyOptions& options) {
  MqfqOptions& mqfq = options.mqfq;
  archive.field(mqfq.over_run);
  archive.field(mqfq.anticipation);
  archive.field(mqfq.longest_anticipation);
  archive.field(mqfq.first_estimate);
  archive.choice(mqfq.order, CandidateOrder::kLengthFirst);
  archive.field(mqfq.duplicates_last);
  archive.field(mqfq.memory_first);
  archive.field(mqfq.uniform_cost);
  archive.field(options.fcfs_moves_off_after_run);
  archive.field(options.cfs.penalty);
  archive.field(options.density.grace_period);
  archive.field(options.density.first_start);
  archive.field(options.density.link_bytes_per_second);
}

std::span<const std::string_view> policy_names() { return kNames; }

Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyOptions& options) {
  if (auto policy = make_known(name, options)) return policy;
  std::string known;
  for (const std::string_view each : kNames) {
    known += (known.empty() ? "" : ", ") + std::string(each);
  }
  return Error{ErrorCode::kInvalidArgument,
               "there is no policy '" + std::string(name) + "'; there are: " + known};
}

}  // namespace lambent::scheduling
