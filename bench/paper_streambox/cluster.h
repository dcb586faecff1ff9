// Several modelled nodes under a routing policy of the worker: each request, with the whole
// workflow that it runs, goes to the node that the policy chooses. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/paper_streambox/setup.h"
#include "core/base/result.h"
#include "decide/routing/policy.h"

namespace lambent::paper_streambox {

struct ClusterSetup {
  Setup node;
  unsigned nodes = 4;
  std::string policy{routing::kDefaultPolicy};
  // So many calls count as what a node runs at once: eight for each device, as its jobs. A request
  // has several, and counts as one from when it is sent until the next report.
  unsigned slots = 32;
  // So often the nodes tell each other their loads; of itself a node knows all at once, and of
  // others what it sent there and has no answer to.
  double report_s = 1;
  // Requests reach so many of the nodes, each as many; 0: all.
  unsigned entries = 0;
  // What a forwarded request takes longer, in each direction.
  double hop_s = 150e-6;
  uint64_t seed = 1;
};

struct ClusterResult {
  uint64_t requests = 0, in_time = 0;
  double length_s = 0;
  double memory_bytes = 0;          // mean over the run, of all nodes
  double forwarded = 0;             // share of the requests
  std::vector<uint64_t> by_node;    // requests
  double mean_s = 0;                // of those that were answered
  std::vector<double> latencies_s;  // of each that was answered, in no order
  double goodput() const { return length_s > 0 ? static_cast<double>(in_time) / length_s : 0; }
};

// INVALID_ARGUMENT: there are no nodes, or there is no such policy.
Result<ClusterResult> run_cluster(const Constants& constants, const Models& models,
                                  const Workflow& workflow, const ClusterSetup& setup,
                                  const std::vector<Arrival>& arrivals, double length_s);

// Whose each request is and what its frame shows, as run_once() draws it.
std::vector<Arrival> draw_arrivals(const Constants& constants, unsigned tenants,
                                   const std::vector<double>& moments, uint64_t seed);

}  // namespace lambent::paper_streambox
