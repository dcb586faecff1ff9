// What each stage process of a pipeline's instance is told: its components, what it receives and
// sends, by which channels. A stage process with replicas counts as often as it has them. Pure;
// used by PipelineHost on the loop thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decide/pipeline/dag.h"
#include "decide/pipeline/hand_over.h"
#include "decide/pipeline/partition.h"

namespace lambent::worker {

// One value from one stage process to one other, by a channel of its own.
struct StageProcessChannel {
  size_t value = 0;  // the component that makes it
  size_t from = 0;   // into StageProcessPlans::stage_processes
  size_t to = 0;

  bool operator==(const StageProcessChannel&) const = default;
};

struct StageProcessPlan {
  std::vector<size_t> components;
  pipeline::Process process;
  // Channels. Of a value that comes from a stage process with replicas, one from each of them, in
  // their order; the same of one that goes to such a stage process.
  std::vector<size_t> receives;
  std::vector<size_t> sends;
  bool needs_events = false;  // some component has an input of the function, or it is the last
  bool gathers = false;       // it has or receives all outputs, and answers with the results
};

struct StageProcessPlans {
  std::vector<StageProcessPlan> stage_processes;
  std::vector<StageProcessChannel> channels;
};

// In the order of the placement's slices.
StageProcessPlans plan_stage_processes(const pipeline::Dag& dag,
                                       const pipeline::Placement& placement);

// Jobs whose values it holds.
uint32_t slots_of(const StageProcessPlans& plans, size_t channel);

// Where a stage process's sandbox finds them.
inline constexpr char kStageFile[] = "/opt/lambent/stage.json";
std::string channel_path(size_t channel);  // "/opt/lambent/channels/0"

// The content of kStageFile, as docs/decisions/0016 has it.
std::string stage_json(const StageProcessPlans& plans, size_t stage_process,
                       const pipeline::Dag& dag, const std::string& handler);

}  // namespace lambent::worker
