// A run of a simulated cluster: arrivals reach any node, a routing policy sends each to one. Pure:
// the same options give the same figures. Used by bench/cluster_sim_bench.cc and tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "decide/routing/policy.h"
#include "sim/cluster_simulator/modelled_node.h"
#include "sim/workload/trace.h"

namespace lambent::cluster_simulator {

struct ClusterOptions {
  uint32_t nodes = 3;
  NodeModel node;
  std::string policy{routing::kDefaultPolicy};
  routing::PolicyOptions policy_options;
  // Requests reach so many of the nodes, each as many; 0: all.
  uint32_t entries = 0;
  // What a forwarded request takes longer, in each direction.
  Duration hop = microseconds(150);
  // So often the nodes tell each other their loads and what is warm; of itself a node knows all at
  // once, and of others what it forwarded and has no answer to. Zero: all know all at once.
  Duration report_period = seconds(1);
  uint64_t seed = 1;
};

struct ClusterFigures {
  uint64_t invocations = 0;
  double mean_s = 0;
  double p50_s = 0;
  double p99_s = 0;
  // Shares of the invocations.
  double cold = 0;
  double fetched = 0;  // of the cold ones, those that read no files
  double swapped_in = 0;
  double forwarded = 0;
  // The most that a node ever had, as a multiple of its slots.
  double most_load = 0;
};

// INVALID_ARGUMENT: there are no nodes, no functions, or no such policy.
Result<ClusterFigures> run_cluster(const ClusterOptions& options,
                                   const std::vector<FunctionModel>& functions,
                                   workload::ArrivalSource& arrivals);

}  // namespace lambent::cluster_simulator
