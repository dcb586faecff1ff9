// What WorkflowHost knows of one run while it waits or runs. Only for the files of WorkflowHost.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "node/worker/workflow_host.h"

namespace lambent::worker {

struct WorkflowHost::LiveRun {
  InvocationId id;
  FunctionName name;
  FunctionId function;
  Duration timeout{};
  std::string payload;  // until it begins
  std::string trace_id;
  std::shared_ptr<const workflow::Workflow> graph;
  size_t depth = 1;
  bool called = false;                 // by another run
  bool acknowledged = false;           // or part of what was
  std::shared_ptr<size_t> all_calls;   // made by the outermost run and all below it
  bool goes_on = false;                // a GoOn is under way
  std::unique_ptr<workflow::Run> run;  // none: it has not begun
  bool begun = false;
  Instant began{};
  loop::TimerId timer;
  std::set<InvocationId> calls;  // under way
  std::set<ObjectId> objects;    // that it made, each held
  std::set<ObjectId> imported;   // that its values name beside those, each held
  std::set<ObjectId> elsewhere;  // that it made on other nodes
  std::set<ObjectId> sent;       // of those that it made here: other nodes have copies
  std::map<ObjectId, workflow::CallKey> makers;  // of objects: calls of kernel functions
  std::map<uint32_t, ComponentOutputs> outputs;  // what those of a component become
  std::set<uint32_t> repeatable;  // components whose calls had no effects when they were first made
  Bytes values;                   // its part of values_
  StartClass start = StartClass::kWarm;
  RunRecord record;

  FunctionName function_of(const workflow::CallKey& key) const {
    return {name.tenant, graph->components[key.component].function};
  }
  // A busy loop may come to its timer late.
  bool is_late(Instant now) const { return now - began >= timeout; }
  // Which call made the objects of that invocation in the value.
  void note_made(InvocationId maker, const workflow::CallKey& key, const workflow::Value& value);
  // What has to be where a call runs before that is queued.
  std::vector<ObjectId> needs_of(const workflow::Value& input, bool is_elsewhere) const;
};

// How a run ends that did nothing of its own.
inline InvocationResult rejected(Error error) {
  InvocationResult end;
  end.outcome = Outcome::kRejected;
  end.error = std::move(error);
  return end;
}

// And one whose function, or whose calls, failed.
InvocationResult failed(const workflow::Failure& failure);

}  // namespace lambent::worker
