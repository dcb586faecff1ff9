// Given: the first part of a slice scenario: the policy, the slices, the pipeline functions. Used
// by the runner; one thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "decide/pipeline/rank_rule.h"
#include "decide/pipeline/stage_process_cost.h"
#include "decide/slice_scheduling/policy.h"
#include "sim/slice_simulator/model.h"
#include "tests/scenarios/words.h"

namespace lambent::slice_scenario {

using scenario::Failure;
using scenario::Words;

class Given {
 public:
  // Reads one line of it; false if the line belongs to the story already.
  bool read(Words& words);
  // The machine with its slices and planned functions, without arrivals and faults.
  slice_simulator::Scene scene() const;
  std::unique_ptr<slice_scheduling::SlicePolicy> policy() const;
  // By name.
  const std::map<std::string, FunctionId>& functions() const { return ids_; }

 private:
  struct Draft {
    pipeline::PipelineFunction function;
    pipeline::RankRule rank = pipeline::RankRule::kBalance;
  };
  void read_slice(Words& words);
  void read_function(Words& words);
  void read_component(Words& words);
  void read_takes(Words& words, pipeline::ComponentProfile& profile);
  void read_batch(Words& words, pipeline::ComponentProfile& profile);
  void read_inputs(Words& words, const pipeline::Dag& dag, pipeline::Component& component) const;
  pipeline::TransferCosts costs() const;

  std::string policy_ = "fluidfaas";
  Bytes link_per_s_ = Bytes::gib(10);  // of each copy
  std::vector<Slice> slices_;
  std::vector<Draft> drafts_;
  std::map<std::string, FunctionId> ids_;
  std::map<FunctionId, double> slowdown_;
};

// "2g.20gb": 28 multiprocessors and 20 parts of 972 MiB, as an 80 GB device has them.
SliceShape shape_named(const std::string& name);

}  // namespace lambent::slice_scenario
