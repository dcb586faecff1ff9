// PlanInputs: what 'lambent plan' plans with: a function, what was measured of it, the slices that
// are free; from files or from a worker. A value; parsed strictly, wherever it comes from.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/domain/slice.h"
#include "decide/pipeline/planner.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

struct PlanOptions {
  std::string function;  // of the worker; or
  std::string pipeline;  // the file pipeline.json, or a folder with it or with its lambent.toml
  std::string profile;   // the file profile.json; empty: what the worker has, or lies beside
  // That are free on each GPU: "4g.40gb,2*1g.10gb"; empty: those that are free at the worker.
  std::string slices;
  std::string family = "a100-80gb";  // of the devices that these are slices of
  unsigned gpus = 1;
  std::string memory;  // instead of what the manifest declares: "8G"; for what was not measured
  std::string rank;    // instead of the function's
  pipeline::TransferCosts costs;
  size_t most_shown = 20;
};

struct PlanInputs {
  pipeline::PipelineDefinition definition;
  pipeline::MeasuredProfile measured;
  bool is_measured = false;
  bool knows_slices = false;       // which are free, be it none
  std::vector<Slice> free;         // with ids from 1 up
  std::vector<SliceShape> shapes;  // by which partitions are judged
  size_t instances = 0;            // that it has at the worker already
  Bytes declared_memory;
  // What the worker chose between slices and a shared device, and why; empty: there was no choice,
  // or no worker was asked.
  std::string isolation;
  std::vector<std::string> isolation_reasons;
};

Result<PlanInputs> plan_inputs(Transport& transport, const PlanOptions& options);

}  // namespace lambent::cli
